package io.github.yarn_gpu_sched.shim;

import static org.junit.jupiter.api.Assertions.*;

import io.github.yarn_gpu_sched.protocol.v1.*;
import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.StreamObserver;
import java.net.InetSocketAddress;
import java.util.concurrent.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.metrics2.AbstractMetric;
import org.apache.hadoop.metrics2.impl.MetricsCollectorImpl;
import org.junit.jupiter.api.*;

/** The link against a real gRPC server that the test scripts. */
@Timeout(60)
class ExchangeTest {
  private final BlockingQueue<ConnectRequest> heard = new LinkedBlockingQueue<>();
  private final BlockingQueue<StreamObserver<ConnectResponse>> streams = new LinkedBlockingQueue<>();
  private final FakeCluster cluster = new FakeCluster();
  private final Counters counters = new Counters();
  private final Marks<String, String> marks = new Marks<>(counters);
  private final Configuration conf = new Configuration(false);
  private final ScheduledExecutorService heart = Executors.newSingleThreadScheduledExecutor();
  private volatile boolean silent;
  private Server server;
  private Exchange<String, String> exchange;

  private final class Deciding extends ResourceManagerLinkServiceGrpc.ResourceManagerLinkServiceImplBase {
    @Override public StreamObserver<ConnectRequest> connect(StreamObserver<ConnectResponse> unsafe) {
      StreamObserver<ConnectResponse> back = new Serialized(unsafe);
      heart.scheduleAtFixedRate(() -> beat(back), 500, 500, TimeUnit.MILLISECONDS);
      streams.add(back);
      return new StreamObserver<>() {
        @Override public void onNext(ConnectRequest request) { heard.add(request); }

        @Override public void onError(Throwable error) { }

        @Override public void onCompleted() { }
      };
    }
  }

  /** gRPC's observers may be called by one thread at a time only. */
  private static final class Serialized implements StreamObserver<ConnectResponse> {
    private final StreamObserver<ConnectResponse> inner;

    Serialized(StreamObserver<ConnectResponse> inner) { this.inner = inner; }

    @Override public synchronized void onNext(ConnectResponse response) { inner.onNext(response); }

    @Override public synchronized void onError(Throwable error) { inner.onError(error); }

    @Override public synchronized void onCompleted() { inner.onCompleted(); }
  }

  /** Throws once the stream has ended, which ends the beating. */
  private void beat(StreamObserver<ConnectResponse> back) {
    if (!silent) back.onNext(ConnectResponse.newBuilder().setHeartbeat(Heartbeat.getDefaultInstance()).build());
  }

  private void serve(int port) throws Exception {
    server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", port)).addService(new Deciding()).build().start();
  }

  @BeforeEach void begin() throws Exception {
    serve(0);
    conf.set("ygs.service-address", "127.0.0.1:" + server.getPort());
    conf.set("ygs.cluster-id", "trial");
    cluster.server("s1", 4);
    exchange = new Exchange<>(new Settings(conf), cluster, marks, counters);
  }

  @AfterEach void end() throws Exception {
    exchange.stop();
    heart.shutdownNow();
    server.shutdownNow().awaitTermination();
  }

  private ConnectRequest next() throws InterruptedException {
    ConnectRequest request = heard.poll(30, TimeUnit.SECONDS);
    assertNotNull(request, "nothing was said for 30 s");
    return request;
  }

  private StreamObserver<ConnectResponse> greeted(String session) throws InterruptedException {
    StreamObserver<ConnectResponse> stream = streams.poll(30, TimeUnit.SECONDS);
    assertNotNull(stream, "no stream was opened in 30 s");
    ConnectRequest request = next();
    while (!request.hasRegister()) request = next();
    assertEquals("trial", request.getRegister().getClusterId());
    stream.onNext(ConnectResponse.newBuilder().setRegistered(Registered.newBuilder().setSessionId(session)).build());
    return stream;
  }

  private static ConnectResponse decision(long id, String session) {
    return ConnectResponse.newBuilder().setDecisions(Decisions.newBuilder().addDecisions(
        Decision.newBuilder().setDecisionId(id).setSessionId(session))).build();
  }

  private Outcome outcome() throws InterruptedException {
    while (true) {
      for (Change each : next().getBatch().getChangesList()) {
        if (each.hasOutcome()) return each.getOutcome();
      }
    }
  }

  @Test void itRegistersTellsTheSnapshotAndNumbersItsMessages() throws Exception {
    StreamObserver<ConnectResponse> stream = streams.poll(30, TimeUnit.SECONDS);
    assertNotNull(stream);
    ConnectRequest first = next();
    ConnectRequest second = next();
    assertTrue(first.hasRegister() && first.getSequence() == 1, first.toString());
    assertTrue(second.getSequence() == 2 && second.getBatch().getSnapshotEnd(), second.toString());
    assertEquals("s1", second.getBatch().getChanges(0).getServer().getServerId());
  }

  @Test void eachDecisionGetsItsOutcomeAndARepeatedOneTheSame() throws Exception {
    StreamObserver<ConnectResponse> stream = greeted("one");
    stream.onNext(decision(7, "one"));
    Outcome first = outcome();
    stream.onNext(decision(7, "one"));
    assertEquals(first, outcome());
    assertEquals(1, cluster.decided.size());
    assertEquals(OutcomeCode.OUTCOME_CODE_COMMITTED, first.getCode());
  }

