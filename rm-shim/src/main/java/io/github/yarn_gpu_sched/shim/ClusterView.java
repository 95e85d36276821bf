package io.github.yarn_gpu_sched.shim;

import io.github.yarn_gpu_sched.protocol.v1.*;
import java.util.Collection;
import java.util.Map;
import java.util.function.BiConsumer;

/** What the resource manager holds at this moment; what is not there is null. S and J identify servers and jobs. */
public interface ClusterView<S, J> {
  /** Who this is: epoch, start time, agent. */
  Register.Builder register();
  Collection<S> servers();

  /** Jobs that have not ended. */
  Collection<J> jobs();
  Map<String, VirtualCluster> virtualClusters();
  Server server(S server);

  /** Containers that the server has not lost yet, by their ids; those of the known ones that are still true are given back. */
  Map<String, Container> containers(S server, Map<String, Container> known);
  J jobOf(Container container);

  /** How a container that was told of came to its end. */
  ContainerReleased released(Container container);

  /** Also of a job that ended, as long as something is known of it. */
  Job job(J job);

  /** Null when the job has no attempt that may ask. */
  JobAsks asks(J job);

  /** Null while the job has not ended. */
  JobEnded ended(J job);

  /** Does what a decision says, all of it or nothing, tells of each container made, and says what became of it. Never throws. */
  Outcome decide(Decision decision, BiConsumer<S, Container> made);

  /** Shows why a job waits to whoever asks the resource manager. Never throws. */
  void explain(Explanation one);
}
