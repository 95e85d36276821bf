package io.github.yarn_gpu_sched.load;

import java.io.IOException;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.GetApplicationAttemptReportRequest;
import org.apache.hadoop.yarn.api.protocolrecords.GetApplicationReportRequest;
import org.apache.hadoop.yarn.api.protocolrecords.GetNewApplicationRequest;
import org.apache.hadoop.yarn.api.protocolrecords.SubmitApplicationRequest;
import org.apache.hadoop.yarn.api.protocolrecords.impl.pb.AllocateRequestPBImpl;
import org.apache.hadoop.yarn.api.protocolrecords.impl.pb.AllocateResponsePBImpl;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationReport;
import org.apache.hadoop.yarn.api.records.ApplicationSubmissionContext;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.api.records.YarnApplicationAttemptState;
import org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException;
import org.apache.hadoop.yarn.exceptions.YarnException;
import org.apache.hadoop.yarn.proto.YarnProtos.FinalApplicationStatusProto;
import org.apache.hadoop.yarn.proto.YarnServiceProtos.AllocateResponseProto;
import org.apache.hadoop.yarn.proto.YarnServiceProtos.FinishApplicationMasterRequestProto;
import org.apache.hadoop.yarn.proto.YarnServiceProtos.FinishApplicationMasterResponseProto;
import org.apache.hadoop.yarn.proto.YarnServiceProtos.RegisterApplicationMasterRequestProto;
import org.apache.hadoop.yarn.proto.YarnServiceProtos.RegisterApplicationMasterResponseProto;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;

/**
 * An unmanaged ApplicationMaster: no process and no container of its own, so it asks at any speed.
 *
 * <p>Submitted, then registered, then any number of {@link #allocate} calls, then finished. Not for use by two threads
 * at once.
 */
final class ApplicationMaster {
  private static final Shape UNUSED = new Shape(64, 1, 0);
  private static final long POLL_MS = 20;

  private final ResourceManager rm;
  private final ApplicationId id;
  private MasterConnection connection;
  private int response_id;

  private ApplicationMaster(ResourceManager rm, ApplicationId id) {
    this.rm = rm;
    this.id = id;
  }

  /** Submits an application with the tags, and does not wait for it. */
  static ApplicationMaster submit(ResourceManager rm, String name, String queue, Set<String> tags)
      throws IOException, YarnException {
    ApplicationId id = rm.client().getNewApplication(GetNewApplicationRequest.newInstance()).getApplicationId();
    ContainerLaunchContext nothing = ContainerLaunchContext.newInstance(
        Map.of(), Map.of(), Collections.emptyList(), Map.of(), null, Map.of());
    ApplicationSubmissionContext context = ApplicationSubmissionContext.newInstance(
        id, name, queue, Priority.newInstance(0), nothing, true, false, 1, UNUSED.resource(), "yarn-gpu-sched-load");
    context.setApplicationTags(tags);
    rm.client().submitApplication(SubmitApplicationRequest.newInstance(context));
    return new ApplicationMaster(rm, id);
  }

  ApplicationId id() {
    return id;
  }

  /**
   * Waits until YARN lets the attempt register, and registers it.
   *
   * @throws IllegalStateException when the time is over, with the application's state and diagnostics
   */
  void register(long wait_ms) throws IOException, YarnException, InterruptedException {
    ApplicationAttemptId attempt = ApplicationAttemptId.newInstance(id, 1);
    long until_ns = System.nanoTime() + wait_ms * 1_000_000;
    while (!launched(attempt)) {
      if (System.nanoTime() > until_ns) {
        ApplicationReport report = report();
        throw new IllegalStateException(id + " may not register after " + wait_ms + " ms: "
            + report.getYarnApplicationState() + " " + report.getDiagnostics());
      }
      Thread.sleep(POLL_MS);
    }
    connection = rm.connect(attempt, token());
    connection.call(
        "registerApplicationMaster",
        RegisterApplicationMasterRequestProto.newBuilder().setHost("localhost").setRpcPort(0).setTrackingUrl("").build(),
        RegisterApplicationMasterResponseProto::parseDelimitedFrom);
  }

  private boolean launched(ApplicationAttemptId attempt) throws IOException, YarnException {
    try {
      return rm.client()
          .getApplicationAttemptReport(GetApplicationAttemptReportRequest.newInstance(attempt))
          .getApplicationAttemptReport()
          .getYarnApplicationAttemptState() == YarnApplicationAttemptState.LAUNCHED;
    } catch (ApplicationAttemptNotFoundException e) {
      return false; // submitted, but its first attempt is not made yet
    }
  }

  private ApplicationReport report() throws IOException, YarnException {
    return rm.client().getApplicationReport(GetApplicationReportRequest.newInstance(id)).getApplicationReport();
  }

  private Token<AMRMTokenIdentifier> token() throws IOException, YarnException {
    org.apache.hadoop.yarn.api.records.Token sent = report().getAMRMToken();
    if (sent == null) {
      throw new IllegalStateException(id + ": the ResourceManager gives no token for its unmanaged attempt");
    }
    return new Token<>(
        sent.getIdentifier().array(), sent.getPassword().array(),
        new org.apache.hadoop.io.Text(sent.getKind()), new org.apache.hadoop.io.Text(sent.getService()));
  }

  /** One heartbeat: asks are absolute totals, releases are ended at once; returns what became visible meanwhile. */
  AllocateResponse allocate(List<ResourceRequest> asks, List<ContainerId> releases) throws IOException {
    AllocateRequestPBImpl request = new AllocateRequestPBImpl();
    request.setResponseId(response_id);
    request.setProgress(0.5f);
    request.setAskList(asks);
    request.setReleaseList(releases);
    AllocateResponse response = new AllocateResponsePBImpl(
        connection.call("allocate", request.getProto(), AllocateResponseProto::parseDelimitedFrom));
    response_id = response.getResponseId();
    return response;
  }

  /** A heartbeat that only looks. */
  AllocateResponse poll() throws IOException {
    return allocate(List.of(), List.of());
  }

  /** Ends the application as succeeded; YARN ends the containers that it still holds. */
  void finish() throws IOException {
    connection.call(
        "finishApplicationMaster",
        FinishApplicationMasterRequestProto.newBuilder()
            .setFinalApplicationStatus(FinalApplicationStatusProto.APP_SUCCEEDED)
            .setDiagnostics("")
            .setTrackingUrl("")
            .build(),
        FinishApplicationMasterResponseProto::parseDelimitedFrom);
    connection.close();
  }
}
