package io.github.yarn_gpu_sched.load;

import java.util.List;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/** What a scenario works on: a ResourceManager, with simulated servers of our own or with those it has. */
record Cluster(ResourceManager rm, FakeServers servers, Launcher launcher, List<String> queues, Report report) {
  /** Reads the options that all scenarios share; starts simulated servers, and masters that wait, if any are wished for. */
  static Cluster open(Options options, Report report) throws Exception {
    int count = options.number("servers", 0, 0, 62_000);
    Shape shape = new Shape(
        options.number("server-memory-mb", 262_144, 64, Integer.MAX_VALUE),
        options.number("server-vcores", 1024, 1, 1_000_000),
        options.number("server-gpus", 8, 0, 1024));
    int beat_ms = options.number("beat-ms", 1000, 10, 600_000);
    int runs_ms = options.number("runs-ms", 0, 0, Integer.MAX_VALUE);
    List<String> queues = List.of(options.text("queues", "default").split(","));
    int waiting = options.number("waiting", 0, 0, 100_000);
    List<String> full = List.of(options.text("waiting-queue", "default"));
    options.refuseUnknown();
    ResourceManager rm = new ResourceManager(new YarnConfiguration(), ResourceManager.DIRECT);
    if (count == 0) {
      // Without a process behind them, containers of real NodeManagers are only held, and ended by their release.
      return new Cluster(rm, null, container -> { }, queues, report);
    }
    FakeServers servers = new FakeServers(rm, count, shape, runs_ms);
    long begun_ns = System.nanoTime();
    servers.start(beat_ms);
    report.event("servers_registered", "servers", count, "gpus_each", shape.gpus(), "beat_ms", beat_ms,
        "took_ms", (System.nanoTime() - begun_ns) / 1e6);
    Cluster cluster = new Cluster(rm, servers, servers::launch, queues, report);
    Applications.letWait(new Cluster(rm, servers, servers::launch, full, report), waiting);
    return cluster;
  }

  /** Applications go to the queues in turn. */
  String queue(int application) {
    return queues.get(application % queues.size());
  }

  /** Tells how the simulated servers fared; errors are heartbeats or registrations that failed. */
  void tellServers() {
    if (servers != null) {
      report.event("servers", "heartbeats", servers.heartbeats(), "errors", servers.errors(),
          "containers", servers.containers());
    }
  }
}
