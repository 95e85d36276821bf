package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.apache.hadoop.yarn.api.records.ContainerUpdateType.DECREASE_RESOURCE;

import java.util.*;
import org.apache.hadoop.yarn.api.records.*;
import org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ContainerUpdates;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * What nobody serves where there are GPUs: stock placement is off there, and the service is not told of it. It is refused when it
 * is asked, or it would wait for ever.
 */
final class Unserved {
  private Unserved() { }

  /** Called before anything of what a master asks is applied: all of it is refused. */
  static void refuse(CapacityScheduler scheduler, List<SchedulingRequest> constrained, ContainerUpdates updates) {
    if (constrained != null) constrained.forEach(Unserved::refuse);
    for (List<UpdateContainerRequest> some : List.of(updates.getIncreaseRequests(), updates.getDecreaseRequests(),
        updates.getPromotionRequests(), updates.getDemotionRequests())) some.forEach(update -> refuse(scheduler, update));
  }

  private static void refuse(SchedulingRequest request) {
    Resource each = request.getResourceSizing() == null ? null : request.getResourceSizing().getResources();
    if (each == null || Words.gpus(each) == 0) return;
    Unserved.<RuntimeException>refuse("scheduling request %d with tags %s asks %s under a placement constraint, which nobody serves with GPUs: "
        + "ask it without one, at hosts, racks or a label", request.getAllocationRequestId(), request.getAllocationTags(), each);
  }

  /** A container may become smaller where GPUs are, if it keeps its own: whose indices went could not be told. */
  private static void refuse(CapacityScheduler scheduler, UpdateContainerRequest update) {
    RMContainer one = scheduler.getRMContainer(update.getContainerId());
    FiCaSchedulerNode node = one == null ? null : scheduler.getNode(one.getContainer().getNodeId());
    int gpus = one == null ? 0 : Words.gpus(one.getContainer().getResource());
    boolean keeps = update.getCapability() == null || Words.gpus(update.getCapability()) == gpus;
    if (node == null || keeps && (update.getContainerUpdateType() == DECREASE_RESOURCE || Words.gpus(node.getTotalResource()) == 0)) return;
    Unserved.<RuntimeException>refuse("%s to %s of container %s on %s is not served with GPUs: ask less memory or fewer vcores with its %d GPUs, "
        + "or another container", update.getContainerUpdateType(), update.getCapability(), one.getContainerId(), node.getNodeID(), gpus);
  }

  /** The resource manager hands a YarnException on to the master; that its scheduler cannot declare one makes no difference. */
  @SuppressWarnings("unchecked")  // nothing is cast: the type only tells the compiler what may be thrown
  private static <E extends Throwable> void refuse(String format, Object... with) throws E {
    throw (E) new InvalidResourceRequestException(String.format(Locale.ROOT, format, with));
  }
}
