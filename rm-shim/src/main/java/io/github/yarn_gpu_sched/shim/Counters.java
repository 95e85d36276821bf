package io.github.yarn_gpu_sched.shim;

import io.github.yarn_gpu_sched.protocol.v1.OutcomeCode;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.metrics2.*;
import org.apache.hadoop.metrics2.lib.*;
import org.apache.hadoop.util.StringUtils;

/** What the shim counts: source "YarnGpuSched" of Hadoop's metrics, and so at the resource manager's /jmx. */
public final class Counters implements MetricsSource {
  /** One counter each; an outcome NO_FIT is counted as DecisionsNoFit. */
  public enum Of {
    SESSIONS, LINK_LOSSES, BATCHES, BYTES_SENT, CHANGES, COALESCED, DROPPED, WITHHELD, CONTAINERS_COMMITTED, CONTAINERS_ROLLED_BACK,
    DECISIONS_REPEATED
  }

  private static final String NAME = "YarnGpuSched";
  private static final int PERCENTILES_OVER_S = 60;
  private final MetricsRegistry registry = new MetricsRegistry(NAME).setContext("yarn");
  private final Map<String, MutableCounterLong> counters = new ConcurrentHashMap<>();
  private final MutableGaugeInt connected = registry.newGauge("Connected", "1 while the service has greeted and has the whole snapshot", 0);
  private final MutableGaugeLong longestUs = registry.newGauge("LockHeldUsMax", "Longest hold of the scheduler's lock", 0L);
  private final MutableQuantiles lockHeld = registry.newQuantiles("LockHeldUs", "Lock holds", "ops", "us", PERCENTILES_OVER_S);
  private final MutableQuantiles latency = registry.newQuantiles("AskToOutcomeUs", "Last ask to outcome", "ops", "us", PERCENTILES_OVER_S);

  public Counters() {
    for (Of each : Of.values()) counter(each.name());
    for (OutcomeCode code : EnumSet.complementOf(EnumSet.of(OutcomeCode.UNRECOGNIZED))) counter(named(code));
  }

  public void add(Of what, long number) { counter(what.name()).incr(number); }
  void outcome(OutcomeCode code) { counter(named(code)).incr(); }
  void connected(boolean now) { connected.set(now ? 1 : 0); }
  void latency(long ns) { latency.add(ns / 1000); }

  /** Called by one thread only. */
  public void lockHeld(long ns) {
    lockHeld.add(ns / 1000);
    longestUs.set(Math.max(longestUs.value(), ns / 1000));
  }

  public void register() { DefaultMetricsSystem.instance().register(NAME, "The link to the GPU scheduling service", this); }

  /** A resource manager that becomes active again in the same process registers the name anew. */
  public void unregister() {
    DefaultMetricsSystem.instance().unregisterSource(NAME);
    lockHeld.stop();
    latency.stop();
  }

  @Override public void getMetrics(MetricsCollector collector, boolean all) { registry.snapshot(collector.addRecord(NAME), all); }

  private MutableCounterLong counter(String words) {
    return counters.computeIfAbsent(words, name -> registry.newCounter(StringUtils.camelize(name), name, 0L));
  }

  private static String named(OutcomeCode code) { return code.name().replace("OUTCOME_CODE", "DECISIONS"); }
}
