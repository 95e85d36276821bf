package io.github.yarn_gpu_sched.load;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;

/**
 * Single containers at full speed: few applications without tags, each with a bounded number of asks outstanding, as
 * Spark and MapReduce ask: an absolute total, renewed after each reply.
 */
final class SingleStream implements Scenario {
  private final int applications;
  private final Shape shape;
  private final int poll_ms;
  private final int outstanding;
  private final int warm_up;
  private final int window_s;

  private final AtomicBoolean stopped = new AtomicBoolean();
  private final AtomicLong pulled = new AtomicLong();
  private final AtomicLong failed = new AtomicLong();

  SingleStream(Options options) {
    applications = options.number("applications", 8, 1, 10_000);
    shape = new Shape(
        options.number("memory-mb", 64, 64, 1 << 20), options.number("vcores", 1, 1, 1024),
        options.number("gpus", 1, 0, 1024));
    poll_ms = options.number("poll-ms", 20, 1, 60_000);
    outstanding = options.number("outstanding", 200, 1, 100_000);
    warm_up = options.number("warm-up", 1000, 0, 1_000_000);
    window_s = options.number("window-s", 30, 1, 3600);
  }

  @Override
  public int run(Cluster cluster) throws Exception {
    List<ApplicationMaster> masters = Applications.prepare(cluster, applications, Set.of());
    List<Thread> threads = new ArrayList<>();
    for (ApplicationMaster master : masters) {
      threads.add(Daemons.named("am").newThread(() -> guarded(cluster, master)));
    }
    threads.forEach(Thread::start);
    while (pulled.get() < warm_up && failed.get() == 0) {
      Thread.sleep(10);
    }
    CommitCounter counter = new CommitCounter(cluster.rm().conf());
    counter.watch(window_s, () -> failed.get() > 0);
    stopped.set(true);
    for (Thread thread : threads) {
      thread.join();
    }
    cluster.report().event("single_stream", "applications", applications, "seconds", counter.seconds(),
        "committed", counter.containers(), "containers_per_s", counter.perSecond(),
        "slowest_second", counter.slowest(), "pulled", pulled.get(), "failed_masters", failed.get());
    cluster.tellServers();
    Applications.finish(masters);
    return failed.get() > 0 ? BROKEN : HELD;
  }

  private void guarded(Cluster cluster, ApplicationMaster master) {
    try {
      ask(cluster, master);
    } catch (Exception e) {
      failed.incrementAndGet();
      e.printStackTrace();
    }
  }

  private void ask(Cluster cluster, ApplicationMaster master) throws Exception {
    boolean renew = true;
    while (!stopped.get()) {
      AllocateResponse response = renew
          ? master.allocate(List.of(shape.ask(1, 0, outstanding)), List.of())
          : master.poll();
      int got = response.getAllocatedContainers().size();
      response.getAllocatedContainers().forEach(cluster.launcher()::launch);
      pulled.addAndGet(got);
      renew = got > 0;
      Thread.sleep(poll_ms);
    }
  }
}
