package io.github.yarn_gpu_sched.shim;

import io.github.yarn_gpu_sched.protocol.v1.Container;
import io.github.yarn_gpu_sched.protocol.v1.Job;
import io.github.yarn_gpu_sched.protocol.v1.JobAsks;
import io.github.yarn_gpu_sched.protocol.v1.JobEnded;
import io.github.yarn_gpu_sched.protocol.v1.Server;
import io.github.yarn_gpu_sched.protocol.v1.VirtualCluster;
import java.util.Collection;
import java.util.Map;

/** What the resource manager holds at this moment; what is not there is null. S and J identify servers and jobs. */
public interface ClusterView<S, J> {
  Collection<S> servers();

  /** Jobs that have not ended. */
  Collection<J> jobs();

  J jobOf(Container container);

  Map<String, VirtualCluster> virtualClusters();

  Server server(S server);

  /** Containers that the server has not lost yet; empty when it is not there. */
  Collection<? extends LiveContainer<J>> containers(S server);

  /** Also of a job that ended, as long as something is known of it. */
  Job job(J job);

  /** Null when the job has no attempt that may ask. */
  JobAsks asks(J job);

  /** Null while the job has not ended. */
  JobEnded ended(J job);
}
