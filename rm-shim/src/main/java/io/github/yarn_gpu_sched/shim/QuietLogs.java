package io.github.yarn_gpu_sched.shim;

import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.apache.log4j.LogManager;
import org.slf4j.LoggerFactory;

/** Keeps the resource manager's log free of what repeats: gRPC's own messages, and one that stock placement would repeat. */
public final class QuietLogs {
  /** Held, since java.util.logging forgets the settings of loggers that nobody holds. */
  private static final Logger GRPC = Logger.getLogger(io.grpc.Status.class.getPackage().getName());
  private static final String ALLOCATOR =
      "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.allocator.RegularContainerAllocator";

  private QuietLogs() {
  }

  public static void install() {
    GRPC.setLevel(Level.SEVERE);
    GRPC.setUseParentHandlers(false);
    if (GRPC.getHandlers().length == 0) {
      GRPC.addHandler(new ToSlf4j());
    }
    silenceAllocator();
  }

  /** It warns at each heartbeat of a server without GPUs that an ask for GPUs does not fit there, beside one that does. */
  private static void silenceAllocator() {
    try {
      org.apache.log4j.Logger allocator = LogManager.getLogger(ALLOCATOR);
      if (allocator.getLevel() == null) {
        allocator.setLevel(org.apache.log4j.Level.ERROR);
      }
    } catch (LinkageError e) {
      LoggerFactory.getLogger(QuietLogs.class).warn("No log4j here: set {} to ERROR by hand", ALLOCATOR);
    }
  }

  private static final class ToSlf4j extends Handler {
    @Override
    public void publish(LogRecord record) {
      LoggerFactory.getLogger(QuietLogs.class).warn("gRPC: {}: {}", record.getMessage(), String.valueOf(record.getThrown()));
    }

    @Override
    public void flush() {
      // slf4j writes at once
    }

    @Override
    public void close() {
      // nothing is open
    }
  }
}
