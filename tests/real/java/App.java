package io.github.yarn_gpu_sched.tests;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.github.yarn_gpu_sched.load.ApplicationMaster;
import io.github.yarn_gpu_sched.load.Shape;
import java.io.File;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.hadoop.security.Credentials;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.security.token.TokenIdentifier;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationReport;
import org.apache.hadoop.yarn.api.records.ApplicationSubmissionContext;
import org.apache.hadoop.yarn.api.records.ApplicationTimeoutType;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.ContainerUpdateType;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.api.records.ExecutionTypeRequest;
import org.apache.hadoop.yarn.api.records.NMToken;
import org.apache.hadoop.yarn.api.records.PreemptionMessage;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceBlacklistRequest;
import org.apache.hadoop.yarn.api.records.ResourceInformation;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.api.records.ResourceSizing;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.api.records.UpdateContainerRequest;
import org.apache.hadoop.yarn.api.records.UpdatedContainer;
import org.apache.hadoop.yarn.api.records.YarnApplicationState;
import org.apache.hadoop.yarn.api.resource.PlacementConstraints;
import org.apache.hadoop.yarn.client.api.NMClient;
import org.apache.hadoop.yarn.client.api.NMTokenCache;

/**
 * One application, and what its master is told to do, by the load generator's master. Unmanaged, or with am.sh as its master's
 * process.
 */
final class App {
  private static final long POLL_MS = 100;

  final ApplicationId id;
  private final Apps apps;
  private final boolean unmanaged;
  private final Map<String, Container> containers = new LinkedHashMap<>();
  private final NMTokenCache tokens = new NMTokenCache();
  private final ApplicationMaster master;
  private NMClient nm;
  private Path fifo;
  StockClient stock;
  private int completed;

  App(Apps apps, JsonNode request) throws Exception {
    this.apps = apps;
    unmanaged = request.path("unmanaged").asBoolean();
    ApplicationSubmissionContext context = apps.client.createApplication().getApplicationSubmissionContext();
    id = context.getApplicationId();
    master = new ApplicationMaster(apps.rm, id);
    context.setApplicationName(request.path("name").asText("test"));
    context.setQueue(request.path("queue").asText("default"));
    context.setUnmanagedAM(unmanaged);
    context.setMaxAppAttempts(request.path("attempts").asInt(1));
    context.setPriority(Priority.newInstance(request.path("priority").asInt(0)));
    context.setKeepContainersAcrossApplicationAttempts(request.path("keeps").asBoolean());
    context.setResource(resource(request.path("am")));
    if (request.has("lifetime_s")) {
      context.setApplicationTimeouts(Map.of(ApplicationTimeoutType.LIFETIME, request.get("lifetime_s").asLong()));
    }
    Set<String> tags = new HashSet<>();
    request.path("tags").forEach(tag -> tags.add(tag.asText()));
    context.setApplicationTags(tags);
    context.setAMContainerSpec(commands(request.path("am_command").asText()));
    apps.client.submitApplication(context);
  }

  /** Wait until the current attempt's master may speak, and register it. `attempt`: at least that one. */
  synchronized ObjectNode register(JsonNode request) throws Exception {
    long until = System.nanoTime() + request.path("timeout_s").asLong(60) * 1_000_000_000L;
    int least = request.path("attempt").asInt(1);
    while (true) {
      ApplicationReport report = apps.client.getApplicationReport(id);
      ApplicationAttemptId attempt = report.getCurrentApplicationAttemptId();
      if (attempt != null && attempt.getAttemptId() >= least) {
        Token<? extends TokenIdentifier> token = unmanaged ? master.unmanagedToken(attempt) : managedToken(attempt);
        if (token != null && request.path("stock").asBoolean()) {
          stock = new StockClient(apps.conf, attempt, token);
          return Apps.JSON.createObjectNode().put("attempt", attempt.toString());
        }
        if (token != null) {
          master.register(attempt, token).getNMTokensFromPreviousAttempts().forEach(this::keep);
          return Apps.JSON.createObjectNode().put("attempt", attempt.toString());
        }
      }
      YarnApplicationState state = report.getYarnApplicationState();
      if (state == YarnApplicationState.FAILED || state == YarnApplicationState.KILLED) {
        throw new IOException(id + " is " + state + ": " + report.getDiagnostics());
      }
      pause(until, id + " has no master: " + state + " " + report.getDiagnostics());
    }
  }

  private Token<? extends TokenIdentifier> managedToken(ApplicationAttemptId attempt) throws IOException {
    try (DirectoryStream<Path> files = Files.newDirectoryStream(apps.exchange, "*.token")) {
      for (Path file : files) {
        String name = file.getFileName().toString().replace(".token", "");
        if (ContainerId.fromString(name).getApplicationAttemptId().equals(attempt)) {
          fifo = apps.exchange.resolve(name + ".fifo");
          Credentials credentials = Credentials.readTokenStorageFile(new File(file.toString()), apps.conf);
          return credentials.getAllTokens().iterator().next();
        }
      }
    }
    return null;
  }

