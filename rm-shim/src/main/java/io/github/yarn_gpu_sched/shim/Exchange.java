package io.github.yarn_gpu_sched.shim;

import io.github.yarn_gpu_sched.protocol.v1.*;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.slf4j.*;

/** The shim's one thread: tells the service what changed, carries out its decisions and reports what became of each. */
public final class Exchange<S, J> implements Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(Exchange.class);
  private static final int OF_A_MESSAGE_MAX = 1024;
  private static final int OUTCOMES_KEPT_MAX = 65_536;
  private static final long HEARTBEAT_NS = TimeUnit.SECONDS.toNanos(1);
  /** So long are decisions worked off before what became of them is sent. */
  private static final long DECIDING_NS_MAX = TimeUnit.MILLISECONDS.toNanos(10);
  private static final long STOP_MS_MAX = 7_000;
  private final Settings settings;
  private final ClusterView<S, J> view;
  private final Marks<S, J> marks;
  private final Counters counters;
  private final Thread thread = new Thread(this, "ygs-shim");
  private final long startedNs = System.nanoTime();
  private volatile boolean stopping;
  private String lastFault;
  private Link link;
  private Session session;

  /** Starts the thread. */
  public Exchange(Settings settings, ClusterView<S, J> view, Marks<S, J> marks, Counters counters) {
    this.settings = settings;
    this.view = view;
    this.marks = marks;
    this.counters = counters;
    thread.setDaemon(true);
    thread.start();
  }

  /** Ends the thread and its channel; waits for them, but not for ever. */
  public void stop() throws InterruptedException {
    stopping = true;
    marks.wake();
    thread.join(STOP_MS_MAX);
  }

  @Override public void run() {
    link = new Link(settings, counters, marks::wake);
    while (!stopping) {
      try {
        if (!turn(System.nanoTime())) marks.sleep(TimeUnit.MILLISECONDS.toNanos(settings.batchMs));
      } catch (Throwable fault) {  // whatever it is: without this thread nothing would be placed any more
        if (!fault.toString().equals(lastFault)) LOG.error("The link begins again after a fault of the shim's own", fault);
        lastFault = fault.toString();
        link.lose("a fault of the shim's own");
        drop();
      }
    }
    drop();
    link.close();
  }

  /** True when there is more to do at once. */
  private boolean turn(long nowNs) {
    Stream stream = link.stream(nowNs);
    if (session != null && session.stream != stream) drop();
    if (stream == null || session == null && !stream.writable()) {
      marks.calm();
      return false;
    }
    if (session == null) session = new Session(stream);
    session.listen();
    session.look(nowNs);
    return session.speak() || stream.anyReceived() && !session.out.full();
  }

  private void drop() {
    if (session == null) return;
    counters.add(Counters.Of.LINK_LOSSES, 1);
    counters.add(Counters.Of.DROPPED, session.out.size());
    counters.connected(false);
    session = null;
  }

  /** All that is said on one stream. */
  private final class Session {
    private final Stream stream;
    private final Outbox out = new Outbox();
    private final Mirror<S, J> mirror;
    private final ArrayDeque<Decision> decisions = new ArrayDeque<>();
    private final Map<Long, Outcome> outcomes = new LinkedHashMap<>();
    private String sessionId = "";
    private boolean whole;
    private long spokeAtNs = System.nanoTime();
    private long watchedAtNs = spokeAtNs;

    Session(Stream stream) {
      this.stream = stream;
      stream.send(ConnectRequest.newBuilder().setRegister(view.register().setClusterId(settings.clusterId)
          .setActiveS((System.nanoTime() - startedNs) / 1e9).setSettleS(settings.settleS)));
      mirror = new Mirror<>(view, marks, out);
      counters.add(Counters.Of.SESSIONS, 1);
    }

    void listen() {
      long until = System.nanoTime() + DECIDING_NS_MAX;
      while (!out.full() && System.nanoTime() - until < 0) {
        while (decisions.isEmpty()) {
          ConnectResponse response = stream.receive();
          if (response == null) return;
          if (breaksRules(response)) { stream.end("the service sent what the link's rules forbid: " + response.getMessageCase()); return; }
          if (response.hasRegistered()) sessionId = link.greeted(response.getRegistered());
          decisions.addAll(response.getDecisions().getDecisionsList());
          response.getExplanations().getExplanationsList().forEach(view::explain);
        }
        decide(decisions.poll());
      }
    }

    private boolean breaksRules(ConnectResponse response) {
      boolean greeted = !sessionId.isEmpty();
      if (response.hasRegistered()) return greeted || response.getRegistered().getSessionId().isEmpty();
      int count = response.getDecisions().getDecisionsCount() + response.getExplanations().getExplanationsCount();
      return !greeted || !whole || !response.hasDecisions() && !response.hasExplanations() || count > OF_A_MESSAGE_MAX;
    }

    private void decide(Decision decision) {
      Outcome outcome = outcomes.get(decision.getDecisionId());
      if (outcome != null) counters.add(Counters.Of.DECISIONS_REPEATED, 1);
      if (outcome == null) {
        outcome = answer(decision);
        outcomes.put(decision.getDecisionId(), outcome);
        if (outcomes.size() > OUTCOMES_KEPT_MAX) outcomes.remove(outcomes.keySet().iterator().next());
        counters.outcome(outcome.getCode());
      }
      out.add(Change.newBuilder().setOutcome(outcome));
    }

    private Outcome answer(Decision decision) {
      if (!decision.getSessionId().equals(sessionId)) {
        return Outcome.newBuilder().setDecisionId(decision.getDecisionId()).setCode(OutcomeCode.OUTCOME_CODE_STALE_EPOCH)
            .setDetail("the session is \"" + sessionId + "\"").build();
      }
      Long askedAtNs = mirror.askedAtNs(decision.getPlaceGang().getJobId());
      Outcome outcome = view.decide(decision, mirror::committed);
      if (askedAtNs != null && outcome.getContainerIdsCount() > 0) counters.latency(System.nanoTime() - askedAtNs);
      return outcome;
    }

    /** Looks at what is marked: at once when it is urgent, else in the batch's time. */
    void look(long nowNs) {
      boolean due = nowNs - watchedAtNs >= TimeUnit.MILLISECONDS.toNanos(settings.batchMs);
      if (due) {
        watchedAtNs = nowNs;
        mirror.watch();
      }
      if (due || marks.urgent()) {
        marks.calm();
        mirror.nextRound();
      }
      while (!out.full() && mirror.step()) continue;
    }

    /** Sends what waits, while the stream takes it; true when something was sent, so that more may be to do. */
    boolean speak() {
      boolean spoke = false;
      while (stream.writable()) {
        Batch batch = out.next();
        if (batch == null) break;
        say(ConnectRequest.newBuilder().setBatch(batch));
        counters.add(Counters.Of.BATCHES, 1);
        counters.add(Counters.Of.CHANGES, batch.getChangesCount());
        whole |= batch.getSnapshotEnd();
        spoke = true;
      }
      counters.connected(whole && !sessionId.isEmpty());
      boolean silent = System.nanoTime() - spokeAtNs >= HEARTBEAT_NS;
      if (silent && stream.writable()) say(ConnectRequest.newBuilder().setHeartbeat(Heartbeat.getDefaultInstance()));
      return spoke;
    }

    private void say(ConnectRequest.Builder request) {
      counters.add(Counters.Of.BYTES_SENT, stream.send(request));
      spokeAtNs = System.nanoTime();
    }
  }
}
