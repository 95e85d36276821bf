package io.github.yarn_gpu_sched.shim;

import io.github.yarn_gpu_sched.protocol.v1.Container;
import io.github.yarn_gpu_sched.protocol.v1.Decision;
import io.github.yarn_gpu_sched.protocol.v1.Outcome;
import java.util.function.BiConsumer;

/** Does what a decision says, all of it or nothing, and says what became of it. Never throws. */
public interface Committer<S> {
  /** Reports each container that it made, with its server, before it returns. */
  Outcome decide(Decision decision, BiConsumer<S, Container> made);
}