  /** One heartbeat of the master: `asks`, `constrained` asks, `updates` of containers, `release`, `blacklist`, `unblacklist`. */
  synchronized ObjectNode allocate(JsonNode request) throws Exception {
    List<ResourceRequest> asks = new ArrayList<>();
    request.path("asks").forEach(ask -> asks.addAll(asked(ask)));
    List<ContainerId> release = new ArrayList<>();
    request.path("release").forEach(name -> release.add(ContainerId.fromString(name.asText())));
    ResourceBlacklistRequest blacklist =
        ResourceBlacklistRequest.newInstance(texts(request.path("blacklist")), texts(request.path("unblacklist")));
    AllocateResponse response = master.allocate(AllocateRequest.newBuilder()
        .askList(asks).releaseList(release).resourceBlacklistRequest(blacklist)
        .schedulingRequests(each(request.path("constrained")).map(App::constrained).collect(Collectors.toList()))
        .updateRequests(each(request.path("updates")).map(this::update).collect(Collectors.toList())));
    response.getNMTokens().forEach(this::keep);
    ObjectNode answer = Apps.JSON.createObjectNode();
    ArrayNode allocated = answer.putArray("allocated");
    for (Container container : response.getAllocatedContainers()) {
      containers.put(container.getId().toString(), container);
      allocated.add(described(container));
    }
    ArrayNode updated = answer.putArray("updated");
    for (UpdatedContainer update : response.getUpdatedContainers()) {
      containers.put(update.getContainer().getId().toString(), update.getContainer());
      updated.add(described(update.getContainer()));
    }
    ArrayNode ended = answer.putArray("completed");
    for (ContainerStatus status : response.getCompletedContainersStatuses()) {
      completed++;
      ended.addObject().put("container", status.getContainerId().toString()).put("exit", status.getExitStatus())
          .put("diagnostics", status.getDiagnostics());
    }
    if (response.getPreemptionMessage() != null) {
      answer.set("preemption", told(response.getPreemptionMessage()));
    }
    return answer;
  }

  /** What is to be stopped: `strict`, whatever the master does, or `negotiable`. */
  private static ObjectNode told(PreemptionMessage message) {
    ObjectNode told = Apps.JSON.createObjectNode();
    ArrayNode strict = told.putArray("strict");
    if (message.getStrictContract() != null) {
      message.getStrictContract().getContainers().forEach(one -> strict.add(one.getId().toString()));
    }
    ArrayNode negotiable = told.putArray("negotiable");
    if (message.getContract() != null) {
      message.getContract().getContainers().forEach(one -> negotiable.add(one.getId().toString()));
    }
    return told;
  }

  /** Heartbeat until `containers` are held, or `completed` have ended, counted from the start. */
  synchronized ObjectNode await(JsonNode request) throws Exception {
    long until = System.nanoTime() + request.path("timeout_s").asLong(60) * 1_000_000_000L;
    ObjectNode all = Apps.JSON.createObjectNode();
    ArrayNode allocated = all.putArray("allocated");
    ArrayNode ended = all.putArray("completed");
    JsonNode next = request;
    while (true) {
      ObjectNode answer = allocate(next);
      allocated.addAll((ArrayNode) answer.get("allocated"));
      ended.addAll((ArrayNode) answer.get("completed"));
      next = Apps.JSON.createObjectNode();
      if (containers.size() >= request.path("containers").asInt() && completed >= request.path("completed").asInt()) {
        return all;
      }
      pause(until, id + " holds " + containers.size() + ", ended " + completed + " of " + request);
    }
  }

  /** Start `command` in all containers named, or in all that are held. */
  synchronized ObjectNode launch(JsonNode request) throws Exception {
    if (nm == null) {
      nm = NMClient.createNMClient();
      nm.setNMTokenCache(tokens);
      nm.cleanupRunningContainersOnStop(false);
      nm.init(apps.conf);
      nm.start();
    }
    List<String> names = request.has("containers") ? texts(request.get("containers")) : List.copyOf(containers.keySet());
    for (String name : names) {
      nm.startContainer(containers.get(name), commands(request.get("command").asText()));
    }
    return Apps.JSON.createObjectNode().put("started", names.size());
  }

  synchronized ObjectNode finish() throws Exception {
    master.finish();
    if (fifo != null) {
      Files.writeString(fifo, "0\n");
    }
    if (nm != null) {
      nm.stop();
    }
    return Apps.JSON.createObjectNode();
  }

