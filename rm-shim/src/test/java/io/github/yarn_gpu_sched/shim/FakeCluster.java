package io.github.yarn_gpu_sched.shim;

import io.github.yarn_gpu_sched.protocol.v1.*;
import java.util.*;
import java.util.function.BiConsumer;

/** A cluster of maps: servers and jobs are their own ids. */
final class FakeCluster implements ClusterView<String, String> {
  final Map<String, Server> servers = new TreeMap<>();
  final Map<String, Map<String, Container>> containers = new TreeMap<>();
  final Map<String, Job> jobs = new TreeMap<>();
  final Map<String, JobAsks> asks = new TreeMap<>();
  final Map<String, JobEnded> ended = new TreeMap<>();
  final Map<String, VirtualCluster> virtualClusters = new TreeMap<>();

  final Map<String, String> explained = Collections.synchronizedMap(new TreeMap<>());
  final List<Decision> decided = Collections.synchronizedList(new ArrayList<>());

  void server(String id, int gpus) {
    servers.put(id, Server.newBuilder().setServerId(id).setCapacity(Resource.newBuilder().setGpus(gpus))
        .setState(ServerState.SERVER_STATE_RUNNING).build());
  }

  void job(String id, boolean active) {
    jobs.put(id, Job.newBuilder().setJobId(id).setAttempt(1).setActive(active).build());
  }

  void asks(String id, int count) {
    JobAsks.Builder all = JobAsks.newBuilder().setJobId(id).setAttempt(1);
    if (count > 0) all.addAsks(Ask.newBuilder().setCount(count));
    asks.put(id, all.build());
  }

  Container container(String id, String job, String server) {
    Container one = Container.newBuilder().setContainerId(id).setJobId(job).setServerId(server).build();
    containers.computeIfAbsent(server, s -> new TreeMap<>()).put(id, one);
    return one;
  }

  @Override public Register.Builder register() { return Register.newBuilder(); }

  @Override public Collection<String> servers() { return servers.keySet(); }

  @Override public Collection<String> jobs() { return jobs.keySet(); }

  @Override public Map<String, VirtualCluster> virtualClusters() { return virtualClusters; }

  @Override public Server server(String id) { return servers.get(id); }

  @Override public Map<String, Container> containers(String id, Map<String, Container> known) {
    return new TreeMap<>(containers.getOrDefault(id, Map.of()));
  }

  @Override public String jobOf(Container container) { return container.getJobId(); }

  @Override public ContainerReleased released(Container one) {
    return ContainerReleased.newBuilder().setContainerId(one.getContainerId()).build();
  }

  @Override public Job job(String id) { return jobs.get(id); }

  @Override public JobAsks asks(String id) { return asks.get(id); }

  @Override public JobEnded ended(String id) { return ended.get(id); }

  @Override public void explain(Explanation one) { explained.put(one.getJobId(), one.getSentence()); }

  /** Says yes to everything and does nothing. */
  @Override public Outcome decide(Decision decision, BiConsumer<String, Container> made) {
    decided.add(decision);
    return Outcome.newBuilder().setDecisionId(decision.getDecisionId()).setCode(OutcomeCode.OUTCOME_CODE_COMMITTED).build();
  }
}
