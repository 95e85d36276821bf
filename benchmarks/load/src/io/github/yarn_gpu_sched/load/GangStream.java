package io.github.yarn_gpu_sched.load;

import java.io.IOException;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.exceptions.YarnException;

/**
 * Gangs at full speed: applications prepared beforehand each ask their one gang, a bounded number of them at a time.
 *
 * <p>One application a gang, since its tags name one gang. Each asks, polls as an ApplicationMaster does, launches what
 * it gets and makes room for the next; the containers end by themselves and the servers report it.
 */
final class GangStream implements Scenario {
  private static final int THREADS = 8;

  private final int applications;
  private final int size;
  private final Shape shape;
  private final int poll_ms;
  private final int under_way;
  private final int warm_up;
  private final int window_s;
  private final long between_ns;

  private final AtomicLong next_ns = new AtomicLong(System.nanoTime());
  private final Queue<ApplicationMaster> ready = new ConcurrentLinkedQueue<>();
  private final AtomicLong whole = new AtomicLong();
  private final AtomicLong partly = new AtomicLong();
  private final AtomicLong failed = new AtomicLong();
  private final AtomicBoolean ran_out = new AtomicBoolean();
  private final ScheduledThreadPoolExecutor threads = new ScheduledThreadPoolExecutor(THREADS, Daemons.named("am"));

  GangStream(Options options) {
    applications = options.number("applications", 12_000, 1, 1_000_000);
    size = options.number("gang", 8, 1, 16_384);
    shape = new Shape(
        options.number("memory-mb", 64, 64, 1 << 20), options.number("vcores", 1, 1, 1024),
        options.number("gpus", 1, 0, 1024));
    poll_ms = options.number("poll-ms", 250, 1, 60_000);
    under_way = options.number("under-way", 400, 1, 100_000);
    warm_up = options.number("warm-up", 500, 0, 1_000_000);
    window_s = options.number("window-s", 30, 1, 3600);
    int per_s_max = options.number("per-s-max", 0, 0, 10_000_000); // containers asked for; 0: as many as can be
    between_ns = per_s_max == 0 ? 0 : 1_000_000_000L * size / per_s_max;
  }

  @Override
  public int run(Cluster cluster) throws Exception {
    List<ApplicationMaster> masters = Applications.prepare(cluster, applications, Set.of("gang:" + size));
    ready.addAll(masters);
    CommitCounter counter = new CommitCounter(cluster.rm().conf());
    for (int i = 0; i < under_way; i++) {
      threads.execute(() -> next(cluster));
    }
    while (whole.get() < warm_up && !ran_out.get()) {
      Thread.sleep(10);
    }
    counter.watch(window_s, ran_out::get);
    cluster.report().event("gang_stream", "gang", size, "seconds", counter.seconds(),
        "committed", counter.containers(), "containers_per_s", counter.perSecond(),
        "slowest_second", counter.slowest(), "gangs_pulled", whole.get(), "partial_replies", partly.get(),
        "failed_calls", failed.get(), "ran_out", ran_out.get());
    cluster.tellServers();
    threads.shutdownNow();
    return ran_out.get() || failed.get() > 0 ? BROKEN : HELD;
  }

  private void next(Cluster cluster) {
    ApplicationMaster master = ready.poll();
    if (master == null) {
      ran_out.set(true);
      return;
    }
    long now_ns = System.nanoTime();
    long at_ns = next_ns.updateAndGet(before_ns -> Math.max(now_ns, before_ns + between_ns));
    threads.schedule(() -> guarded(() -> ask(cluster, master)), at_ns - now_ns, TimeUnit.NANOSECONDS);
  }

  private void ask(Cluster cluster, ApplicationMaster master) throws IOException, YarnException {
    take(cluster, master, 0, master.allocate(List.of(shape.ask(1, 0, size)), List.of()));
  }

  private void take(Cluster cluster, ApplicationMaster master, int had, AllocateResponse response) {
    List<Container> containers = response.getAllocatedContainers();
    containers.forEach(cluster.launcher()::launch);
    int got = had + containers.size();
    if (got >= size) {
      whole.incrementAndGet();
      next(cluster);
      return;
    }
    if (!containers.isEmpty()) {
      partly.incrementAndGet();
    }
    threads.schedule(
        () -> guarded(() -> take(cluster, master, got, master.poll())), poll_ms, TimeUnit.MILLISECONDS);
  }

  private interface Step {
    void run() throws IOException, YarnException;
  }

  private void guarded(Step step) {
    try {
      step.run();
    } catch (IOException | YarnException | RuntimeException e) {
      if (!threads.isShutdown() && failed.incrementAndGet() <= 3) {
        e.printStackTrace();
      }
    }
  }
}
