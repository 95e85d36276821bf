package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import java.util.Optional;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.activities.DiagnosticsCollector;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.LocalityAppPlacementAllocator;

/**
 * Lets an ask for GPUs pass over servers without GPUs before stock placement looks at it. Else one that waits for GPUs in a
 * queue whose GPUs are all in use would end the queue's turn there, for every application behind it, and where it would not,
 * each heartbeat of such a server would log a warning.
 */
public final class GpuAskAllocator extends LocalityAppPlacementAllocator<SchedulerNode> {
  @Override public boolean precheckNode(SchedulerNode node, SchedulingMode mode, Optional<DiagnosticsCollector> diagnostics) {
    boolean passedOver = Words.gpus(node.getTotalResource()) == 0
        && Words.gpus(getPendingAsk(ResourceRequest.ANY).getPerAllocationResource()) > 0;
    return !passedOver && super.precheckNode(node, mode, diagnostics);
  }
}
