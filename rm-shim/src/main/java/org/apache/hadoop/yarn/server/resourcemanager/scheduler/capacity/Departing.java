package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.yarn.api.records.*;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;

/**
 * Containers that the resource manager has struck off a server's list although the server may still run them: ended between
 * their acquisition and the server's first report of them, or on a server that fell ill. They hold their GPUs until the server
 * reports their end, or has reported twice since it was told to end them and never knew of them.
 */
final class Departing {
  private static final int REPORTS_WITHOUT_IT = 2;
  private static final int RUNS = Integer.MIN_VALUE;
  private final Map<ContainerId, RMContainer> containers = new ConcurrentHashMap<>();
  /** How often a server has reported without the container; from RUNS on when it is known to run: only its end counts then. */
  private final Map<ContainerId, Integer> reports = new ConcurrentHashMap<>();

  void add(RMContainer container, boolean runs) {
    reports.put(container.getContainerId(), runs ? RUNS : 0);
    containers.put(container.getContainerId(), container);
  }

  void runs(ContainerId id) { reports.computeIfPresent(id, (key, count) -> RUNS); }

  /** False when it was not departing. */
  boolean ended(ContainerId id) {
    reports.remove(id);
    return containers.remove(id) != null;
  }

  /** The server has come back with a list of what it runs. */
  void forget(NodeId server) { on(server).forEach(one -> ended(one.getContainerId())); }

  /** After a server's report. untold: what it has yet to be told to end. True when one departed. */
  boolean reported(NodeId server, Collection<ContainerId> untold) {
    boolean departed = false;
    for (RMContainer one : on(server)) {
      ContainerId id = one.getContainerId();
      Integer count = untold.contains(id) ? null : reports.computeIfPresent(id, (key, before) -> before + 1);
      departed |= count != null && count > REPORTS_WITHOUT_IT && ended(id);
    }
    return departed;
  }

  List<RMContainer> on(NodeId server) {
    if (containers.isEmpty()) return List.of();
    List<RMContainer> all = new ArrayList<>(containers.values());
    all.removeIf(one -> !one.getNodeId().equals(server));
    return all;
  }
}
