package io.github.yarn_gpu_sched.load;

import java.io.IOException;
import java.net.InetSocketAddress;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.security.SecurityUtil;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.api.ApplicationClientProtocol;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.client.ClientRMProxy;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;

/** Where the ResourceManager is: its protocol for clients, and connections to its protocol for masters. */
final class ResourceManager {
  private final YarnConfiguration conf = new YarnConfiguration();
  private final ApplicationClientProtocol client;
  private final InetSocketAddress scheduler;

  /** Reads yarn-site.xml and its neighbours from the class path. */
  ResourceManager() throws IOException {
    client = ClientRMProxy.createRMProxy(conf, ApplicationClientProtocol.class);
    InetSocketAddress address = conf.getSocketAddr(
        YarnConfiguration.RM_SCHEDULER_ADDRESS,
        YarnConfiguration.DEFAULT_RM_SCHEDULER_ADDRESS,
        YarnConfiguration.DEFAULT_RM_SCHEDULER_PORT);
    scheduler = NetUtils.createSocketAddr(address.getHostString(), address.getPort());
  }

  YarnConfiguration conf() {
    return conf;
  }

  ApplicationClientProtocol client() {
    return client;
  }

  /** Opens a connection of its own for one attempt. */
  MasterConnection connect(ApplicationAttemptId attempt, Token<AMRMTokenIdentifier> token) throws IOException {
    SecurityUtil.setTokenService(token, scheduler);
    UserGroupInformation user = UserGroupInformation.createRemoteUser(attempt.toString());
    user.addToken(token);
    return new MasterConnection(scheduler, user, conf);
  }
}
