package io.github.yarn_gpu_sched.shim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.yarn_gpu_sched.protocol.v1.*;
import java.util.*;
import org.junit.jupiter.api.*;

class MirrorTest {
  private final FakeCluster cluster = new FakeCluster();
  private final Marks<String, String> marks = new Marks<>(new Counters());
  private final Outbox out = new Outbox();
  private Mirror<String, String> mirror;

  @BeforeEach void oneServerOneJob() {
    cluster.virtualClusters.put("root.a", VirtualCluster.newBuilder().setPath("root.a").build());
    cluster.server("s1", 4);
    cluster.job("j1", true);
    cluster.asks("j1", 2);
    mirror = new Mirror<>(cluster, marks, out);
  }

  /** What one round says, one word a change. */
  private List<String> told() {
    while (mirror.step()) { }
    List<String> words = new ArrayList<>();
    for (Batch batch = out.next(); batch != null; batch = out.next()) {
      for (Change each : batch.getChangesList()) words.add(each.getChangeCase().name());
      if (batch.getSnapshotEnd()) words.add("END");
    }
    return words;
  }

  private List<String> toldNext() {
    mirror.watch();
    mirror.nextRound();
    return told();
  }

  @Test void snapshotTellsAllInOrderAndEnds() {
    cluster.container("c1", "j1", "s1");
    assertEquals(List.of("VIRTUAL_CLUSTER", "SERVER", "JOB", "CONTAINER", "ASKS", "END"), told());
  }

  @Test void whatWasToldIsNotToldAgain() {
    told();
    marks.server("s1");
    marks.job("j1");
    marks.queues();
    assertEquals(List.of(), toldNext());
  }

  @Test void aPlacedContainerIsToldAndItsJobLookedAtAgain() {
    told();
    cluster.container("c1", "j1", "s1");
    cluster.asks("j1", 1);
    marks.server("s1");
    assertEquals(List.of("CONTAINER"), toldNext());
    assertEquals(List.of("ASKS"), toldNext());
  }

  @Test void aCommittedContainerIsNotToldButItsReleaseIs() {
    told();
    mirror.committed("s1", cluster.container("c1", "j1", "s1"));
    marks.server("s1");
    assertEquals(List.of(), toldNext());
    cluster.containers.clear();
    marks.server("s1");
    assertEquals(List.of("CONTAINER_RELEASED"), toldNext());
  }

  @Test void whatIsAskedAfterACommitIsToldAlsoIfItIsAsMuchAsBefore() {
    told();
    mirror.committed("s1", cluster.container("c1", "j1", "s1"));  // the master has asked for one more meanwhile
    marks.job("j1");
    assertEquals(List.of("ASKS"), toldNext());
    marks.job("j1");
    assertEquals(List.of(), toldNext());
    mirror.committed("s1", cluster.container("c2", "j1", "s1"));
    cluster.asks("j1", 0);
    marks.job("j1");
    assertEquals(List.of("ASKS"), toldNext());
  }

  @Test void aServerThatComesDuringARoundIsToldBeforeItsContainers() {
    told();
    cluster.container("c2", "j1", "s2");
    marks.server("s2");
    mirror.nextRound();
    assertTrue(mirror.step());  // it is not there yet
    cluster.server("s2", 4);
    assertEquals(List.of("SERVER", "CONTAINER"), told());
  }

  @Test void containersOfAServerThatIsNotThereAreToldWhenItIs() {
    told();
    cluster.container("c2", "j1", "s2");
    marks.server("s2");
    assertEquals(List.of(), toldNext());
    cluster.server("s2", 4);
    marks.server("s2");
    assertEquals(List.of("SERVER", "CONTAINER"), toldNext());
  }

  @Test void anEndingContainerIsToldOnceMore() {
    told();
    Container one = cluster.container("c1", "j1", "s1");
    mirror.committed("s1", one);
    cluster.containers.get("s1").put("c1", one.toBuilder().setEnding(true).build());
    marks.server("s1");
    assertEquals(List.of("CONTAINER"), toldNext());
  }

  @Test void aServerThatGoesReleasesItsContainersFirst() {
    cluster.container("c1", "j1", "s1");
    told();
    cluster.containers.clear();
    cluster.servers.clear();
    marks.server("s1");
    assertEquals(List.of("CONTAINER_RELEASED", "SERVER_REMOVED"), toldNext());
  }

