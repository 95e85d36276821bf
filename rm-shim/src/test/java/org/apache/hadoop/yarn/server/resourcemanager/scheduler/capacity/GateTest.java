package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.*;

import io.github.yarn_gpu_sched.shim.Counters;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import org.apache.hadoop.yarn.api.records.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.junit.jupiter.api.*;

/** What an application master may see of a gang while it is being committed, and what becomes of what it asks meanwhile. */
@Timeout(60)
class GateTest {
  private static final ApplicationAttemptId ATTEMPT = ApplicationAttemptId.newInstance(ApplicationId.newInstance(1, 1), 1);
  private static final NodeId SERVER = NodeId.newInstance("gpu-a1", 45454);
  private static final Resource SMALL = Resource.newInstance(256, 1);
  private final Gate gate = new Gate();

  private static ContainerId id(int number) { return ContainerId.newContainerId(ATTEMPT, number); }

  private static Allocation pulled(int... numbers) {
    List<Container> containers = IntStream.of(numbers)
        .mapToObj(number -> Container.newInstance(id(number), SERVER, "", SMALL, Priority.newInstance(1), null))
        .collect(Collectors.toList());
    return new Allocation(containers, SMALL, null, null, null);
  }

  private static ResourceRequest ask(String place, int count) {
    return ResourceRequest.newInstance(Priority.newInstance(1), place, SMALL, count);
  }

  private static List<ContainerId> ids(Allocation reply) {
    return reply.getContainers().stream().map(Container::getId).collect(Collectors.toList());
  }

  private static List<Integer> counts(List<ResourceRequest> asks) {
    return asks.stream().map(ResourceRequest::getNumContainers).collect(Collectors.toList());
  }

  private boolean othersMayEnter() throws Exception {
    return CompletableFuture.supplyAsync(() -> {
      boolean entered = gate.tryEnter();
      if (entered) gate.leave();
      return entered;
    }).get(30, TimeUnit.SECONDS);
  }

  @Test void nobodyEntersDuringACommitAndNobodyWaits() throws Exception {
    assertTrue(othersMayEnter());
    gate.close();
    assertFalse(othersMayEnter());
    gate.open();
    assertTrue(othersMayEnter());
  }

  @Test void aCommitThatWaitsGoesBeforeWhoPollsWithoutPause() throws Exception {
    assertTrue(gate.tryEnter());
    Thread commit = new Thread(() -> {
      gate.close();
      gate.open();
    });
    commit.start();
    while (commit.getState() != Thread.State.WAITING) Thread.onSpinWait();
    assertFalse(othersMayEnter());
    assertFalse(gate.tryEnter());
    gate.leave();
    commit.join();
    assertTrue(othersMayEnter());
  }

  @Test void whatWasPulledMeanwhileComesOnceAndWholeWithTheNextReply() {
    assertEquals(List.of(), ids(gate.keep(List.of(), pulled(1, 2))));
    assertEquals(List.of(), ids(gate.keep(List.of(), pulled(3))));
    assertEquals(List.of(id(1), id(2), id(3), id(4)), ids(gate.handOut(pulled(4), one -> true)));
    assertEquals(List.of(), ids(gate.handOut(pulled(), one -> true)));
  }

  @Test void whatEndedBeforeItWasSeenIsNotHandedOut() {
    gate.keep(List.of(), pulled(1, 2));
    assertEquals(List.of(id(2)), ids(gate.handOut(pulled(), one -> !one.equals(id(1)))));
  }

  private static Allocation stopping(int stopped, int... numbers) {
    Allocation pulled = pulled(numbers);
    return new Allocation(pulled.getContainers(), SMALL, Set.of(id(stopped + 1)), Set.of(id(stopped)), List.of(ask(ResourceRequest.ANY, stopped)));
  }

  private static List<Object> told(Allocation reply) {
    return Arrays.asList(reply.getStrictContainerPreemptions(), reply.getContainerPreemptions(), reply.getResourcePreemptions());
  }

  @Test void whatIsToBeStoppedIsToldOnceAndAtOnceAlsoDuringACommit() {
    List<Object> nothing = Arrays.asList(null, null, null);
    assertEquals(told(stopping(5)), told(gate.keep(List.of(), stopping(5, 1))));
    Allocation next = gate.handOut(pulled(2), one -> true);
    assertEquals(List.of(id(1), id(2)), ids(next));
    assertEquals(nothing, told(next));
    gate.keep(List.of(), pulled(3));
    assertEquals(told(stopping(7)), told(gate.handOut(stopping(7, 4), one -> true)));
    assertEquals(told(stopping(8)), told(gate.handOut(stopping(8), one -> true)));
    assertEquals(nothing, told(gate.handOut(pulled(), one -> true)));
  }

  @Test void aReplyBesideWhichNothingWasKeptIsLeftAsItIs() {
    Allocation reply = pulled(1);
    assertSame(reply, gate.handOut(reply, one -> true));
  }

  @Test void keptAsksAreTotalsSoEachReplacesTheOneBeforeAtItsPlace() {
    gate.keep(List.of(ask(ResourceRequest.ANY, 3), ask("gpu-a1", 2)), pulled());
    for (int count = 4; count < 1000; count++) gate.keep(List.of(ask(ResourceRequest.ANY, count)), pulled());
    assertEquals(List.of(999, 2, 7), counts(gate.asks(List.of(ask(ResourceRequest.ANY, 7)), one -> true)));
    assertEquals(List.of(), gate.asks(List.of(), one -> true));
  }

  private Allocation pass(List<ResourceRequest> asks, List<ResourceRequest> applied, int... committed) throws Exception {
    return CompletableFuture.supplyAsync(() -> gate.pass(asks, now -> {
      applied.addAll(now);
      return pulled(committed);
    }, one -> true, new Counters())).get(30, TimeUnit.SECONDS);
  }

  @Test void asksMadeDuringACommitAreAppliedWithTheNextReplyAlsoIfNothingIsAskedThen() throws Exception {
    List<ResourceRequest> applied = new ArrayList<>();
    gate.close();
    assertEquals(List.of(), ids(pass(List.of(ask(ResourceRequest.ANY, 3)), applied, 1, 2)));
    assertEquals(List.of(), ids(pass(List.of(), applied, 3)));
    assertEquals(List.of(), applied);
    gate.open();
    assertEquals(List.of(id(1), id(2), id(3), id(4)), ids(pass(List.of(), applied, 4)));
    assertEquals(List.of(3), counts(applied));
    assertEquals(List.of(), ids(pass(List.of(), applied)));
    assertEquals(List.of(3), counts(applied));
    assertTrue(othersMayEnter());
  }

  @Test void aPullThatFailsLeavesTheGateOpen() throws Exception {
    assertThrows(IllegalStateException.class, () -> gate.pass(List.of(), now -> {
      throw new IllegalStateException("an ask that YARN refuses");
    }, one -> true, new Counters()));
    assertTrue(othersMayEnter());
  }
}
