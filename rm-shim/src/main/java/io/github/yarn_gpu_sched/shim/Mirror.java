package io.github.yarn_gpu_sched.shim;

import io.github.yarn_gpu_sched.protocol.v1.Change;
import io.github.yarn_gpu_sched.protocol.v1.Container;
import io.github.yarn_gpu_sched.protocol.v1.ContainerReleased;
import io.github.yarn_gpu_sched.protocol.v1.Job;
import io.github.yarn_gpu_sched.protocol.v1.JobAsks;
import io.github.yarn_gpu_sched.protocol.v1.JobEnded;
import io.github.yarn_gpu_sched.protocol.v1.Server;
import io.github.yarn_gpu_sched.protocol.v1.ServerState;
import io.github.yarn_gpu_sched.protocol.v1.VirtualCluster;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

/**
 * What the service has been told in this session, and what it must be told next. It works in small steps, each looks at one
 * server or job when its turn comes, so that what waits to be sent stays bounded and is never older than it need be. Within
 * a round: virtual clusters, servers, jobs, containers, asks, ends, removals. Used by one thread only.
 */
final class Mirror<S, J> {
  private final ClusterView<S, J> view;
  private final Marks<S, J> marks;
  private final Outbox out;
  private final Map<String, VirtualCluster> virtualClusters = new HashMap<>();
  private final Map<S, Server> servers = new HashMap<>();
  private final Map<S, Map<String, Container>> containers = new HashMap<>();
  private final Map<J, Job> jobs = new HashMap<>();
  private final Map<J, JobAsks> asks = new HashMap<>();
  private final Set<J> inactive = new HashSet<>();
  private final Set<S> ailing = new HashSet<>();
  private final Map<String, Long> askedAtNs = new HashMap<>();
  private final ArrayDeque<Runnable> steps = new ArrayDeque<>();

  /** Begins with an empty mirror: the first round is the snapshot. */
  Mirror(ClusterView<S, J> view, Marks<S, J> marks, Outbox out) {
    this.view = view;
    this.marks = marks;
    this.out = out;
    marks.calm();
    marks.drainQueues();
    marks.drainServers();
    marks.drainJobs();
    plan(true, view.servers(), view.jobs());
    steps.add(out::endSnapshot);
  }

  /** Takes what is marked as the next round, unless one is under way. */
  void nextRound() {
    if (steps.isEmpty()) {
      inactive.forEach(marks::job);  // YARN tells no scheduler when it activates an application
      ailing.forEach(marks::server);  // nor when a server that takes no containers changes
      plan(marks.drainQueues(), marks.drainServers(), marks.drainJobs());
    }
  }

  /** One step; false when the round is over. */
  boolean step() {
    Runnable step = steps.poll();
    if (step != null) {
      step.run();
    }
    return step != null;
  }

  /** A decision of this session made the container: its outcome tells of it. */
  void committed(S server, Container container) {
    containers.computeIfAbsent(server, s -> new HashMap<>()).put(container.getContainerId(), container);
  }

  /** When the job's asks last changed, System.nanoTime(); null if it has none. */
  Long askedAtNs(String jobId) {
    return askedAtNs.get(jobId);
  }

  private void plan(boolean queues, Collection<S> dirtyServers, Collection<J> dirtyJobs) {
    if (queues) {
      steps.add(this::queues);
    }
    each(dirtyServers, this::server);
    each(dirtyJobs, this::job);
    each(dirtyServers, this::containersOf);
    each(dirtyJobs, this::asksOf);
    each(dirtyJobs, this::end);
    each(dirtyServers, this::remove);
  }

  private <T> void each(Collection<T> all, Consumer<T> step) {
    all.forEach(one -> steps.add(() -> step.accept(one)));
  }

  private void queues() {
    Map<String, VirtualCluster> now = view.virtualClusters();
    for (VirtualCluster each : now.values()) {
      if (!each.equals(virtualClusters.put(each.getPath(), each))) {
        out.add(Change.newBuilder().setVirtualCluster(each));
      }
    }
    for (String path : List.copyOf(virtualClusters.keySet())) {
      if (!now.containsKey(path)) {
        virtualClusters.remove(path);
        out.add(Change.newBuilder().setVirtualClusterRemoved(path));
      }
    }
  }

  private void server(S server) {
    Server now = view.server(server);
    if (now == null) {
      return;
    }
    if (now.getState() == ServerState.SERVER_STATE_RUNNING) {
      ailing.remove(server);
    } else {
      ailing.add(server);
    }
    if (!now.equals(servers.put(server, now))) {
      out.add(Change.newBuilder().setServer(now));
    }
  }

  private void remove(S server) {
    if (servers.containsKey(server) && view.server(server) == null) {
      containers.remove(server);
      ailing.remove(server);
      out.add(Change.newBuilder().setServerRemoved(servers.remove(server).getServerId()));
    }
  }

  private void containersOf(S server) {
    Map<String, Container> known = containers.computeIfAbsent(server, s -> new HashMap<>());
    Set<String> gone = new HashSet<>(known.keySet());
    for (LiveContainer<J> live : view.containers(server)) {
      gone.remove(live.containerId());
      Container before = known.get(live.containerId());
      if (before == null || !live.saidBy(before)) {
        introduce(live.job());
        known.put(live.containerId(), live.say());
        out.add(Change.newBuilder().setContainer(known.get(live.containerId())));
        marks.job(live.job());  // placed by the resource manager: its ask is one fewer
      }
    }
    for (String id : gone) {
      marks.job(view.jobOf(known.remove(id)));  // its ask may have come back
      out.add(Change.newBuilder().setContainerReleased(ContainerReleased.newBuilder().setContainerId(id)));
    }
  }

  private void job(J job) {
    Job now = view.ended(job) == null ? view.job(job) : null;
    if (now != null) {
      tell(job, now);
    }
  }

  /** A container may outlive its job, which then has to be told, and told as ended. */
  private void introduce(J job) {
    Job now = jobs.containsKey(job) ? null : view.job(job);
    if (now != null) {
      tell(job, now);
      steps.add(() -> end(job));
    }
  }

  private void tell(J job, Job now) {
    if (now.getActive()) {
      inactive.remove(job);
    } else {
      inactive.add(job);
    }
    if (!now.equals(jobs.put(job, now))) {
      out.add(Change.newBuilder().setJob(now));
    }
  }

  private void asksOf(J job) {
    JobAsks before = asks.get(job);
    JobAsks now = view.asks(job);
    if (now == null && before != null) {
      now = before.toBuilder().clearAsks().build();
    }
    boolean nothing = now == null || before == null && now.getAsksCount() == 0;
    if (nothing || now.equals(before) || !jobs.containsKey(job)) {
      return;
    }
    asks.put(job, now);
    askedAtNs.put(now.getJobId(), System.nanoTime());
    out.add(Change.newBuilder().setAsks(now));
  }

  private void end(J job) {
    JobEnded ended = jobs.containsKey(job) ? view.ended(job) : null;
    if (ended != null) {
      jobs.remove(job);
      asks.remove(job);
      inactive.remove(job);
      askedAtNs.remove(ended.getJobId());
      out.add(Change.newBuilder().setJobEnded(ended));
    }
  }
}
