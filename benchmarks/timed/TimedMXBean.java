package io.github.yarn_gpu_sched.timed;

/** What Timed shows. */
public interface TimedMXBean {
  int getCalls();

  /** Nanoseconds of each call in order, negative where it asked for something. */
  int[] getTookNs();
}
