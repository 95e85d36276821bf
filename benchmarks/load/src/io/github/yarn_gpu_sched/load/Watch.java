package io.github.yarn_gpu_sched.load;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;

/**
 * One gang after the other, polled tightly: when does its master see it, and does it ever see a part of it?
 *
 * <p>The proof that a gang is visible whole or not at all, and the measure of ask to committed container: the time
 * counts from before the asking call to after the reply that shows the containers, so it includes the master's own
 * calls and the poll's grain.
 */
final class Watch implements Scenario {
  private final int gangs;
  private final int size;
  private final Shape shape;
  private final int poll_us;
  private final int gap_ms;
  private final int wait_s;
  private final int batch;

  Watch(Options options) {
    gangs = options.number("gangs", 500, 1, 1_000_000);
    size = options.number("gang", 8, 1, 16_384);
    shape = new Shape(
        options.number("memory-mb", 64, 64, 1 << 20), options.number("vcores", 1, 1, 1024),
        options.number("gpus", 1, 0, 1024));
    poll_us = options.number("poll-us", 1000, 0, 60_000_000);
    gap_ms = options.number("gap-ms", 10, 0, 60_000);
    wait_s = options.number("wait-s", 60, 1, 3600);
    batch = options.number("batch", 100, 1, 10_000);
  }

  @Override
  public int run(Cluster cluster) throws Exception {
    List<Long> times_ns = new ArrayList<>();
    int partial = 0;
    while (times_ns.size() < gangs) {
      int count = Math.min(batch, gangs - times_ns.size());
      List<ApplicationMaster> masters = Applications.prepare(cluster, count, Set.of("gang:" + size));
      for (ApplicationMaster master : masters) {
        partial += watch(cluster, master, times_ns);
        Thread.sleep(gap_ms);
      }
      Applications.finish(masters);
    }
    long[] all_ns = times_ns.stream().mapToLong(Long::longValue).toArray();
    cluster.report().event("watch", "gangs", gangs, "gang", size, "poll_us", poll_us, "partial_views", partial);
    cluster.report().event("ask_to_seen", Report.percentiles(all_ns));
    cluster.tellServers();
    return partial == 0 ? HELD : BROKEN;
  }

  /** Returns how many polls saw some of the gang, but not all; the containers are released before it returns. */
  private int watch(Cluster cluster, ApplicationMaster master, List<Long> times_ns) throws Exception {
    int partial = 0;
    List<ContainerId> seen = new ArrayList<>();
    long asked_ns = System.nanoTime();
    AllocateResponse response = master.allocate(List.of(shape.ask(1, 0, size)), List.of());
    while (true) {
      response.getAllocatedContainers().stream().map(Container::getId).forEach(seen::add);
      long now_ns = System.nanoTime();
      if (seen.size() >= size) {
        times_ns.add(now_ns - asked_ns);
        break;
      }
      if (!seen.isEmpty()) {
        partial++;
      }
      if (now_ns - asked_ns > wait_s * 1_000_000_000L) {
        throw new IllegalStateException(master.id() + " has " + seen.size() + " of " + size + " after " + wait_s + " s");
      }
      LockSupport.parkNanos(poll_us * 1000L);
      response = master.poll();
    }
    if (seen.size() > size) {
      throw new IllegalStateException(master.id() + " asked " + size + " containers and got " + seen.size());
    }
    master.allocate(List.of(), seen);
    return partial;
  }
}
