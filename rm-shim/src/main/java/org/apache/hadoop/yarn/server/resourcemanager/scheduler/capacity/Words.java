package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import io.github.yarn_gpu_sched.protocol.v1.RequestKey;
import io.github.yarn_gpu_sched.protocol.v1.Resource;
import java.util.*;
import java.util.regex.*;
import java.util.stream.Collectors;
import org.apache.hadoop.yarn.api.records.*;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.util.resource.ResourceUtils;

/** YARN's words in the protocol's, and back. */
final class Words {
  private static final Pattern TAG = Pattern.compile("gpu_(\\d{1,4})");

  private Words() { }

  /** The job's current attempt; null without one. */
  static FiCaSchedulerApp attempt(CapacityScheduler scheduler, ApplicationId job) {
    SchedulerApplication<FiCaSchedulerApp> known = scheduler.getSchedulerApplications().get(job);
    return known == null ? null : known.getCurrentAppAttempt();
  }

  /** True for the application master's container, also while its attempt has only just got it. */
  static boolean master(RMContext context, RMContainer one) {
    RMApp app = context.getRMApps().get(one.getApplicationAttemptId().getApplicationId());
    RMAppAttempt attempt = app == null ? null : app.getCurrentAppAttempt();
    boolean current = attempt != null && attempt.getAppAttemptId().equals(one.getApplicationAttemptId());
    if (one.isAMContainer() || !current || app.getApplicationSubmissionContext().getUnmanagedAM()) return one.isAMContainer();
    return attempt.getMasterContainer() == null || attempt.getMasterContainer().getId().equals(one.getContainerId());
  }

  /** Whether the end of an attempt, or of all that runs without YARN's master, leaves the application. */
  static boolean startsAnew(RMApp app) { return app.getMaxAppAttempts() > 1 || app.getApplicationSubmissionContext().getUnmanagedAM(); }

  /** Whole GPUs; 0 where the cluster does not know the type. */
  static int gpus(org.apache.hadoop.yarn.api.records.Resource resource) {
    Integer index = ResourceUtils.getResourceTypeIndex().get(ResourceInformation.GPU_URI);
    return index == null ? 0 : (int) Math.max(0, resource.getResourceInformation(index).getValue());
  }

  static Resource resource(org.apache.hadoop.yarn.api.records.Resource held) {
    return Resource.newBuilder().setMemoryMb(Math.max(0, held.getMemorySize())).setVcores(Math.max(0, held.getVirtualCores()))
        .setGpus(gpus(held)).build();
  }

  static RequestKey key(SchedulerRequestKey key) {
    return RequestKey.newBuilder().setPriority(key.getPriority().getPriority()).setAllocationRequestId(key.getAllocationRequestId()).build();
  }

  static SchedulerRequestKey key(RequestKey key) {
    return new SchedulerRequestKey(Priority.newInstance(key.getPriority()), key.getAllocationRequestId(), null);
  }

  /** Allocation tags survive a restart of the resource manager: the servers hand them back. */
  static Set<String> tags(List<Integer> gpuIndices) { return gpuIndices.stream().map(index -> "gpu_" + index).collect(Collectors.toSet()); }

  /** GPU indices, ascending, from a container's allocation tags; empty unless they are as many as its GPUs. */
  static Set<Integer> gpuIndices(RMContainer container) {
    Set<Integer> indices = new TreeSet<>();
    int gpus = gpus(container.getContainer().getResource());
    for (String tag : gpus == 0 || container.getAllocationTags() == null ? Set.<String>of() : container.getAllocationTags()) {
      Matcher index = TAG.matcher(tag);
      if (index.matches()) indices.add(Integer.valueOf(index.group(1)));
    }
    return indices.size() == gpus ? indices : Set.of();
  }

  static boolean isHost(String place) { return !place.startsWith("/") && !ResourceRequest.isAnyLocation(place); }

  /** Hosts are told in lower case, as servers are. */
  static String place(String name) { return cut(isHost(name) ? name.toLowerCase(Locale.ROOT) : name, 1024); }

  static String cut(String text, int chars) { return text == null ? "" : text.substring(0, Math.min(chars, text.length())); }
}
