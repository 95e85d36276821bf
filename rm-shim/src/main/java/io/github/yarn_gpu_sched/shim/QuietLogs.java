package io.github.yarn_gpu_sched.shim;

import java.util.logging.*;
import org.slf4j.LoggerFactory;

/** Keeps the resource manager's log free of what repeats: gRPC's own messages, and a warning of stock placement. */
public final class QuietLogs {
  /** Held, since java.util.logging forgets the settings of loggers that nobody holds. */
  private static final Logger GRPC = Logger.getLogger(io.grpc.Status.class.getPackage().getName());
  private static final String ALLOCATOR =
      "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.allocator.RegularContainerAllocator";

  private QuietLogs() { }

  public static synchronized void install() {
    GRPC.setLevel(Level.SEVERE);
    GRPC.setUseParentHandlers(false);
    if (GRPC.getHandlers().length == 0) GRPC.addHandler(new ToSlf4j());
    try {  // it would warn at each heartbeat of a server without GPUs that an ask for GPUs does not fit there
      org.apache.log4j.Logger allocator = org.apache.log4j.LogManager.getLogger(ALLOCATOR);
      if (allocator.getLevel() == null) allocator.setLevel(org.apache.log4j.Level.ERROR);
    } catch (LinkageError e) {
      LoggerFactory.getLogger(QuietLogs.class).warn("No log4j here: set {} to ERROR by hand", ALLOCATOR);
    }
  }

  private static final class ToSlf4j extends Handler {
    @Override public void publish(LogRecord record) {
      LoggerFactory.getLogger(QuietLogs.class).warn("gRPC: {}: {}", record.getMessage(), String.valueOf(record.getThrown()));
    }

    @Override public void flush() { }

    @Override public void close() { }
  }
}
