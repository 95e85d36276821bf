package io.github.yarn_gpu_sched.shim;

import com.google.protobuf.CodedOutputStream;
import io.github.yarn_gpu_sched.protocol.v1.*;
import java.util.ArrayDeque;

/** Changes that wait to be sent, in order, and cut into batches that respect the link's limits. */
final class Outbox {
  static final int BATCH_CHANGES_MAX = 1000;
  /** 1 MiB a message, less what the message around the batch takes. */
  static final int BATCH_BYTES_MAX = (1 << 20) - 64;
  /** While so many wait, nothing more is looked at and no decision is begun. */
  static final int WAITING_MAX = 4096;
  private final ArrayDeque<Change> waiting = new ArrayDeque<>();
  private int changesUntilEnd = -1;

  void add(Change.Builder change) { waiting.add(change.build()); }

  /** What was added until now, and nothing later, is the snapshot. */
  void endSnapshot() { changesUntilEnd = waiting.size(); }
  boolean full() { return waiting.size() >= WAITING_MAX; }
  int size() { return waiting.size(); }

  /** The next batch; null when there is nothing to say. */
  Batch next() {
    Batch.Builder batch = Batch.newBuilder();
    int bytes = 0;
    while (!waiting.isEmpty() && changesUntilEnd != 0 && batch.getChangesCount() < BATCH_CHANGES_MAX) {
      bytes += CodedOutputStream.computeMessageSize(Batch.CHANGES_FIELD_NUMBER, waiting.peek());
      if (bytes > BATCH_BYTES_MAX && batch.getChangesCount() > 0) break;
      batch.addChanges(waiting.poll());
      changesUntilEnd--;
    }
    if (changesUntilEnd == 0) batch.setSnapshotEnd(true);
    if (batch.getSnapshotEnd()) changesUntilEnd = -1;
    return batch.getChangesCount() == 0 && !batch.getSnapshotEnd() ? null : batch.build();
  }
}
