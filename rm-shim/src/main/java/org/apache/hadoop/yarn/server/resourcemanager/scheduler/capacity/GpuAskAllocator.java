package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.PendingAsk;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.LocalityAppPlacementAllocator;

/**
 * Lets an ask for GPUs pass over servers without GPUs before stock placement looks at it. Else one that waits for GPUs in a
 * queue whose GPUs are all in use would end the queue's turn there, for every application behind it, and where it would not,
 * each heartbeat of such a server would log a warning.
 */
public final class GpuAskAllocator extends LocalityAppPlacementAllocator<SchedulerNode> {
  /** Who places on a server without GPUs now, as if nobody asked for any. precheckNode would not do: Hadoop 3.5 calls it too late. */
  static volatile Thread placing;

  @Override public PendingAsk getPendingAsk(String place) {
    PendingAsk ask = super.getPendingAsk(place);
    return placing == Thread.currentThread() && Words.gpus(ask.getPerAllocationResource()) > 0 ? PendingAsk.ZERO : ask;
  }
}
