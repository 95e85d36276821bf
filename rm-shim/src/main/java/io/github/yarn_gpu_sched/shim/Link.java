package io.github.yarn_gpu_sched.shim;

import io.github.yarn_gpu_sched.protocol.v1.*;
import io.grpc.*;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.io.*;
import java.net.InetSocketAddress;
import java.util.concurrent.*;
import org.slf4j.*;

/** The way to the service: one channel, at most one stream, opened anew for ever. Used by one thread only. */
final class Link {
  private static final Logger LOG = LoggerFactory.getLogger(Link.class);
  /** Held, since java.util.logging forgets the settings of loggers that nobody holds. */
  private static final java.util.logging.Logger GRPC = java.util.logging.Logger.getLogger(Status.class.getPackage().getName());
  private static final int MESSAGE_BYTES_MAX = 1 << 20;
  private static final long PAUSE_MS_MIN = 100;
  private static final long PAUSE_MS_MAX = 2_000;
  private static final String NO_CONNECTION = "nobody listens, or one of the two does not accept the other's certificate";
  private final Settings settings;
  private final Counters counters;
  private final Runnable wake;
  private ManagedChannel channel;
  private Stream stream;
  /** Between tries to connect or to open a stream: doubled up to its bound, reset when the service answers. */
  private long pauseMs = PAUSE_MS_MIN;
  private long nextTryNs = System.nanoTime();
  private String lastReason = "";

  Link(Settings settings, Counters counters, Runnable wake) {
    this.settings = settings;
    this.counters = counters;
    this.wake = wake;
    GRPC.setLevel(java.util.logging.Level.SEVERE);
  }

  /** By TLS each try is a new connection: with the files as they are now, to where the name points now. */
  private ManagedChannel open() throws IOException {
    boolean plain = settings.tls == null;
    InetSocketAddress to = settings.service;
    return NettyChannelBuilder.forAddress(plain ? to : new InetSocketAddress(to.getHostString(), to.getPort()),
            plain ? InsecureChannelCredentials.create() : settings.tls.credentials()).disableRetry()
        .directExecutor()  // callbacks only note and wake: a thread of their own would only cost time
        .proxyDetector(target -> null)  // never through a proxy that the resource manager's environment names
        .maxInboundMessageSize(MESSAGE_BYTES_MAX).build();
  }

  private void disconnect() {
    if (channel != null) channel.shutdownNow();
    channel = null;
  }

  /** The stream; null while there is none. It may not be writable yet. */
  Stream stream(long nowNs) {
    String why = stream == null ? null : stream.over(nowNs);
    if (why != null) lose(why);
    if (stream != null || nowNs - nextTryNs < 0) return stream;
    try {
      if (channel == null) channel = open();
    } catch (IOException | IllegalArgumentException unfit) {
      pause(String.valueOf(unfit.getMessage()));
      return null;
    }
    ConnectivityState state = channel.getState(true);
    if (state == ConnectivityState.READY) {
      stream = new Stream(counters, wake);
      ResourceManagerLinkServiceGrpc.newStub(channel).connect(stream);
    } else if (state == ConnectivityState.TRANSIENT_FAILURE) {
      channel.resetConnectBackoff();  // gRPC's own pauses grow to two minutes
      if (settings.tls != null) disconnect();
      pause(settings.tls != null ? NO_CONNECTION : lastReason.isEmpty() ? "nobody listens" : lastReason);
    }
    return stream;
  }

  /** The service has answered: the next loss is a new one. Returns the session's id. */
  String greeted(Registered by) {
    pauseMs = PAUSE_MS_MIN;
    lastReason = "";
    LOG.info("Connected to the scheduling service {} at {}, session {}", by.getServiceVersion(), settings.service, by.getSessionId());
    return by.getSessionId();
  }

  void lose(String why) {
    if (stream != null) stream.cancel(why);
    stream = null;
    if (settings.tls != null) disconnect();
    pause(why);
  }

  void close() { disconnect(); }

  /** Warns once for each reason, not once for each try. */
  private void pause(String why) {
    if (!why.equals(lastReason)) {
      LOG.warn("No link to the scheduling service at {}: {}. Nothing is placed on servers with GPUs meanwhile.", settings.service, why);
    }
    lastReason = why;
    long ms = pauseMs / 2 + ThreadLocalRandom.current().nextLong(pauseMs / 2 + 1);
    nextTryNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
    pauseMs = Math.min(PAUSE_MS_MAX, pauseMs * 2);
  }
}
