package io.github.yarn_gpu_sched.load;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.exceptions.YarnException;

/**
 * Masters that beat without pause, but only while it is their turn: each line of standard input, {@code MS GANGS}, is a
 * turn of so many milliseconds, with a gang at a time asked for meanwhile where GANGS is 1. It ends with its input.
 *
 * <p>Every fourth beat asks, for GPUs on a host that does not exist: whatever schedules, the ask is never met, so that
 * the work of a beat is the same everywhere.
 */
final class Turns implements Scenario {
  private static final int BEATS_AN_ASK = 4;
  private static final String NO_HOST = "no-such-host";
  private static final String NO_RACK = "/no-such-rack";

  private final int applications;
  private final int gangs;
  private final int size;
  private final int gap_ms;
  private final Shape shape = new Shape(64, 1, 1);

  private Cluster cluster;
  private List<ApplicationMaster> masters;
  private Deque<ApplicationMaster> fresh;
  private ApplicationMaster asking;
  private final List<ContainerId> seen = new ArrayList<>();
  private long asked_ns;
  private long beats;
  private int placed;

  Turns(Options options) {
    applications = options.number("applications", 20, 1, 1000);
    gangs = options.number("gangs", 600, 0, 20_000);
    size = options.number("gang", 8, 1, 16_384);
    gap_ms = options.number("gap-ms", 50, 1, 60_000);
  }

  @Override
  public int run(Cluster where) throws Exception {
    cluster = where;
    masters = Applications.prepare(cluster, applications, Set.of());
    fresh = new ArrayDeque<>(Applications.prepare(cluster, gangs, Set.of("gang:" + size)));
    cluster.report().event("ready");
    BufferedReader turns = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    for (String line = turns.readLine(); line != null; line = turns.readLine()) {
      String[] words = line.trim().split(" ");
      turn(Long.parseLong(words[0]) * 1_000_000L, words[1].equals("1"));
    }
    cluster.tellServers();
    return HELD;
  }

  private void turn(long length_ns, boolean with_gangs) throws IOException, YarnException {
    long until_ns = System.nanoTime() + length_ns;
    long before = beats;
    int placed_before = placed;
    while (System.nanoTime() - until_ns < 0) {
      beat();
      if (with_gangs && beats % 2 == 0) {
        gang();
      }
    }
    cluster.report().event("turn", "beats", beats - before, "gangs", placed - placed_before, "gangs_left", fresh.size());
  }

  private void beat() throws IOException, YarnException {
    long number = beats++;
    int round = (int) (number / applications);
    ApplicationMaster master = masters.get((int) (number % applications));
    if (round % BEATS_AN_ASK == 0) {
      int wanted = 1 + round / BEATS_AN_ASK % 2;
      master.allocate(List.of(ask(NO_HOST, wanted, true), ask(NO_RACK, wanted, false), ask("*", wanted, false)), List.of());
    } else {
      master.poll();
    }
  }

  /** One step of the gang that is asked for: its ask, or a look whether it is there. */
  private void gang() throws IOException, YarnException {
    long now_ns = System.nanoTime();
    AllocateResponse response;
    if (asking != null) {
      response = asking.poll();
    } else if (fresh.isEmpty() || now_ns - asked_ns < gap_ms * 1_000_000L) {
      return;
    } else {
      asking = fresh.poll();
      asked_ns = now_ns;
      response = asking.allocate(List.of(shape.ask(1, 0, size)), List.of());
    }
    response.getAllocatedContainers().stream().map(Container::getId).forEach(seen::add);
    if (seen.size() >= size) {
      asking.allocate(List.of(), seen);
      seen.clear();
      asking = null;
      placed++;
    }
  }

  private ResourceRequest ask(String place, int count, boolean relaxed) {
    ResourceRequest ask = shape.ask(1, 0, count);
    ask.setResourceName(place);
    ask.setRelaxLocality(relaxed);
    ask.setPriority(Priority.newInstance(1));
    return ask;
  }
}