  @Test void aServerThatGoesDuringARoundIsRemovedWhenItsContainersAreReleased() {
    cluster.container("c1", "j1", "s1");
    told();
    marks.drainJobs();
    marks.server("s1");
    mirror.nextRound();
    assertTrue(mirror.step() && mirror.step(), "server and containers are looked at");
    cluster.containers.clear();
    cluster.servers.clear();
    assertEquals(List.of(), told());
    assertEquals(List.of("CONTAINER_RELEASED", "SERVER_REMOVED"), toldNext());
  }

  @Test void aServerThatTakesNoContainersIsWatched() {
    cluster.servers.put("s1", cluster.servers.get("s1").toBuilder().setState(ServerState.SERVER_STATE_UNHEALTHY).build());
    told();
    cluster.server("s1", 4);
    assertEquals(List.of("SERVER"), toldNext());
  }

  @Test void anInactiveJobIsWatchedUntilItIsActive() {
    cluster.job("j2", false);
    marks.job("j2");
    told();
    toldNext();
    cluster.job("j2", true);
    assertEquals(List.of("JOB"), toldNext());
    assertEquals(List.of(), toldNext());
  }

  @Test void howeverManyJobsAreInactiveARoundLooksAtFewOfThemAndAtAllInTurn() {
    for (int i = 0; i < 10 * Mirror.WATCHED_MAX; i++) cluster.job("idle" + i, false);
    mirror = new Mirror<>(cluster, marks, out);
    told();
    mirror.nextRound();
    assertFalse(mirror.step(), "nothing is marked");
    for (int round = 0; round < 10; round++) {
      mirror.watch();
      List<String> looked = marks.drainJobs();
      assertEquals(Mirror.WATCHED_MAX, looked.size());
      looked.forEach(job -> cluster.job(job, true));
      looked.forEach(marks::job);
      mirror.nextRound();
      assertEquals(Mirror.WATCHED_MAX, told().size());
    }
    assertEquals(List.of(), toldNext());
  }

  @Test void asksOfAnAttemptThatWasNotToldWaitUntilItIs() {
    told();
    cluster.asks.put("j1", cluster.asks.get("j1").toBuilder().setAttempt(2).build());
    marks.job("j1");
    assertEquals(List.of(), toldNext());
    cluster.jobs.put("j1", cluster.jobs.get("j1").toBuilder().setAttempt(2).build());
    assertEquals(List.of("JOB", "ASKS"), toldNext(), "it was marked again");
    assertEquals(List.of(), toldNext());
  }

  @Test void asksOfAnAttemptThatBeganDuringTheRoundComeInTheNextOne() {
    told();
    marks.job("j1");
    mirror.nextRound();
    assertTrue(mirror.step());
    cluster.jobs.put("j1", cluster.jobs.get("j1").toBuilder().setAttempt(2).build());
    cluster.asks.put("j1", cluster.asks.get("j1").toBuilder().setAttempt(2).build());
    assertEquals(List.of(), told());
    assertEquals(List.of("JOB", "ASKS"), toldNext());
  }

  @Test void anEndedJobIsToldOnceAndForgotten() {
    told();
    cluster.ended.put("j1", JobEnded.newBuilder().setJobId("j1").build());
    marks.job("j1");
    List<String> said = toldNext();
    assertEquals("JOB_ENDED", said.get(said.size() - 1));
    marks.job("j1");
    assertEquals(List.of(), toldNext());
    assertTrue(mirror.askedAtNs("j1") == null);
  }

  @Test void aContainerOfAJobThatEndedBeforeBringsItsJob() {
    cluster.job("old", false);
    cluster.ended.put("old", JobEnded.newBuilder().setJobId("old").build());
    told();
    cluster.container("c1", "old", "s1");
    marks.server("s1");
    assertEquals(List.of("JOB", "CONTAINER", "JOB_ENDED"), toldNext());
  }

  @Test void asksOfAnAttemptThatStoppedAreWithdrawn() {
    told();
    cluster.asks.clear();
    marks.job("j1");
    assertEquals(List.of("ASKS"), toldNext());
    assertEquals(List.of(), toldNext());
  }

  @Test void aQueueThatGoesIsTold() {
    told();
    cluster.virtualClusters.clear();
    marks.queues();
    assertEquals(List.of("VIRTUAL_CLUSTER_REMOVED"), toldNext());
  }

  @Test void aRoundUnderWayIsNotReplaced() {
    assertTrue(mirror.step());
    marks.server("s1");
    mirror.nextRound();
    assertEquals(List.of("VIRTUAL_CLUSTER", "SERVER", "JOB", "ASKS", "END"), told());
    assertFalse(mirror.step());
  }
}
