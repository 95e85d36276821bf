package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.PendingAsk;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * Says whether anything is asked for that stock placement could put on a server without GPUs. Looking costs one visit of each
 * attempt that stopped asking, once; otherwise the first that still asks ends the search.
 */
final class StockAsks {
  private final CapacityScheduler scheduler;
  private final Set<ApplicationAttemptId> candidates = ConcurrentHashMap.newKeySet();

  StockAsks(CapacityScheduler scheduler) {
    this.scheduler = scheduler;
  }

  /** Called after the asks of the attempt may have grown. */
  void mayAsk(ApplicationAttemptId attempt) {
    candidates.add(attempt);
  }

  void allMayAsk() {
    scheduler.getSchedulerApplications().values().forEach(app -> {
      if (app.getCurrentAppAttempt() != null) {
        mayAsk(app.getCurrentAppAttempt().getApplicationAttemptId());
      }
    });
  }

  boolean any() {
    for (ApplicationAttemptId attempt : candidates) {
      if (asks(attempt)) {
        return true;
      }
      candidates.remove(attempt);
      if (asks(attempt)) {  // it asked meanwhile
        candidates.add(attempt);
        return true;
      }
    }
    return false;
  }

  private boolean asks(ApplicationAttemptId id) {
    FiCaSchedulerApp attempt = scheduler.getApplicationAttempt(id);
    if (attempt == null || attempt.isStopped() || !attempt.getApplicationAttemptId().equals(id)) {
      return false;
    }
    for (SchedulerRequestKey key : attempt.getSchedulerKeys()) {
      PendingAsk pending = attempt.getPendingAsk(key, ResourceRequest.ANY);
      if (pending.getCount() > 0 && Words.gpus(pending.getPerAllocationResource()) == 0) {
        return true;
      }
    }
    return false;
  }
}
