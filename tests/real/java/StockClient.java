package io.github.yarn_gpu_sched.tests;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.security.PrivilegedExceptionAction;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.security.token.TokenIdentifier;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.FinalApplicationStatus;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.client.api.AMRMClient;
import org.apache.hadoop.yarn.client.api.AMRMClient.ContainerRequest;

/** A master's side of the protocol as Hadoop's own library speaks it: it keeps totals, adds racks to hosts, and resyncs. */
final class StockClient {
  private static final long POLL_MS = 100;

  private final AMRMClient<ContainerRequest> client;
  private final Map<String, Container> containers = new LinkedHashMap<>();
  private final List<ContainerRequest> requests = new ArrayList<>();

  StockClient(Configuration conf, ApplicationAttemptId attempt, Token<? extends TokenIdentifier> token) throws Exception {
    UserGroupInformation user = UserGroupInformation.createRemoteUser(attempt.toString());
    user.addToken(token);
    client = user.doAs((PrivilegedExceptionAction<AMRMClient<ContainerRequest>>) () -> {
      AMRMClient<ContainerRequest> made = AMRMClient.createAMRMClient();
      made.init(conf);
      made.start();
      made.registerApplicationMaster("localhost", 0, "");
      return made;
    });
  }

  /** `request` and `withdraw` change totals, which the next heartbeat of `hold` tells; `finish` ends the application. */
  synchronized ObjectNode act(JsonNode request) throws Exception {
    ObjectNode answer = Apps.JSON.createObjectNode();
    switch (request.get("does").asText()) {
      case "request":
        change(request, one -> {
          requests.add(one);
          client.addContainerRequest(one);
        });
        return answer;
      case "withdraw":
        requests.forEach(client::removeContainerRequest);
        requests.clear();
        return answer;
      case "release":
        request.get("containers").forEach(name -> client.releaseAssignedContainer(containers.get(name.asText()).getId()));
        return answer;
      case "hold":
        return hold(request, answer);
      case "finish":
        client.unregisterApplicationMaster(FinalApplicationStatus.SUCCEEDED, "", "");
        client.stop();
        return answer;
      default:
        throw new IllegalArgumentException("does " + request.get("does"));
    }
  }

  private void change(JsonNode request, Consumer<ContainerRequest> each) {
    String[] hosts = texts(request.path("hosts"));
    String[] racks = texts(request.path("racks"));
    for (int i = 0; i < request.get("count").asInt(); i++) {
      each.accept(new ContainerRequest(App.resource(request), hosts, racks, Priority.newInstance(request.path("priority").asInt(1)),
          request.path("key").asLong(0), !request.path("strict").asBoolean()));
    }
  }

  /** Heartbeat until so many containers came since the start. Each takes one request off, unless `careless` says not to. */
  private ObjectNode hold(JsonNode request, ObjectNode answer) throws Exception {
    long until = System.nanoTime() + request.path("timeout_s").asLong(60) * 1_000_000_000L;
    ArrayNode allocated = answer.putArray("allocated");
    do {
      AllocateResponse response = client.allocate(0.5f);
      for (Container container : response.getAllocatedContainers()) {
        containers.put(container.getId().toString(), container);
        allocated.add(App.described(container));
        if (!request.path("careless").asBoolean() && !requests.isEmpty()) {
          client.removeContainerRequest(requests.remove(0));
        }
      }
      if (System.nanoTime() > until) {
        throw new IOException("holds " + containers.size() + " of " + request);
      }
      Thread.sleep(POLL_MS);
    } while (containers.size() < request.get("containers").asInt());
    return answer;
  }

  private static String[] texts(JsonNode array) {
    return array.isMissingNode() ? null : App.texts(array).toArray(new String[0]);
  }
}
