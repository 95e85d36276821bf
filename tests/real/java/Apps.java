package io.github.yarn_gpu_sched.tests;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.github.yarn_gpu_sched.load.ResourceManager;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.hadoop.yarn.api.protocolrecords.UpdateApplicationTimeoutsRequest;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptReport;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationReport;
import org.apache.hadoop.yarn.api.records.ApplicationTimeoutType;
import org.apache.hadoop.yarn.client.api.YarnClient;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.util.Times;

/**
 * Many small applications spoken for by one JVM: a JSON object a line on standard input is a request, one on standard
 * output its answer. An application master of its own would be a JVM of its own, and forty of them are too slow.
 *
 * <p>Requests name `op` and carry an `id` that the answer repeats; each runs on a thread of its own.
 */
public final class Apps {
  static final ObjectMapper JSON = new ObjectMapper();

  final YarnConfiguration conf = new YarnConfiguration();
  final YarnClient client = YarnClient.createYarnClient();
  final ResourceManager rm;
  final Path exchange;
  private final Map<String, App> apps = new ConcurrentHashMap<>();
  private final GhostServers ghosts = new GhostServers(conf);

  private Apps(Path exchange) throws IOException {
    this.exchange = exchange;
    rm = new ResourceManager(conf, ResourceManager.PATIENT);
    client.init(conf);
    client.start();
  }

  /** Serve requests until standard input ends. The argument is the folder where am.sh leaves its tokens. */
  public static void main(String[] arguments) throws Exception {
    Apps apps = new Apps(Path.of(arguments[0]));
    PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    System.setOut(System.err); // whatever Hadoop prints is no answer
    ExecutorService threads = Executors.newCachedThreadPool();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonNode request = JSON.readTree(line);
      threads.execute(() -> {
        ObjectNode answer = apps.answer(request);
        answer.set("id", request.get("id"));
        synchronized (answers) {
          answers.println(answer);
        }
      });
    }
    System.exit(0);
  }

  private ObjectNode answer(JsonNode request) {
    try {
      return act(request);
    } catch (Throwable problem) { // whatever it is, the test that asked must see it
      problem.printStackTrace();
      return JSON.createObjectNode().put("error", problem.toString());
    }
  }

  private ObjectNode act(JsonNode request) throws Exception {
    switch (request.get("op").asText()) {
      case "submit":
        return named(submit(request));
      case "register":
        return app(request).register(request);
      case "allocate":
        return app(request).allocate(request);
      case "stock":
        return app(request).stock.act(request);
      case "await":
        return app(request).await(request);
      case "launch":
        return app(request).launch(request);
      case "finish":
        return app(request).finish();
      case "run":
        return submit(request).run(request);
      case "kill":
        client.killApplication(ApplicationId.fromString(request.get("app").asText()));
        return JSON.createObjectNode();
      case "fail_attempt":
        client.failApplicationAttempt(ApplicationAttemptId.fromString(request.get("attempt").asText()));
        return JSON.createObjectNode();
      case "lifetime":
        return limit(ApplicationId.fromString(request.get("app").asText()), request.get("left_s").asLong());
      case "report":
        return report(ApplicationId.fromString(request.get("app").asText()));
      case "attempts":
        return attempts(ApplicationId.fromString(request.get("app").asText()));
      case "yarn":
        return new YarnCommand(conf).run(request.get("arguments"));
      case "ghost":
        return ghosts.appear(request);
      case "ghost_gone":
        return ghosts.vanish(request);
      default:
        throw new IllegalArgumentException("op " + request.get("op"));
    }
  }

  private App submit(JsonNode request) throws Exception {
    App app = new App(this, request);
    apps.put(app.id.toString(), app);
    return app;
  }

  private ObjectNode named(App app) {
    return JSON.createObjectNode().put("app", app.id.toString());
  }

  private App app(JsonNode request) {
    return apps.get(request.get("app").asText());
  }

  private ObjectNode limit(ApplicationId id, long leftS) throws Exception {
    String end = Times.formatISO8601(System.currentTimeMillis() + leftS * 1000);
    client.updateApplicationTimeouts(
        UpdateApplicationTimeoutsRequest.newInstance(id, Map.of(ApplicationTimeoutType.LIFETIME, end)));
    return JSON.createObjectNode();
  }

  private ObjectNode attempts(ApplicationId id) throws Exception {
    ObjectNode answer = JSON.createObjectNode();
    ArrayNode attempts = answer.putArray("attempts");
    for (ApplicationAttemptReport one : client.getApplicationAttempts(id)) {
      attempts.addObject().put("attempt", one.getApplicationAttemptId().getAttemptId())
          .put("state", one.getYarnApplicationAttemptState().toString()).put("diagnostics", one.getDiagnostics());
    }
    return answer;
  }

  private ObjectNode report(ApplicationId id) throws Exception {
    ApplicationReport report = client.getApplicationReport(id);
    return JSON.createObjectNode()
        .put("state", report.getYarnApplicationState().toString())
        .put("final", report.getFinalApplicationStatus().toString())
        .put("diagnostics", report.getDiagnostics())
        .put("attempt", String.valueOf(report.getCurrentApplicationAttemptId()));
  }
}
