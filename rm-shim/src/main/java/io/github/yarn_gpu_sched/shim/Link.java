package io.github.yarn_gpu_sched.shim;

import io.github.yarn_gpu_sched.protocol.v1.ResourceManagerLinkServiceGrpc;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.net.InetSocketAddress;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The way to the service: one channel, at most one stream, opened anew for ever. Used by one thread only. */
final class Link {
  private static final Logger LOG = LoggerFactory.getLogger(Link.class);
  private static final int MESSAGE_BYTES_MAX = 1 << 20;

  private final ManagedChannel channel;
  private final Counters counters;
  private final Runnable wake;
  private final String address;
  private final Backoff connecting = new Backoff(100, 2_000);
  private final Backoff opening = new Backoff(100, 5_000);
  private volatile ConnectivityState watched;
  private Stream stream;
  private String lastReason = "";

  Link(Settings settings, Counters counters, Runnable wake) {
    this.counters = counters;
    this.wake = wake;
    this.address = settings.serviceHost + ":" + settings.servicePort;
    this.channel = NettyChannelBuilder.forAddress(new InetSocketAddress(settings.serviceHost, settings.servicePort))
        .usePlaintext()
        .directExecutor()  // callbacks only note and wake: a thread of their own would only cost time
        .proxyDetector(target -> null)  // loopback: never through a proxy that the resource manager's environment names
        .maxInboundMessageSize(MESSAGE_BYTES_MAX)
        .disableRetry()
        .build();
  }

  /** The stream, once it can be written to; null while there is none. */
  Stream stream(long nowNs) {
    String why = stream == null ? null : stream.over(nowNs);
    if (why != null) {
      lose(why, nowNs);
    }
    if (stream == null && connected(nowNs) && opening.due(nowNs)) {
      opening.pause(nowNs);
      stream = new Stream(counters, wake);
      ResourceManagerLinkServiceGrpc.newStub(channel).connect(stream);
    }
    return stream;
  }

  /** The service has answered: the next loss is a new one. */
  void greeted(String session, String version) {
    opening.reset();
    lastReason = "";
    LOG.info("Connected to the scheduling service at {}, version {}, session {}", address, version, session);
  }

  void lose(String why, long nowNs) {
    stream.cancel(why);
    stream = null;
    opening.pause(nowNs);
    if (!why.equals(lastReason)) {
      LOG.warn("Not connected to the scheduling service at {}: {}. Nothing is placed on servers with GPUs meanwhile.", address, why);
      lastReason = why;
    }
  }

  void close() {
    channel.shutdownNow();
    try {
      if (!channel.awaitTermination(5, TimeUnit.SECONDS)) {
        LOG.warn("The channel to the scheduling service did not end within 5 s");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private boolean connected(long nowNs) {
    ConnectivityState state = channel.getState(true);
    if (state == ConnectivityState.READY) {
      connecting.reset();
      return true;
    }
    if (state == ConnectivityState.TRANSIENT_FAILURE && connecting.due(nowNs)) {
      connecting.pause(nowNs);
      channel.resetConnectBackoff();  // gRPC's own pauses grow to two minutes
      if (lastReason.isEmpty()) {
        lastReason = "no service listens";
        LOG.warn("No scheduling service listens at {}. Nothing is placed on servers with GPUs until it does.", address);
      }
    }
    if (state != watched) {
      watched = state;
      channel.notifyWhenStateChanged(state, () -> {
        watched = null;
        wake.run();
      });
    }
    return false;
  }

  /** Pauses that double up to a bound, with up to half of it by chance. */
  static final class Backoff {
    private final long firstMs;
    private final long longestMs;
    private long pauseMs;
    private long dueNs = System.nanoTime();

    Backoff(long firstMs, long longestMs) {
      this.firstMs = firstMs;
      this.longestMs = longestMs;
      this.pauseMs = firstMs;
    }

    boolean due(long nowNs) {
      return nowNs - dueNs >= 0;
    }

    void pause(long nowNs) {
      long ms = pauseMs / 2 + ThreadLocalRandom.current().nextLong(pauseMs / 2 + 1);
      dueNs = nowNs + TimeUnit.MILLISECONDS.toNanos(ms);
      pauseMs = Math.min(longestMs, pauseMs * 2);
    }

    void reset() {
      pauseMs = firstMs;
    }
  }
}