  /** The whole life: register, ask for `asks`, run `command` in all of them, end. */
  ObjectNode run(JsonNode request) throws Exception {
    register(request);
    int count = 0;
    for (JsonNode ask : request.get("asks")) {
      count += ask.get("count").asInt();
    }
    ObjectNode bounds = Apps.JSON.createObjectNode().put("timeout_s", request.path("timeout_s").asLong(60));
    await(bounds.deepCopy().put("containers", count).setAll((ObjectNode) Apps.JSON.createObjectNode()
        .set("asks", request.get("asks"))));
    launch(request);
    ObjectNode ended = await(bounds.put("completed", count));
    finish();
    return ended.put("app", id.toString());
  }

  private void pause(long until, String problem) throws Exception {
    if (System.nanoTime() > until) {
      throw new IOException(problem);
    }
    Thread.sleep(POLL_MS);
  }

  private void keep(NMToken token) {
    tokens.setToken(token.getNodeId().toString(), token.getToken());
  }

  /** `places`: containers by host, rack or `*`; at those that are named in `strict` no other place will do. */
  private static List<ResourceRequest> asked(JsonNode ask) {
    List<ResourceRequest> requests = new ArrayList<>();
    JsonNode places = ask.has("places") ? ask.get("places")
        : Apps.JSON.createObjectNode().put(ResourceRequest.ANY, ask.get("count").asInt());
    List<String> strict = texts(ask.path("strict"));
    places.fields().forEachRemaining(place -> requests.add(ResourceRequest.newBuilder().resourceName(place.getKey())
        .numContainers(place.getValue().asInt()).priority(Priority.newInstance(ask.path("priority").asInt(1)))
        .allocationRequestId(ask.path("key").asLong(0)).capability(resource(ask))
        .nodeLabelExpression(place.getKey().equals(ResourceRequest.ANY) ? ask.path("label").asText(null) : null)
        .relaxLocality(!strict.contains(place.getKey())).build()));
    return requests;
  }

  /** Containers that must not be on one server with each other. */
  private static SchedulingRequest constrained(JsonNode ask) {
    return SchedulingRequest.newBuilder().allocationRequestId(ask.path("key").asLong(0))
        .priority(Priority.newInstance(ask.path("priority").asInt(1)))
        .executionType(ExecutionTypeRequest.newInstance(ExecutionType.GUARANTEED)).allocationTags(Set.of("apart"))
        .resourceSizing(ResourceSizing.newInstance(ask.get("count").asInt(), resource(ask)))
        .placementConstraintExpression(PlacementConstraints.targetNotIn(PlacementConstraints.NODE,
            PlacementConstraints.PlacementTargets.allocationTag("apart")).build()).build();
  }

  /** `kind`: of ContainerUpdateType. */
  private UpdateContainerRequest update(JsonNode update) {
    Container container = containers.get(update.get("container").asText());
    ContainerUpdateType kind = ContainerUpdateType.valueOf(update.get("kind").asText());
    ExecutionType demoted = kind == ContainerUpdateType.DEMOTE_EXECUTION_TYPE ? ExecutionType.OPPORTUNISTIC : null;
    return UpdateContainerRequest.newInstance(container.getVersion(), container.getId(), kind,
        demoted == null ? resource(update) : null, demoted);
  }

  static Resource resource(JsonNode node) {
    return new Shape(node.path("memory_mb").asInt(256), node.path("vcores").asInt(1), node.path("gpus").asInt()).resource();
  }

  private static long gpus(Resource resource) {
    return Stream.of(resource.getResources()).filter(kind -> kind.getName().equals("yarn.io/gpu"))
        .mapToLong(ResourceInformation::getValue).sum();
  }

  private static Stream<JsonNode> each(JsonNode array) {
    return StreamSupport.stream(array.spliterator(), false);
  }

  static List<String> texts(JsonNode array) {
    List<String> texts = new ArrayList<>();
    array.forEach(text -> texts.add(text.asText()));
    return texts;
  }

  private static ContainerLaunchContext commands(String command) {
    List<String> commands = command.isEmpty()
        ? Collections.emptyList() : List.of(command + " 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr");
    return ContainerLaunchContext.newInstance(new HashMap<>(), new HashMap<>(), commands, null, null, new HashMap<>());
  }

  static ObjectNode described(Container container) {
    ObjectNode node = Apps.JSON.createObjectNode().put("container", container.getId().toString())
        .put("server", container.getNodeId().toString()).put("key", container.getAllocationRequestId())
        .put("priority", container.getPriority().getPriority())
        .put("memory_mb", container.getResource().getMemorySize()).put("gpus", gpus(container.getResource()));
    ArrayNode tags = node.putArray("tags");
    container.getAllocationTags().forEach(tags::add);
    return node;
  }
}
