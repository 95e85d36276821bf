package io.github.yarn_gpu_sched.load;

import java.util.List;
import java.util.Set;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;

/** Fills the cluster with running containers and holds them until standard input ends. */
final class Hold implements Scenario {
  private static final int LOOK_MS = 500;

  private final int containers;
  private final int applications;
  private final Shape shape;
  private final int wait_s;

  Hold(Options options) {
    containers = options.number("containers", 10_000, 1, 1_000_000);
    applications = options.number("applications", 100, 1, 10_000);
    shape = new Shape(
        options.number("memory-mb", 64, 64, 1 << 20), options.number("vcores", 1, 1, 1024),
        options.number("gpus", 1, 0, 1024));
    wait_s = options.number("wait-s", 300, 1, 3600);
  }

  @Override
  public int run(Cluster cluster) throws Exception {
    List<ApplicationMaster> masters = Applications.prepare(cluster, applications, Set.of());
    int each = (containers + applications - 1) / applications;
    int got = 0;
    for (ApplicationMaster master : masters) {
      got += launch(cluster, master.allocate(List.of(shape.ask(1, 0, each)), List.of()));
    }
    long until_ns = System.nanoTime() + wait_s * 1_000_000_000L;
    while (got < each * applications) {
      if (System.nanoTime() > until_ns) {
        throw new IllegalStateException(got + " of " + each * applications + " containers after " + wait_s + " s");
      }
      got += look(cluster, masters);
    }
    cluster.report().event("holding", "containers", got, "applications", applications);
    Thread waiting = Daemons.named("input").newThread(Hold::readToEnd);
    waiting.start();
    while (waiting.isAlive()) {
      look(cluster, masters);
    }
    cluster.tellServers();
    Applications.finish(masters);
    return HELD;
  }

  private static void readToEnd() {
    try {
      while (System.in.read() != -1) { }
    } catch (java.io.IOException e) {
      // whoever held the other end is gone, which is an end too
    }
  }

  private static int look(Cluster cluster, List<ApplicationMaster> masters) throws Exception {
    Thread.sleep(LOOK_MS);
    int got = 0;
    for (ApplicationMaster master : masters) {
      got += launch(cluster, master.poll());
    }
    return got;
  }

  private static int launch(Cluster cluster, AllocateResponse response) {
    response.getAllocatedContainers().forEach(cluster.launcher()::launch);
    return response.getAllocatedContainers().size();
  }
}
