package io.github.yarn_gpu_sched.shim;

import io.github.yarn_gpu_sched.protocol.v1.*;
import java.util.*;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * What the service has been told in this session, and what it must be told next. It works in small steps, each looks at one
 * server or job when its turn comes, so that what waits to be sent is bounded and never older than it need be. Within a round:
 * virtual clusters, servers, jobs, containers, asks, ends, removals. Used by one thread only.
 */
final class Mirror<S, J> {
  static final int WATCHED_MAX = 256;
  private final ClusterView<S, J> view;
  private final Marks<S, J> marks;
  private final Outbox out;
  private final Map<String, VirtualCluster> virtualClusters = new HashMap<>();
  private final Map<S, Server> servers = new HashMap<>();
  private final Map<S, Map<String, Container>> containers = new HashMap<>();
  private final Map<J, Job> jobs = new HashMap<>();
  private final Map<J, JobAsks> asks = new HashMap<>();
  private final Map<String, Long> askedAtNs = new HashMap<>();
  private final Set<J> inactive = new LinkedHashSet<>();
  private final Set<S> ailing = new LinkedHashSet<>();
  private final ArrayDeque<Runnable> steps = new ArrayDeque<>();

  /** Nothing has been told: the first round is the snapshot. */
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
  void nextRound() { if (steps.isEmpty()) plan(marks.drainQueues(), marks.drainServers(), marks.drainJobs()); }

  /** Marks what YARN tells no scheduler of: that it activates an application, that a server which takes no containers changes. */
  void watch() {
    inTurn(inactive).forEach(marks::job);
    inTurn(ailing).forEach(marks::server);
  }

  /** The next of them, not more than a round should look at; they come last from now on. */
  private static <T> List<T> inTurn(Set<T> watched) {
    List<T> next = watched.stream().limit(WATCHED_MAX).collect(Collectors.toList());
    next.forEach(watched::remove);
    watched.addAll(next);
    return next;
  }

  /** One step; false when the round is over. */
  boolean step() {
    if (steps.isEmpty()) return false;
    steps.poll().run();
    return true;
  }

  /** A decision of this session made the container: its outcome tells of it, and the service takes it off what the job asks. */
  void committed(S server, Container one) {
    containers.computeIfAbsent(server, s -> new HashMap<>()).put(one.getContainerId(), one);
    asks.computeIfPresent(view.jobOf(one), (job, told) -> told.toBuilder().addAsks(Ask.getDefaultInstance()).build());  // like none there is
  }

  /** When the job's asks last changed, System.nanoTime(); null if it has none. */
  Long askedAtNs(String jobId) { return askedAtNs.get(jobId); }

  private void plan(boolean queues, Collection<S> dirtyServers, Collection<J> dirtyJobs) {
    if (queues) steps.add(this::queues);
    each(dirtyServers, this::server);
    each(dirtyJobs, job -> tell(job, view.ended(job) == null ? view.job(job) : null));
    each(dirtyServers, this::containersOf);
    each(dirtyJobs, this::asksOf);
    each(dirtyJobs, this::end);
    each(dirtyServers, this::remove);
  }

  private <T> void each(Collection<T> all, Consumer<T> step) { all.forEach(one -> steps.add(() -> step.accept(one))); }

  private void queues() {
    Map<String, VirtualCluster> now = view.virtualClusters();
    now.forEach((path, one) -> {
      if (!one.equals(virtualClusters.put(path, one))) out.add(Change.newBuilder().setVirtualCluster(one));
    });
    for (String path : List.copyOf(virtualClusters.keySet())) {
      if (now.containsKey(path)) continue;
      virtualClusters.remove(path);
      out.add(Change.newBuilder().setVirtualClusterRemoved(path));
    }
  }

  private void server(S server) {
    Server now = view.server(server);
    if (now == null) return;
    if (now.getState() == ServerState.SERVER_STATE_RUNNING) ailing.remove(server);
    else ailing.add(server);
    if (!now.equals(servers.put(server, now))) out.add(Change.newBuilder().setServer(now));
  }

  private void remove(S server) {
    if (!servers.containsKey(server) || view.server(server) != null) return;
    if (containers.containsKey(server)) { marks.server(server); return; }  // it went during this round: they are released first
    ailing.remove(server);
    out.add(Change.newBuilder().setServerRemoved(servers.remove(server).getServerId()));
  }

  private void containersOf(S server) {
    server(server);  // it may have come since its turn
    if (!servers.containsKey(server)) return;
    Map<String, Container> before = containers.getOrDefault(server, Map.of());
    Map<String, Container> now = view.containers(server, before);
    for (Container each : now.values()) {
      if (each.equals(before.get(each.getContainerId()))) continue;
      introduce(view.jobOf(each));
      out.add(Change.newBuilder().setContainer(each));
      marks.job(view.jobOf(each));  // placed by the resource manager: its ask is one fewer
    }
    for (Container each : before.values()) {
      if (now.containsKey(each.getContainerId())) continue;
      out.add(Change.newBuilder().setContainerReleased(view.released(each)));
      marks.job(view.jobOf(each));  // its ask may have come back
    }
    containers.compute(server, (id, old) -> now.isEmpty() ? null : now);
  }

  private void tell(J job, Job now) {
    if (now == null) return;
    if (now.getActive()) inactive.remove(job);
    else inactive.add(job);
    if (!now.equals(jobs.put(job, now))) out.add(Change.newBuilder().setJob(now));
  }

  /** A container may outlive its job, which then has to be told, and told as ended. */
  private void introduce(J job) {
    if (jobs.containsKey(job)) return;
    tell(job, view.job(job));
    steps.add(() -> end(job));
  }

  private void asksOf(J job) {
    JobAsks before = asks.get(job);
    JobAsks now = view.asks(job);
    boolean early = now != null && jobs.containsKey(job) && now.getAttempt() != jobs.get(job).getAttempt();
    if (early) marks.job(job);  // the service is told of an attempt before it hears what that asks for
    if (now == null && before != null) now = before.toBuilder().clearAsks().build();
    if (early || now == null || before == null && now.getAsksCount() == 0 || now.equals(before) || !jobs.containsKey(job)) return;
    asks.put(job, now);
    askedAtNs.put(now.getJobId(), System.nanoTime());
    out.add(Change.newBuilder().setAsks(now));
  }

  private void end(J job) {
    JobEnded ended = jobs.containsKey(job) ? view.ended(job) : null;
    if (ended == null) return;
    jobs.remove(job);
    asks.remove(job);
    inactive.remove(job);
    askedAtNs.remove(ended.getJobId());
    out.add(Change.newBuilder().setJobEnded(ended));
  }
}
