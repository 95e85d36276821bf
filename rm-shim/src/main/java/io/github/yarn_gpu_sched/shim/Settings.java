package io.github.yarn_gpu_sched.shim;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Locale;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;

/** The keys of yarn-site.xml that begin with "ygs.", checked. docs/shim.md is their table. */
public final class Settings {
  private static final Pattern CLUSTER_ID = Pattern.compile("[A-Za-z0-9._-]{1,128}");

  /** Where the service listens. Loopback only: the link carries no TLS yet. */
  public final String serviceHost;
  public final int servicePort;
  public final String clusterId;
  public final double settleS;
  public final int batchMs;

  private Settings(String host, int port, String clusterId, double settleS, int batchMs) {
    this.serviceHost = host;
    this.servicePort = port;
    this.clusterId = clusterId;
    this.settleS = settleS;
    this.batchMs = batchMs;
  }

  /** Reads and checks. Throws IllegalArgumentException that names key, value and what would be right. */
  public static Settings read(Configuration conf) {
    String address = text(conf, "ygs.service-address", "127.0.0.1:7433");
    int colon = address.lastIndexOf(':');
    if (colon < 1) {
      throw wrong("ygs.service-address", address, "it must be host:port");
    }
    String host = address.substring(0, colon);
    if (!isLoopback(host)) {
      throw wrong("ygs.service-address", address, "the host must be a loopback address, since the link carries no TLS yet");
    }
    String clusterId = text(conf, "ygs.cluster-id", text(conf, "yarn.resourcemanager.cluster-id", "yarn"));
    if (!CLUSTER_ID.matcher(clusterId).matches()) {
      throw wrong("ygs.cluster-id", clusterId, "it must have 1 to 128 letters, digits, \"-\", \"_\" or \".\"");
    }
    String cpuServers = text(conf, "ygs.cpu-servers", "stock");
    if (!cpuServers.equals("stock")) {
      throw wrong("ygs.cpu-servers", cpuServers, "only \"stock\" is served");
    }
    return new Settings(host, (int) number("ygs.service-address", address.substring(colon + 1), 1, 65535), clusterId,
        number("ygs.settle-s", text(conf, "ygs.settle-s", "60"), 0, 3600),
        (int) number("ygs.batch-ms", text(conf, "ygs.batch-ms", "100"), 1, 1000));
  }

  /** Throws IllegalArgumentException if a setting lets the resource manager place behind the service's back. */
  public static void refuse(Configuration yarn, Configuration capacityScheduler) {
    String handler = text(yarn, "yarn.resourcemanager.placement-constraints.handler", "disabled");
    if (handler.equals("placement-processor")) {
      throw wrong("yarn.resourcemanager.placement-constraints.handler", handler, "\"disabled\" or \"scheduler\" would be right");
    }
    mustBeOff(yarn, "yarn.resourcemanager.opportunistic-container-allocation.enabled");
    mustBeOff(yarn, "yarn.resourcemanager.scheduler.monitor.enable");
    mustBeOff(capacityScheduler, "yarn.scheduler.capacity.lazy-preemption-enabled");
    mustBeOff(capacityScheduler, "yarn.scheduler.capacity.multi-node-placement-enabled");
    mustBeOff(capacityScheduler, "yarn.scheduler.capacity.schedule-asynchronously.enable");
  }

  private static void mustBeOff(Configuration conf, String key) {
    if (conf.getBoolean(key, false)) {
      throw wrong(key, "true", "it must be false, or the resource manager places or ends containers by itself");
    }
  }

  private static boolean isLoopback(String host) {
    try {
      return InetAddress.getByName(host).isLoopbackAddress();
    } catch (UnknownHostException e) {
      return false;
    }
  }

  private static String text(Configuration conf, String key, String otherwise) {
    String value = conf.getTrimmed(key, "");
    return value.isEmpty() ? otherwise : value;
  }

  private static double number(String key, String value, int least, int most) {
    try {
      double number = Double.parseDouble(value);
      if (number >= least && number <= most) {
        return number;
      }
    } catch (NumberFormatException e) {
      // answered below, like a number out of its range
    }
    throw wrong(key, value, String.format(Locale.ROOT, "it must be a number from %d to %d", least, most));
  }

  private static IllegalArgumentException wrong(String key, String value, String right) {
    return new IllegalArgumentException("GangCapacityScheduler does not start: " + key + " is \"" + value + "\"; " + right);
  }
}
