package io.github.yarn_gpu_sched.shim;

import io.github.yarn_gpu_sched.protocol.v1.Container;

/** A container on a server's list, cheap to compare with what was said of it before. J identifies its job. */
public interface LiveContainer<J> {
  String containerId();

  J job();

  boolean saidBy(Container known);

  Container say();
}
