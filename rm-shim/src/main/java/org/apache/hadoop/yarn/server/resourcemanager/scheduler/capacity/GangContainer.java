package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.*;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * A container of a gang. Until the gang is whole nobody may learn of it: if it is taken back, its application must not count a
 * container that it never had as ended, and the ask it answered must come back, which YARN forgets at acquisition.
 */
final class GangContainer extends RMContainerImpl {
  final FiCaSchedulerNode node;
  private boolean whole;
  private RMContainerEvent acquired;

  GangContainer(Container container, SchedulerRequestKey key, FiCaSchedulerApp attempt, FiCaSchedulerNode node, RMContext context,
      String partition) {
    super(container, key, attempt.getApplicationAttemptId(), node.getNodeID(), attempt.getUser(), context, partition);
    this.node = node;
    setQueueName(attempt.getCSLeafQueue().getQueuePath());
  }

  @Override public void handle(RMContainerEvent event) {
    synchronized (this) {
      if (!whole && event.getType() == RMContainerEventType.ACQUIRED) acquired = event;
      if (!whole && (event == acquired || event.getType() == RMContainerEventType.KILL)) return;
    }
    super.handle(event);
  }

  /** The gang is committed: from now on it is a container like any other. */
  void becomeWhole() {
    synchronized (this) { whole = true; }
    if (acquired != null) super.handle(acquired);
  }
}
