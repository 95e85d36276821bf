package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.*;

import java.lang.reflect.Proxy;
import java.util.*;
import org.apache.hadoop.yarn.api.records.*;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.junit.jupiter.api.Test;

/** How long a container that the resource manager struck off a server's list still holds its GPUs. */
class DepartingTest {
  private static final NodeId HERE = NodeId.newInstance("gpu-a1", 45454);
  private static final NodeId THERE = NodeId.newInstance("gpu-a2", 45454);
  private static final ApplicationAttemptId ATTEMPT = ApplicationAttemptId.newInstance(ApplicationId.newInstance(1, 1), 1);
  private static final ContainerId FIRST = ContainerId.newContainerId(ATTEMPT, 1);
  private static final ContainerId SECOND = ContainerId.newContainerId(ATTEMPT, 2);
  private final Departing departing = new Departing();
  private final List<ContainerId> toBeTold = new ArrayList<>();
  private final RMNode server = answering(RMNode.class, Map.of("getNodeID", HERE, "getContainersToCleanUp", toBeTold));

  private static <T> T answering(Class<T> type, Map<String, Object> answers) {
    return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, with) -> {
      if (!answers.containsKey(method.getName())) throw new UnsupportedOperationException(method.getName());
      return answers.get(method.getName());
    }));
  }

  private void add(ContainerId id, NodeId on) {
    departing.add(answering(RMContainer.class, Map.of("getContainerId", id, "getNodeId", on)));
  }

  private boolean holds(ContainerId id, NodeId on) {
    return departing.on(on).stream().anyMatch(one -> one.getContainerId().equals(id));
  }

  @Test void itHoldsUntilItsServerReportsItsEnd() {
    add(FIRST, HERE);
    assertTrue(holds(FIRST, HERE));
    assertTrue(departing.ended(FIRST));
    assertFalse(holds(FIRST, HERE));
    assertFalse(departing.ended(FIRST));
  }

  @Test void oneThatItsServerNeverKnewIsGivenUpAtTheThirdReportAfterItWasTold() {
    add(FIRST, HERE);
    toBeTold.add(FIRST);
    for (int report = 0; report < 10; report++) assertFalse(departing.reported(server));
    toBeTold.clear();
    assertFalse(departing.reported(server));
    assertFalse(departing.reported(server));
    assertTrue(holds(FIRST, HERE));
    assertTrue(departing.reported(server));
    assertFalse(holds(FIRST, HERE));
    assertFalse(departing.reported(server));
  }

  @Test void oneThatIsKnownToRunHoldsUntilItsReportedEnd() {
    add(FIRST, HERE);
    departing.runs(FIRST);
    departing.runs(SECOND);
    for (int report = 0; report < 10; report++) assertFalse(departing.reported(server));
    assertTrue(holds(FIRST, HERE));
    assertTrue(departing.ended(FIRST));
  }

  @Test void aServerThatComesBackWithItsOwnListIsBelievedAndNoOther() {
    add(FIRST, HERE);
    add(SECOND, THERE);
    departing.forget(HERE);
    assertFalse(holds(FIRST, HERE));
    assertTrue(holds(SECOND, THERE));
    assertTrue(departing.on(NodeId.newInstance("gpu-a3", 45454)).isEmpty());
  }

  @Test void whatALostServerRanIsHeldAgainWhenItIsBackUntilItHasReportedWithoutIt() {
    add(FIRST, HERE);
    add(SECOND, HERE);
    departing.runs(FIRST);
    departing.lost(HERE);
    departing.lost(HERE);
    assertFalse(holds(FIRST, HERE));
    departing.back(HERE);
    assertTrue(holds(FIRST, HERE));
    departing.runs(SECOND);
    for (int report = 0; report < 3; report++) departing.reported(server);
    assertFalse(holds(FIRST, HERE), "it knew nothing of it: it has been started anew");
    assertTrue(holds(SECOND, HERE));
    assertTrue(departing.ended(SECOND));
    departing.back(HERE);
    assertTrue(departing.on(HERE).isEmpty());
  }

  @Test void aLostServerThatComesBackWithItsOwnListIsBelieved() {
    add(FIRST, HERE);
    departing.lost(HERE);
    departing.forget(HERE);
    departing.back(HERE);
    assertTrue(departing.on(HERE).isEmpty());
  }

  @Test void ofTooManyLostServersTheEldestIsForgotten() {
    for (int number = 0; number <= Departing.LOST_SERVERS_MAX; number++) {
      NodeId each = NodeId.newInstance("s" + number, 1);
      add(ContainerId.newContainerId(ATTEMPT, number), each);
      departing.lost(each);
    }
    departing.back(NodeId.newInstance("s0", 1));
    departing.back(NodeId.newInstance("s1", 1));
    assertTrue(departing.on(NodeId.newInstance("s0", 1)).isEmpty());
    assertEquals(1, departing.on(NodeId.newInstance("s1", 1)).size());
  }
}
