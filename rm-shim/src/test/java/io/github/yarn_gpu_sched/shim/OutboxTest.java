package io.github.yarn_gpu_sched.shim;

import static org.junit.jupiter.api.Assertions.*;

import io.github.yarn_gpu_sched.protocol.v1.*;
import java.util.*;
import org.junit.jupiter.api.Test;

class OutboxTest {
  private final Outbox out = new Outbox();

  private void add(int changes, int chars) {
    for (int i = 0; i < changes; i++) out.add(Change.newBuilder().setServerRemoved("x".repeat(chars)));
  }

  private List<Batch> batches() {
    List<Batch> all = new ArrayList<>();
    for (Batch batch = out.next(); batch != null; batch = out.next()) all.add(batch);
    return all;
  }

  @Test void nothingIsNoBatch() {
    assertNull(out.next());
  }

  @Test void batchesAreCutByCount() {
    add(2001, 1);
    assertEquals(List.of(1000, 1000, 1), batches().stream().map(Batch::getChangesCount).collect(java.util.stream.Collectors.toList()));
  }

  @Test void batchesAreCutByBytes() {
    add(100, 60_000);
    List<Batch> all = batches();
    for (Batch each : all) assertTrue(ConnectRequest.newBuilder().setSequence(Long.MAX_VALUE).setBatch(each).build().getSerializedSize() <= 1 << 20);
    assertEquals(100, all.stream().mapToInt(Batch::getChangesCount).sum());
    assertTrue(all.size() >= 6 && all.size() <= 7, all.size() + " batches");
  }

  @Test void theSnapshotsEndIsInItsLastBatchAndOnce() {
    add(3, 1);
    out.endSnapshot();
    add(2, 1);
    List<Batch> all = batches();
    assertEquals(List.of(3, 2), all.stream().map(Batch::getChangesCount).collect(java.util.stream.Collectors.toList()));
    assertEquals(List.of(true, false), all.stream().map(Batch::getSnapshotEnd).collect(java.util.stream.Collectors.toList()));
  }

  @Test void anEmptySnapshotEndsToo() {
    out.endSnapshot();
    assertTrue(out.next().getSnapshotEnd());
    assertNull(out.next());
  }

  @Test void aSnapshotSentInPartsEndsAfterItsRest() {
    add(5, 1);
    assertFalse(out.next().getSnapshotEnd());
    out.endSnapshot();
    assertTrue(out.next().getSnapshotEnd());
  }

  @Test void itIsFullWhenTooMuchWaits() {
    add(Outbox.WAITING_MAX - 1, 1);
    assertFalse(out.full());
    add(1, 1);
    assertTrue(out.full());
  }
}
