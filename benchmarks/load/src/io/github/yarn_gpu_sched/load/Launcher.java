package io.github.yarn_gpu_sched.load;

import org.apache.hadoop.yarn.api.records.Container;

/** Starts a container that an ApplicationMaster was given. */
@FunctionalInterface
interface Launcher {
  void launch(Container container);
}
