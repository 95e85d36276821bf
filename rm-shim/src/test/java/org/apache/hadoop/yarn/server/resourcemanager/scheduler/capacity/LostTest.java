package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.*;

import java.lang.reflect.Proxy;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.*;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.*;
import org.apache.hadoop.yarn.util.resource.ResourceUtils;
import org.junit.jupiter.api.*;

/** Which ends of containers are kept as losses until the service is told, and how many. */
class LostTest {
  private static final int LOST_MAX = 16_384;
  private static final NodeId SERVER = NodeId.newInstance("gpu-a1", 45454);
  private static final ApplicationAttemptId ATTEMPT = ApplicationAttemptId.newInstance(ApplicationId.newInstance(1, 1), 1);
  private final GangCapacityScheduler scheduler = new WithoutApplications();

  /** What Hadoop itself does at a container's end stops where its application is gone. */
  private static final class WithoutApplications extends GangCapacityScheduler {
    WithoutApplications() { applications = new ConcurrentHashMap<>(); }
  }

  @BeforeAll static void gpusAreKnown() {
    Configuration conf = new Configuration(false);
    conf.set(YarnConfiguration.RESOURCE_TYPES, ResourceInformation.GPU_URI);
    ResourceUtils.resetResourceTypes(conf);
  }

  @AfterAll static void gpusAreForgotten() { ResourceUtils.resetResourceTypes(new Configuration(false)); }

  private String ends(int number, int gpus, int exit, RMContainerEventType how) {
    ContainerId id = ContainerId.newContainerId(ATTEMPT, number);
    Resource resource = Resource.newInstance(256, 1);
    resource.setResourceValue(ResourceInformation.GPU_URI, gpus);
    Map<String, Object> answers = Map.of("getContainerId", id, "getNodeId", SERVER, "getState", RMContainerState.RUNNING,
        "getContainer", Container.newInstance(id, SERVER, "", resource, Priority.newInstance(1), null));
    Class<RMContainer> type = RMContainer.class;
    RMContainer container = type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
        (self, method, with) -> Objects.requireNonNull(answers.get(method.getName()), method.getName())));
    scheduler.completedContainerInternal(container, ContainerStatus.newInstance(id, ContainerState.COMPLETE, "", exit), how);
    return id.toString();
  }

  @Test void whatFailedOrWasKilledWithGpusIsALoss() {
    String failed = ends(1, 1, 1, RMContainerEventType.FINISHED);
    String killed = ends(2, 1, 0, RMContainerEventType.KILL);
    ends(3, 1, 0, RMContainerEventType.FINISHED);
    ends(4, 1, 1, RMContainerEventType.RELEASED);
    ends(5, 0, 1, RMContainerEventType.FINISHED);
    assertEquals(Set.of(failed, killed), scheduler.lost);
  }

  @Test void ofTooManyLossesTheRestIsToldAsGoodEnds() {
    for (int number = 1; number < LOST_MAX; number++) scheduler.lost.add("container " + number);
    assertTrue(scheduler.lost.contains(ends(1, 1, 1, RMContainerEventType.FINISHED)));
    assertFalse(scheduler.lost.contains(ends(2, 1, 1, RMContainerEventType.FINISHED)));
    assertEquals(LOST_MAX, scheduler.lost.size());
  }
}
