package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import java.util.*;
import java.util.stream.Collectors;
import org.apache.hadoop.yarn.api.records.*;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;

/**
 * Containers with GPUs that the resource manager has struck off a server's list although the server may still run them: ended
 * between their acquisition and the server's first report of them, or on a server that fell ill. They hold their GPUs until the
 * server reports their end, or makes its third report after it was told to end them and never knew of them. Those of a server that
 * was lost are set aside: if it comes back, it may still run them, and YARN asks it for no list.
 */
final class Departing {
  private static final int REPORTS_WITHOUT_IT = 2;
  static final int LOST_SERVERS_MAX = 4096;
  private final Map<ContainerId, Departure> containers = new HashMap<>();
  private final Map<NodeId, Map<ContainerId, Departure>> servers = new HashMap<>();
  private final Map<NodeId, List<RMContainer>> lostServers = new LinkedHashMap<>() {
    @Override protected boolean removeEldestEntry(Map.Entry<NodeId, List<RMContainer>> eldest) { return size() > LOST_SERVERS_MAX; }
  };

  private static final class Departure {
    final RMContainer container;
    boolean runs;
    int reports;

    Departure(RMContainer container) { this.container = container; }
  }

  synchronized void add(RMContainer container) {
    Departure departure = new Departure(container);
    containers.put(container.getContainerId(), departure);
    servers.computeIfAbsent(container.getNodeId(), n -> new HashMap<>()).put(container.getContainerId(), departure);
  }

  /** The server says, or is known, to run it: only its reported end counts now. */
  synchronized void runs(ContainerId id) { if (containers.containsKey(id)) containers.get(id).runs = true; }

  /** False when it was not departing. */
  synchronized boolean ended(ContainerId id) {
    Departure departure = containers.remove(id);
    if (departure == null) return false;
    servers.computeIfPresent(departure.container.getNodeId(), (server, there) -> there.remove(id) != null && there.isEmpty() ? null : there);
    return true;
  }

  /** The server has come back with a list of what it runs, or will not come back. */
  synchronized void forget(NodeId server) {
    on(server).forEach(one -> ended(one.getContainerId()));
    lostServers.remove(server);
  }

  /** The server is silent: nothing is held on it until it is back. */
  synchronized void lost(NodeId server) {
    List<RMContainer> there = on(server);
    if (there.isEmpty()) return;
    forget(server);
    lostServers.put(server, there);
  }

  /** The server is back without a list of what it runs. */
  synchronized void back(NodeId server) {
    Objects.requireNonNullElse(lostServers.remove(server), List.<RMContainer>of()).forEach(this::add);
  }

  /** After a server's report. True when one departed. */
  synchronized boolean reported(RMNode server) {
    boolean departed = false;
    for (RMContainer one : on(server.getNodeID())) {
      Departure departure = containers.get(one.getContainerId());
      boolean told = !departure.runs && !server.getContainersToCleanUp().contains(one.getContainerId());
      departed |= told && ++departure.reports > REPORTS_WITHOUT_IT && ended(one.getContainerId());
    }
    return departed;
  }

  synchronized List<RMContainer> on(NodeId server) {
    return servers.getOrDefault(server, Map.of()).values().stream().map(each -> each.container).collect(Collectors.toList());
  }
}
