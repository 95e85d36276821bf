package io.github.yarn_gpu_sched.shim;

import java.util.logging.*;
import org.slf4j.LoggerFactory;

/** Passes on what gRPC logs only when it is severe, and to the resource manager's log instead of its standard output. */
public final class QuietLogs extends Handler {
  /** Held, since java.util.logging forgets the settings of loggers that nobody holds. */
  private static final Logger GRPC = Logger.getLogger(io.grpc.Status.class.getPackage().getName());

  public static synchronized void install() {
    GRPC.setLevel(Level.SEVERE);
    GRPC.setUseParentHandlers(false);
    if (GRPC.getHandlers().length == 0) GRPC.addHandler(new QuietLogs());
  }

  @Override public void publish(LogRecord record) {
    LoggerFactory.getLogger(QuietLogs.class).warn("gRPC: {}: {}", record.getMessage(), String.valueOf(record.getThrown()));
  }

  @Override public void flush() { }

  @Override public void close() { }
}
