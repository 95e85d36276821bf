package io.github.yarn_gpu_sched.shim;

import io.github.yarn_gpu_sched.protocol.v1.*;
import io.grpc.Status;
import io.grpc.stub.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;

/** One stream of the link. gRPC's threads only note what happened and wake the shim's thread, which does all else. */
final class Stream implements ClientResponseObserver<ConnectRequest, ConnectResponse> {
  /** Bytes taken in and not yet worked off; with more the stream ends, and all begins again with a snapshot. */
  static final int INBOUND_BYTES_MAX = 16 << 20;
  private static final long SILENCE_NS_MAX = TimeUnit.SECONDS.toNanos(3);
  private static final int REASON_CHARS_MAX = 300;
  private final ConcurrentLinkedQueue<ConnectResponse> inbound = new ConcurrentLinkedQueue<>();
  private final AtomicInteger inboundBytes = new AtomicInteger();
  private final Counters counters;
  private final Runnable wake;
  private volatile ClientCallStreamObserver<ConnectRequest> call;
  private volatile long heardAtNs = System.nanoTime();
  private volatile String ended;
  private long sequence;

  Stream(Counters counters, Runnable wake) {
    this.counters = counters;
    this.wake = wake;
  }

  @Override public void beforeStart(ClientCallStreamObserver<ConnectRequest> started) {
    started.setOnReadyHandler(wake);
    call = started;
  }

  @Override public void onNext(ConnectResponse response) {
    heardAtNs = System.nanoTime();
    if (response.hasHeartbeat()) return;
    if (inboundBytes.addAndGet(response.getSerializedSize()) <= INBOUND_BYTES_MAX) {
      inbound.add(response);
    } else {
      counters.add(Counters.Of.DROPPED, 1);
      ended = "the service sent more decisions than can be worked off";
    }
    wake.run();
  }

  @Override public void onError(Throwable error) {
    Status status = Status.fromThrowable(error);
    String reason = (status.getCode() + ": " + status.getDescription()).replaceAll("\\p{Cntrl}", " ");
    ended = reason.substring(0, Math.min(REASON_CHARS_MAX, reason.length()));
    wake.run();
  }

  @Override public void onCompleted() {
    ended = "the service ended the stream";
    wake.run();
  }

  /** Why the stream is of no use any more; null while it is. */
  String over(long nowNs) {
    if (ended == null && nowNs - heardAtNs > SILENCE_NS_MAX) ended = "the service has been silent for 3 s";
    return ended;
  }

  /** The service breaks the link's rules: it is heard no more. */
  void end(String why) { ended = why; }
  boolean writable() { return ended == null && call.isReady(); }

  /** Returns the bytes sent. */
  int send(ConnectRequest.Builder request) {
    ConnectRequest message = request.setSequence(++sequence).build();
    call.onNext(message);
    return message.getSerializedSize();
  }

  /** The next message of the service; null when there is none. */
  ConnectResponse receive() {
    ConnectResponse response = inbound.poll();
    if (response != null) inboundBytes.addAndGet(-response.getSerializedSize());
    return response;
  }

  boolean anyReceived() { return !inbound.isEmpty(); }
  void cancel(String why) { call.cancel(why, null); }
}
