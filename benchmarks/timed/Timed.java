package io.github.yarn_gpu_sched.timed;

import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import javax.management.JMException;
import javax.management.ObjectName;

/** How long each call took, in order, at the ResourceManager's /jmx. */
public final class Timed implements TimedMXBean {
  private static final int CALLS_MAX = 1 << 20;

  private final int[] took_ns = new int[CALLS_MAX];
  private final AtomicInteger calls = new AtomicInteger();

  Timed() {
    try {
      ManagementFactory.getPlatformMBeanServer().registerMBean(this, new ObjectName("yarn-gpu-sched:name=Allocate"));
    } catch (JMException e) {
      throw new IllegalStateException(e);
    }
  }

  <T> T time(boolean asks, Supplier<T> call) {
    long begun_ns = System.nanoTime();
    try {
      return call.get();
    } finally {
      int took = (int) Math.min(Integer.MAX_VALUE, System.nanoTime() - begun_ns);
      int number = calls.getAndIncrement();
      if (number < CALLS_MAX) {
        took_ns[number] = asks ? -took : took;
      }
    }
  }

  @Override
  public int getCalls() {
    return calls.get();
  }

  @Override
  public int[] getTookNs() {
    return Arrays.copyOf(took_ns, Math.min(CALLS_MAX, calls.get()));
  }
}
