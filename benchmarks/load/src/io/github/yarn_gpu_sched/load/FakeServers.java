package io.github.yarn_gpu_sched.load;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.ResourceUtilization;
import org.apache.hadoop.yarn.exceptions.YarnException;
import org.apache.hadoop.yarn.server.api.ResourceTracker;
import org.apache.hadoop.yarn.server.api.ServerRMProxy;
import org.apache.hadoop.yarn.server.api.protocolrecords.NodeHeartbeatRequest;
import org.apache.hadoop.yarn.server.api.protocolrecords.NodeHeartbeatResponse;
import org.apache.hadoop.yarn.server.api.protocolrecords.RegisterNodeManagerRequest;
import org.apache.hadoop.yarn.server.api.protocolrecords.RegisterNodeManagerResponse;
import org.apache.hadoop.yarn.server.api.records.MasterKey;
import org.apache.hadoop.yarn.server.api.records.NodeAction;
import org.apache.hadoop.yarn.server.api.records.NodeHealthStatus;
import org.apache.hadoop.yarn.server.api.records.NodeStatus;
import org.apache.hadoop.yarn.util.YarnVersionInfo;

/** Many simulated NodeManagers in this process, each with its heartbeat, and their containers. */
final class FakeServers implements Launcher {
  private static final int PORT = 45454;
  private static final int THREADS = 4;
  private static final int PER_BYTE = 250;
  // Never left out: the ResourceManager's REST pages fail for a server without it.
  private static final ResourceUtilization IDLE = ResourceUtilization.newInstance(0, 0, 0f);

  /** One NodeManager's standing with the ResourceManager; touched by one heartbeat at a time. */
  private static final class Session {
    final FakeServer server;
    int response_id;
    volatile MasterKey container_key; // set by the registration, which another thread may run
    MasterKey token_key;

    Session(FakeServer server) {
      this.server = server;
    }
  }

  private final ResourceTracker tracker;
  private final Shape shape;
  private final int runs_ms;
  private final Map<NodeId, Session> sessions = new HashMap<>();
  private final ScheduledThreadPoolExecutor threads = new ScheduledThreadPoolExecutor(THREADS, Daemons.named("beat"));
  private final AtomicLong heartbeats = new AtomicLong();
  private final AtomicLong errors = new AtomicLong();

  /** {@code runs_ms}: how long each container runs before it ends by itself. */
  FakeServers(ResourceManager rm, int count, Shape shape, int runs_ms) throws IOException {
    this.tracker = ServerRMProxy.createRMProxy(rm.conf(), ResourceTracker.class);
    this.shape = shape;
    this.runs_ms = runs_ms;
    for (int i = 0; i < count; i++) {
      NodeId id = NodeId.newInstance(address(i), PORT);
      sessions.put(id, new Session(new FakeServer(id)));
    }
  }

  /** Address literals need no name resolution: 127.1.0.1, 127.1.0.2 … */
  static String address(int i) {
    return "127.1." + i / PER_BYTE + "." + (i % PER_BYTE + 1);
  }

  /** Registers all servers and starts their heartbeats, evenly spread over {@code beat_ms}. */
  void start(int beat_ms) throws InterruptedException {
    CountDownLatch registered = new CountDownLatch(sessions.size());
    long step_us = beat_ms * 1000L / Math.max(1, sessions.size());
    long delay_us = 0;
    for (Session session : sessions.values()) {
      threads.execute(() -> guarded(() -> {
        register(session);
        registered.countDown();
      }));
      delay_us += step_us;
      threads.scheduleAtFixedRate(
          () -> guarded(() -> beat(session)), beat_ms * 1000L + delay_us, beat_ms * 1000L, TimeUnit.MICROSECONDS);
    }
    if (!registered.await(5, TimeUnit.MINUTES)) {
      throw new IllegalStateException(registered.getCount() + " servers did not register within 5 minutes");
    }
  }

  private interface Step {
    void run() throws IOException, YarnException;
  }

  private void guarded(Step step) {
    try {
      step.run();
    } catch (IOException | YarnException | RuntimeException e) {
      if (errors.incrementAndGet() <= 3) {
        e.printStackTrace();
      }
    }
  }

  private void register(Session session) throws IOException, YarnException {
    RegisterNodeManagerResponse response = tracker.registerNodeManager(RegisterNodeManagerRequest.newInstance(
        session.server.nodeId(), 0, shape.resource(), YarnVersionInfo.getVersion(),
        session.server.recovered(System.nanoTime()), List.of(), null));
    if (response.getNodeAction() != NodeAction.NORMAL) {
      throw new IllegalStateException(session.server.nodeId() + " refused: " + response.getDiagnosticsMessage());
    }
    session.container_key = response.getContainerTokenMasterKey();
    session.token_key = response.getNMTokenMasterKey();
    session.response_id = 0;
  }

  private void beat(Session session) throws IOException, YarnException {
    if (session.container_key == null) {
      return; // its registration is still under way
    }
    List<ContainerStatus> statuses = session.server.statuses(System.nanoTime());
    NodeHealthStatus healthy = NodeHealthStatus.newInstance(true, "", System.currentTimeMillis());
    NodeStatus status = NodeStatus.newInstance(
        session.server.nodeId(), session.response_id, statuses, List.of(), healthy, IDLE, IDLE, List.of());
    NodeHeartbeatResponse response = tracker.nodeHeartbeat(
        NodeHeartbeatRequest.newInstance(status, session.container_key, session.token_key, null));
    heartbeats.incrementAndGet();
    if (response.getNodeAction() == NodeAction.RESYNC) {
      register(session);
      return;
    }
    take(session, response, statuses);
  }

  private void take(Session session, NodeHeartbeatResponse response, List<ContainerStatus> statuses) {
    session.response_id = response.getResponseId();
    if (response.getContainerTokenMasterKey() != null) {
      session.container_key = response.getContainerTokenMasterKey();
    }
    if (response.getNMTokenMasterKey() != null) {
      session.token_key = response.getNMTokenMasterKey();
    }
    session.server.delivered(statuses);
    session.server.stop(response.getContainersToCleanup());
  }

  @Override
  public void launch(Container container) {
    sessions.get(container.getNodeId()).server.launch(container, runs_ms);
  }

  long heartbeats() {
    return heartbeats.get();
  }

  long errors() {
    return errors.get();
  }

  /** Containers that the servers have not yet reported as complete. */
  long containers() {
    return sessions.values().stream().mapToLong(session -> session.server.containers()).sum();
  }

  void stop() {
    threads.shutdownNow();
  }
}
