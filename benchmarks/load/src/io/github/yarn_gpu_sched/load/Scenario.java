package io.github.yarn_gpu_sched.load;

/** One thing to be tried or measured on a cluster. */
interface Scenario {
  int HELD = 0;
  int BROKEN = 1;

  /** Runs to its end; returns the exit code: {@link #HELD}, or {@link #BROKEN} when what must hold did not. */
  int run(Cluster cluster) throws Exception;
}