  @Test void ofTooManyOutcomesTheOldestIsForgottenAndItsDecisionIsNewAgain() throws Exception {
    StreamObserver<ConnectResponse> stream = greeted("one");
    int kept = 65_536;
    for (int first = 0; first <= kept; first += 1024) {
      Decisions.Builder some = Decisions.newBuilder();
      for (int id = first; id < first + 1024 && id <= kept; id++) some.mergeFrom(decision(id, "one").getDecisions());
      stream.onNext(ConnectResponse.newBuilder().setDecisions(some).build());
    }
    awaitOutcomes(kept + 1);
    stream.onNext(decision(kept, "one"));
    stream.onNext(decision(0, "one"));
    awaitOutcomes(2);
    assertEquals(kept + 2, cluster.decided.size());
    assertEquals(0, cluster.decided.get(kept + 1).getDecisionId());
  }

  private void awaitOutcomes(int number) throws InterruptedException {
    for (long left = number; left > 0; ) left -= next().getBatch().getChangesList().stream().filter(Change::hasOutcome).count();
  }

  @Test void aDecisionOfAnotherSessionIsStale() throws Exception {
    greeted("one").onNext(decision(8, "two"));
    assertEquals(OutcomeCode.OUTCOME_CODE_STALE_EPOCH, outcome().getCode());
    assertEquals(0, cluster.decided.size());
  }

  @Test void explanationsReachTheClusterInOrderAndNothingAnswersThem() throws Exception {
    StreamObserver<ConnectResponse> stream = greeted("one");
    while (!next().getBatch().getSnapshotEnd()) continue;
    Explanations.Builder some = Explanations.newBuilder();
    for (String why : new String[] {"first", "then"}) some.addExplanations(Explanation.newBuilder().setJobId("j1").setSentence(why));
    stream.onNext(ConnectResponse.newBuilder().setExplanations(some).build());
    stream.onNext(decision(9, "one"));
    assertEquals(9, outcome().getDecisionId());
    assertEquals("then", cluster.explained.get("j1"));
    for (int number = 0; number < 1024; number++) some.addExplanations(Explanation.newBuilder().setJobId("j2"));
    stream.onNext(ConnectResponse.newBuilder().setExplanations(some).build());
    greeted("two");  // more than a message may hold ends the stream
    assertNull(cluster.explained.get("j2"));
  }

  private int connected() {
    MetricsCollectorImpl collector = new MetricsCollectorImpl();
    counters.getMetrics(collector, true);
    for (AbstractMetric each : collector.getRecords().get(0).metrics()) {
      if (each.name().equals("Connected")) return each.value().intValue();
    }
    throw new AssertionError("no counter Connected");
  }

  @Test void itCountsAsConnectedOnlyOnceTheServiceHasGreeted() throws Exception {
    StreamObserver<ConnectResponse> stream = streams.poll(30, TimeUnit.SECONDS);
    assertNotNull(stream);
    while (!next().getBatch().getSnapshotEnd()) continue;
    while (!next().hasHeartbeat()) continue;  // said later than the snapshot: whatever that changed is counted
    assertEquals(0, connected());
    stream.onNext(ConnectResponse.newBuilder().setRegistered(Registered.newBuilder().setSessionId("one")).build());
    while (connected() != 1) Thread.onSpinWait();
    stream.onCompleted();
    while (connected() != 0) Thread.onSpinWait();
  }

  @Test void itBeatsWhileItHasNothingToSay() throws Exception {
    greeted("one");
    ConnectRequest request = next();
    while (!request.hasHeartbeat()) request = next();
  }

  @Test void aServiceThatBeatsIsKept() throws Exception {
    greeted("one");
    for (int beats = 0; beats < 5; ) beats += next().hasHeartbeat() ? 1 : 0;
    assertTrue(streams.isEmpty(), "a second stream was opened");
  }

  @Test void whatTheRulesForbidEndsTheStream() throws Exception {
    greeted("one").onNext(ConnectResponse.newBuilder().setRegistered(Registered.newBuilder().setSessionId("again")).build());
    greeted("two").onNext(ConnectResponse.getDefaultInstance());
    greeted("three");
  }

  @Test void aSilentServiceIsGivenUpAndRegisteredWithAgain() throws Exception {
    silent = true;
    greeted("one");
    assertNotNull(streams.poll(30, TimeUnit.SECONDS), "no second stream");
  }

  @Test void aServiceThatComesBackGetsTheWholeSnapshot() throws Exception {
    greeted("one");
    assertTrue(next().getBatch().getSnapshotEnd());
    int port = server.getPort();
    server.shutdownNow().awaitTermination();
    heard.clear();
    serve(port);
    greeted("two");
    ConnectRequest request = next();
    assertTrue(request.getBatch().getSnapshotEnd(), request.toString());
  }

  @Test void aServiceThatRefusesIsAskedAgain() throws Exception {
    for (int i = 0; i < 3; i++) {
      StreamObserver<ConnectResponse> stream = streams.poll(30, TimeUnit.SECONDS);
      assertNotNull(stream, "stream " + i);
      stream.onError(io.grpc.Status.FAILED_PRECONDITION.withDescription("older epoch").asRuntimeException());
    }
  }
}
