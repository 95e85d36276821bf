package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerEventType;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerImpl;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * A container of a gang. Until the gang is whole nobody may learn of it: if it is taken back, its application must not count
 * a container that it never had as ended, and the ask it answered must come back, which stock YARN forgets at acquisition.
 */
final class GangContainer extends RMContainerImpl {
  private boolean whole;
  private RMContainerEvent acquired;

  GangContainer(Container container, SchedulerRequestKey key, ApplicationAttemptId attempt, String user, RMContext context,
      String partition) {
    super(container, key, attempt, container.getNodeId(), user, context, partition);
  }

  @Override
  public void handle(RMContainerEvent event) {
    synchronized (this) {
      if (!whole && event.getType() == RMContainerEventType.ACQUIRED) {
        acquired = event;
        return;
      }
      if (!whole && event.getType() == RMContainerEventType.KILL) {
        return;
      }
    }
    super.handle(event);
  }

  /** The gang is committed: from now on it is a container like any other. */
  void becomeWhole() {
    RMContainerEvent late;
    synchronized (this) {
      whole = true;
      late = acquired;
    }
    if (late != null) {
      super.handle(late);
    }
  }
}
