package io.github.yarn_gpu_sched.load;

import java.util.Map;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;

/** What one container, or one server, has: memory, vcores and GPUs. */
public record Shape(int memory_mb, int vcores, int gpus) {
  static final String GPU = "yarn.io/gpu";

  public Resource resource() {
    // A cluster whose resource-types.xml knows no GPU still takes shapes without GPUs.
    return gpus == 0
        ? Resource.newInstance(memory_mb, vcores)
        : Resource.newInstance(memory_mb, vcores, Map.of(GPU, (long) gpus));
  }

  /** An ask for anywhere in the cluster: {@code count} is the absolute total still wanted under this key. */
  ResourceRequest ask(int priority, long allocation_request_id, int count) {
    return ResourceRequest.newBuilder()
        .priority(Priority.newInstance(priority))
        .allocationRequestId(allocation_request_id)
        .resourceName(ResourceRequest.ANY)
        .capability(resource())
        .numContainers(count)
        .relaxLocality(true)
        .build();
  }
}
