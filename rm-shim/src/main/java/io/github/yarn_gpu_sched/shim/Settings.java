package io.github.yarn_gpu_sched.shim;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.regex.*;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;

/** The keys of yarn-site.xml that begin with "ygs.", checked. docs/shim.md is their table. */
public final class Settings {
  private static final Pattern ADDRESS = Pattern.compile("(.+):(\\d{1,5})");
  private static final String CLUSTER_ID = "[A-Za-z0-9._-]{1,128}";
  /** What places or ends containers behind the service's back, or places from threads that the shim does not see. */
  private static final List<String> OFF = List.of("yarn.resourcemanager.opportunistic-container-allocation.enabled",
      "yarn.resourcemanager.scheduler.monitor.enable", "yarn.scheduler.capacity.lazy-preemption-enabled",
      "yarn.scheduler.capacity.multi-node-placement-enabled", "yarn.scheduler.capacity.schedule-asynchronously.enable");

  final InetSocketAddress service;
  /** Null for plain text, which is loopback only. */
  final Tls tls;
  final String clusterId;
  final double settleS;
  final int batchMs;

  /** Throws IllegalArgumentException that names key, value and what would be right. */
  public Settings(Configuration conf) {
    String address = text(conf, "ygs.service-address", "127.0.0.1:7433");
    Matcher parts = ADDRESS.matcher(address);
    if (!parts.matches()) throw wrong("ygs.service-address", address, "it must be host:port");
    service = new InetSocketAddress(parts.group(1), (int) number("ygs.service-address", parts.group(2), 1, 65535));
    tls = tls(conf);
    if (tls == null && (service.isUnresolved() || !service.getAddress().isLoopbackAddress())) {
      throw wrong("ygs.service-address", address, "without " + Tls.KEYS.get(0) + " the host must be a loopback address");
    }
    clusterId = text(conf, "ygs.cluster-id", text(conf, "yarn.resourcemanager.cluster-id", "yarn"));
    if (!clusterId.matches(CLUSTER_ID)) throw wrong("ygs.cluster-id", clusterId, "it must match " + CLUSTER_ID);
    String cpuServers = text(conf, "ygs.cpu-servers", "stock");
    if (!cpuServers.equals("stock")) throw wrong("ygs.cpu-servers", cpuServers, "only \"stock\" is served");
    settleS = number("ygs.settle-s", text(conf, "ygs.settle-s", "60"), 0, 3600);
    batchMs = (int) number("ygs.batch-ms", text(conf, "ygs.batch-ms", "100"), 1, 500);
  }

  /** Throws IllegalArgumentException if a setting lets the resource manager place behind the service's back. */
  public static void refuse(Configuration conf) {
    String handler = text(conf, "yarn.resourcemanager.placement-constraints.handler", "disabled");
    if (handler.equals("placement-processor")) {
      throw wrong("yarn.resourcemanager.placement-constraints.handler", handler, "\"disabled\" or \"scheduler\" would be right");
    }
    for (String key : OFF) {
      if (conf.getBoolean(key, false)) throw wrong(key, "true", "it must be false, or containers are placed or ended past the service");
    }
  }

  /** All three files or none. That one does not serve is no reason to keep a resource manager from starting: the link waits for it. */
  private static Tls tls(Configuration conf) {
    List<String> missing = Tls.KEYS.stream().filter(key -> text(conf, key, "").isEmpty()).collect(Collectors.toList());
    if (missing.size() == Tls.KEYS.size()) return null;
    if (!missing.isEmpty()) throw wrong(missing.get(0), "", "it must name a file, as the other keys of ygs.tls do");
    return new Tls(conf::getTrimmed);
  }

  private static String text(Configuration conf, String key, String otherwise) {
    return conf.getTrimmed(key, "").isEmpty() ? otherwise : conf.getTrimmed(key);
  }

  private static double number(String key, String value, int least, int most) {
    boolean in = value.matches("\\d{1,9}(\\.\\d{1,9})?") && Double.parseDouble(value) >= least && Double.parseDouble(value) <= most;
    if (!in) throw wrong(key, value, "it must be a number from " + least + " to " + most);
    return Double.parseDouble(value);
  }

  private static IllegalArgumentException wrong(String key, String value, String right) {
    return new IllegalArgumentException("GangCapacityScheduler does not start: " + key + " is \"" + value + "\"; " + right);
  }
}
