package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;

/**
 * Containers that the resource manager has struck off a server's list although the server may still run them: killed
 * between their acquisition and the server's first report of them, or on a server that fell ill. They hold their GPUs until
 * the server reports their end, or has reported twice since it was told to end them and never knew of them.
 */
final class Departing {
  private static final int REPORTS_WITHOUT_IT = 2;
  private final Map<NodeId, Map<ContainerId, Departure>> servers = new ConcurrentHashMap<>();

  private static final class Departure {
    private final RMContainer container;
    private volatile boolean running;
    private volatile int reports;

    Departure(RMContainer container, boolean running) {
      this.container = container;
      this.running = running;
    }
  }

  void add(RMContainer container, boolean running) {
    servers.compute(container.getNodeId(), (n, all) -> {
      Map<ContainerId, Departure> departures = all == null ? new ConcurrentHashMap<>() : all;
      departures.put(container.getContainerId(), new Departure(container, running));
      return departures;
    });
  }

  /** The server says that it runs the container after all: only its end counts now. */
  void runs(NodeId server, ContainerId container) {
    Departure departure = servers.getOrDefault(server, Collections.emptyMap()).get(container);
    if (departure != null) {
      departure.running = true;
    }
  }

  /** A server reports the container's end; false when it was not departing. */
  boolean ended(ContainerId container) {
    boolean departed = false;
    for (NodeId server : servers.keySet()) {
      departed |= ended(server, container);
    }
    return departed;
  }

  private boolean ended(NodeId server, ContainerId container) {
    boolean[] departed = new boolean[1];
    servers.computeIfPresent(server, (n, all) -> {
      departed[0] = all.remove(container) != null;
      return all.isEmpty() ? null : all;
    });
    return departed[0];
  }

  /** A server is gone with all that it ran. */
  void gone(NodeId server) {
    servers.remove(server);
  }

  /** After a server's report. toldOf: containers that it has yet to be told to end. True when one departed. */
  boolean reported(NodeId server, Collection<ContainerId> toldOf) {
    boolean departed = false;
    for (Departure each : servers.getOrDefault(server, Collections.emptyMap()).values()) {
      ContainerId id = each.container.getContainerId();
      if (!each.running && !toldOf.contains(id) && ++each.reports > REPORTS_WITHOUT_IT) {
        ended(server, id);
        departed = true;
      }
    }
    return departed;
  }

  boolean any(NodeId server) {
    return servers.containsKey(server);
  }

  Collection<RMContainer> on(NodeId server) {
    Collection<RMContainer> all = new ArrayList<>();
    servers.getOrDefault(server, Collections.emptyMap()).values().forEach(each -> all.add(each.container));
    return all;
  }
}
