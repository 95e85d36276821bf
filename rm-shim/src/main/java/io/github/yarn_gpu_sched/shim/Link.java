package io.github.yarn_gpu_sched.shim;

import io.github.yarn_gpu_sched.protocol.v1.ResourceManagerLinkServiceGrpc;
import io.grpc.*;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.util.concurrent.*;
import org.slf4j.*;

/** The way to the service: one channel, at most one stream, opened anew for ever. Used by one thread only. */
final class Link {
  private static final Logger LOG = LoggerFactory.getLogger(Link.class);
  private static final int MESSAGE_BYTES_MAX = 1 << 20;
  private final ManagedChannel channel;
  private final Settings settings;
  private final Counters counters;
  private final Runnable wake;
  private final Backoff connecting = new Backoff(100, 2_000);
  private final Backoff opening = new Backoff(100, 5_000);
  private volatile ConnectivityState watched;
  private Stream stream;
  private String lastReason = "";

  Link(Settings settings, Counters counters, Runnable wake) {
    this.settings = settings;
    this.counters = counters;
    this.wake = wake;
    this.channel = NettyChannelBuilder.forAddress(settings.service).usePlaintext().disableRetry()
        .directExecutor()  // callbacks only note and wake: a thread of their own would only cost time
        .proxyDetector(target -> null)  // never through a proxy that the resource manager's environment names
        .maxInboundMessageSize(MESSAGE_BYTES_MAX).build();
  }

  /** The stream; null while there is none. It may not be writable yet. */
  Stream stream(long nowNs) {
    String why = stream == null ? null : stream.over(nowNs);
    if (why != null) lose(why);
    if (stream == null && connected(nowNs) && opening.due(nowNs)) {
      stream = new Stream(counters, wake);
      ResourceManagerLinkServiceGrpc.newStub(channel).connect(stream);
    }
    return stream;
  }

  /** The service has answered: the next loss is a new one. */
  void greeted(String session, String version) {
    opening.reset();
    lastReason = "";
    LOG.info("Connected to the scheduling service at {}, version {}, session {}", settings.service, version, session);
  }

  void lose(String why) {
    stream.cancel(why);
    stream = null;
    opening.pause(System.nanoTime());
    warn(why);
  }

  void close() {
    channel.shutdownNow();
    try {
      if (!channel.awaitTermination(5, TimeUnit.SECONDS)) LOG.warn("The channel to the scheduling service did not end within 5 s");
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private boolean connected(long nowNs) {
    ConnectivityState state = channel.getState(true);
    if (state == ConnectivityState.READY) connecting.reset();
    if (state == ConnectivityState.TRANSIENT_FAILURE && connecting.due(nowNs)) {
      connecting.pause(nowNs);
      channel.resetConnectBackoff();  // gRPC's own pauses grow to two minutes
      if (lastReason.isEmpty()) warn("nobody listens");
    }
    if (state != watched) {
      watched = state;
      channel.notifyWhenStateChanged(state, () -> {
        watched = null;
        wake.run();
      });
    }
    return state == ConnectivityState.READY;
  }

  /** Once for each reason, not once for each try. */
  private void warn(String why) {
    if (!why.equals(lastReason)) {
      LOG.warn("No link to the scheduling service at {}: {}. Nothing is placed on servers with GPUs meanwhile.", settings.service, why);
    }
    lastReason = why;
  }

  /** Pauses that double up to a bound, with up to half of it by chance. */
  private static final class Backoff {
    private final long firstMs;
    private final long longestMs;
    private long pauseMs;
    private long dueNs = System.nanoTime();

    Backoff(long firstMs, long longestMs) {
      this.firstMs = firstMs;
      this.longestMs = longestMs;
      this.pauseMs = firstMs;
    }

    boolean due(long nowNs) { return nowNs - dueNs >= 0; }

    void pause(long nowNs) {
      dueNs = nowNs + TimeUnit.MILLISECONDS.toNanos(pauseMs / 2 + ThreadLocalRandom.current().nextLong(pauseMs / 2 + 1));
      pauseMs = Math.min(longestMs, pauseMs * 2);
    }

    void reset() { pauseMs = firstMs; }
  }
}
