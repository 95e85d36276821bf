package io.github.yarn_gpu_sched.load;

import java.io.IOException;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.security.token.TokenIdentifier;
import org.apache.hadoop.yarn.api.ApplicationMasterProtocol;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.FinishApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.GetApplicationAttemptReportRequest;
import org.apache.hadoop.yarn.api.protocolrecords.GetApplicationReportRequest;
import org.apache.hadoop.yarn.api.protocolrecords.GetNewApplicationRequest;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterResponse;
import org.apache.hadoop.yarn.api.protocolrecords.SubmitApplicationRequest;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationReport;
import org.apache.hadoop.yarn.api.records.ApplicationSubmissionContext;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.FinalApplicationStatus;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.api.records.YarnApplicationAttemptState;
import org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException;
import org.apache.hadoop.yarn.exceptions.YarnException;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;

/**
 * An application's master: no process of its own, so it asks at any speed, and thousands are played by one.
 *
 * <p>Load and scripted tests are made of these. Registered, then any number of {@link #allocate} calls, then finished.
 * Not for use by two threads at once.
 */
public final class ApplicationMaster {
  private static final Shape UNUSED = new Shape(64, 1, 0);
  private static final long POLL_MS = 20;
  private static final long FINISH_MS_MAX = 30_000;

  private final ResourceManager rm;
  private final ApplicationId id;
  private ApplicationMasterProtocol connection;
  private int response_id;

  /** The master of an application that was submitted. */
  public ApplicationMaster(ResourceManager rm, ApplicationId id) {
    this.rm = rm;
    this.id = id;
  }

  /** Submits an application with the tags, whose master is unmanaged, and does not wait for it. */
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
   * Waits until YARN lets the unmanaged attempt register, and registers it.
   *
   * @throws IllegalStateException when the time is over, with the application's state and diagnostics
   */
  void register(long wait_ms) throws IOException, YarnException, InterruptedException {
    ApplicationAttemptId attempt = ApplicationAttemptId.newInstance(id, 1);
    long until_ns = System.nanoTime() + wait_ms * 1_000_000;
    Token<AMRMTokenIdentifier> token = unmanagedToken(attempt);
    while (token == null) {
      if (System.nanoTime() > until_ns) {
        ApplicationReport report = report();
        throw new IllegalStateException(id + " may not register after " + wait_ms + " ms: "
            + report.getYarnApplicationState() + " " + report.getDiagnostics());
      }
      Thread.sleep(POLL_MS);
      token = unmanagedToken(attempt);
    }
    register(attempt, token);
  }

  /** What an unmanaged attempt proves itself with; null while YARN does not let it register. */
  public Token<AMRMTokenIdentifier> unmanagedToken(ApplicationAttemptId attempt) throws IOException, YarnException {
    return launched(attempt) ? token() : null;
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

  /** Connects and registers an attempt; one that has registered before begins anew. */
  public RegisterApplicationMasterResponse register(ApplicationAttemptId attempt, Token<? extends TokenIdentifier> token)
      throws IOException, YarnException, InterruptedException {
    connection = rm.connect(attempt, token);
    response_id = 0;
    return connection.registerApplicationMaster(RegisterApplicationMasterRequest.newInstance("localhost", 0, ""));
  }

  /** One heartbeat: asks are absolute totals, releases are ended at once; returns what became visible meanwhile. */
  AllocateResponse allocate(List<ResourceRequest> asks, List<ContainerId> releases) throws IOException, YarnException {
    return allocate(AllocateRequest.newBuilder().askList(asks).releaseList(releases));
  }

  /** One heartbeat with whatever a master may say. */
  public AllocateResponse allocate(AllocateRequest.AllocateRequestBuilder says) throws IOException, YarnException {
    AllocateResponse response = connection.allocate(says.responseId(response_id).progress(0.5f).build());
    response_id = response.getResponseId();
    return response;
  }

  /** A heartbeat that only looks. */
  AllocateResponse poll() throws IOException, YarnException {
    return allocate(List.of(), List.of());
  }

  /** Ends the application as succeeded; YARN ends the containers that it still holds. */
  public void finish() throws IOException, YarnException, InterruptedException {
    FinishApplicationMasterRequest end =
        FinishApplicationMasterRequest.newInstance(FinalApplicationStatus.SUCCEEDED, "", "");
    long until_ns = System.nanoTime() + FINISH_MS_MAX * 1_000_000;
    while (!connection.finishApplicationMaster(end).getIsUnregistered()) {
      if (System.nanoTime() > until_ns) {
        throw new IOException(id + " is not unregistered after " + FINISH_MS_MAX + " ms");
      }
      Thread.sleep(POLL_MS);
    }
    if (connection instanceof MasterConnection) {
      ((MasterConnection) connection).close();
    }
  }
}
