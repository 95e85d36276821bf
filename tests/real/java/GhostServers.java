package io.github.yarn_gpu_sched.tests;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collections;
import java.util.HashSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.api.ResourceTracker;
import org.apache.hadoop.yarn.server.api.ServerRMProxy;
import org.apache.hadoop.yarn.server.api.protocolrecords.RegisterNodeManagerRequest;
import org.apache.hadoop.yarn.server.api.protocolrecords.RegisterNodeManagerResponse;
import org.apache.hadoop.yarn.server.api.protocolrecords.UnRegisterNodeManagerRequest;
import org.apache.hadoop.yarn.util.YarnVersionInfo;

/** Servers that register with the ResourceManager as a NodeManager does, and leave when told: nothing runs on them. */
final class GhostServers {
  private final Configuration conf;
  private ResourceTracker tracker;

  GhostServers(Configuration conf) {
    this.conf = conf;
  }

  synchronized ObjectNode appear(JsonNode request) throws Exception {
    Resource resource =
        Resource.newInstance(request.path("memory_mb").asLong(8192), request.path("vcores").asInt(16));
    resource.setResourceValue("yarn.io/gpu", request.path("gpus").asLong());
    RegisterNodeManagerRequest registration = RegisterNodeManagerRequest.newInstance(
        NodeId.fromString(request.get("server").asText()), 8042, resource, YarnVersionInfo.getVersion(),
        Collections.emptyList(), Collections.emptyList(), new HashSet<>());
    RegisterNodeManagerResponse response = tracker().registerNodeManager(registration);
    return Apps.JSON.createObjectNode().put("action", response.getNodeAction().toString())
        .put("text", String.valueOf(response.getDiagnosticsMessage()));
  }

  synchronized ObjectNode vanish(JsonNode request) throws Exception {
    tracker().unRegisterNodeManager(
        UnRegisterNodeManagerRequest.newInstance(NodeId.fromString(request.get("server").asText())));
    return Apps.JSON.createObjectNode();
  }

  private ResourceTracker tracker() throws Exception {
    if (tracker == null) {
      tracker = ServerRMProxy.createRMProxy(conf, ResourceTracker.class);
    }
    return tracker;
  }
}
