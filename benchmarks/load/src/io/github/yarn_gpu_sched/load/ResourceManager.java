package io.github.yarn_gpu_sched.load;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.security.PrivilegedAction;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.security.SecurityUtil;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.api.ApplicationClientProtocol;
import org.apache.hadoop.yarn.api.ApplicationMasterProtocol;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.client.ClientRMProxy;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.ipc.YarnRPC;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;

/** Where the ResourceManager is: its protocol for clients, and connections to its protocol for masters. */
final class ResourceManager {
  private static final int OPEN_MS = 600_000;

  private final YarnConfiguration conf;
  private final ApplicationClientProtocol client;

  /** Reads yarn-site.xml and its neighbours from the class path. */
  ResourceManager() throws IOException {
    conf = new YarnConfiguration();
    // A connection prepared before the measurement is still open when it is needed.
    conf.setInt("ipc.client.connection.maxidletime", OPEN_MS);
    conf.setBoolean("ipc.client.tcpnodelay", true);
    client = ClientRMProxy.createRMProxy(conf, ApplicationClientProtocol.class);
  }

  YarnConfiguration conf() {
    return conf;
  }

  ApplicationClientProtocol client() {
    return client;
  }

  /** Opens a connection of its own for one attempt: YARN tells masters apart by their connection's token. */
  ApplicationMasterProtocol connect(ApplicationAttemptId attempt, Token<AMRMTokenIdentifier> token) {
    InetSocketAddress address = conf.getSocketAddr(
        YarnConfiguration.RM_SCHEDULER_ADDRESS,
        YarnConfiguration.DEFAULT_RM_SCHEDULER_ADDRESS,
        YarnConfiguration.DEFAULT_RM_SCHEDULER_PORT);
    InetSocketAddress resolved = NetUtils.createSocketAddr(address.getHostString(), address.getPort());
    SecurityUtil.setTokenService(token, resolved);
    UserGroupInformation user = UserGroupInformation.createRemoteUser(attempt.toString());
    user.addToken(token);
    return user.doAs((PrivilegedAction<ApplicationMasterProtocol>) () ->
        (ApplicationMasterProtocol) YarnRPC.create(conf).getProxy(ApplicationMasterProtocol.class, resolved, conf));
  }

  void disconnect(ApplicationMasterProtocol protocol) {
    YarnRPC.create(conf).stopProxy(protocol, conf);
  }
}
