package io.github.yarn_gpu_sched.load;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.security.PrivilegedExceptionAction;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.security.SecurityUtil;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.security.token.TokenIdentifier;
import org.apache.hadoop.yarn.api.ApplicationClientProtocol;
import org.apache.hadoop.yarn.api.ApplicationMasterProtocol;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.client.ClientRMProxy;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/** Where the ResourceManager is: its protocol for clients, and connections to its protocol for masters. */
public final class ResourceManager {
  /** How a master's connection is made. */
  public interface Connector {
    /** Connects as the user who carries the master's token. */
    ApplicationMasterProtocol connect(ResourceManager rm, UserGroupInformation user)
        throws IOException, InterruptedException;
  }

  /** By Hadoop's client, which looks for the ResourceManager again when it has gone, with two threads a connection. */
  public static final Connector PATIENT = (rm, user) -> user.doAs((PrivilegedExceptionAction<ApplicationMasterProtocol>) () ->
      ClientRMProxy.createRMProxy(rm.conf, ApplicationMasterProtocol.class));

  /** Without Hadoop's client and its threads: for ten thousand masters at once, to a ResourceManager that stays. */
  static final Connector DIRECT = (rm, user) -> new MasterConnection(rm.scheduler, user, rm.conf);

  private final YarnConfiguration conf;
  private final Connector connector;
  private final ApplicationClientProtocol client;
  private final InetSocketAddress scheduler;

  /** {@code conf}: yarn-site.xml and its neighbours, read from the class path. */
  public ResourceManager(YarnConfiguration conf, Connector connector) throws IOException {
    this.conf = conf;
    this.connector = connector;
    client = ClientRMProxy.createRMProxy(conf, ApplicationClientProtocol.class);
    InetSocketAddress address = conf.getSocketAddr(
        YarnConfiguration.RM_SCHEDULER_ADDRESS,
        YarnConfiguration.DEFAULT_RM_SCHEDULER_ADDRESS,
        YarnConfiguration.DEFAULT_RM_SCHEDULER_PORT);
    scheduler = NetUtils.createSocketAddr(address.getHostString(), address.getPort());
  }

  public YarnConfiguration conf() {
    return conf;
  }

  ApplicationClientProtocol client() {
    return client;
  }

  /** Opens a connection of its own for one attempt. */
  ApplicationMasterProtocol connect(ApplicationAttemptId attempt, Token<? extends TokenIdentifier> token)
      throws IOException, InterruptedException {
    SecurityUtil.setTokenService(token, scheduler);
    UserGroupInformation user = UserGroupInformation.createRemoteUser(attempt.toString());
    user.addToken(token);
    return connector.connect(this, user);
  }
}
