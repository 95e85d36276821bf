package io.github.yarn_gpu_sched.shim;

import io.github.yarn_gpu_sched.protocol.v1.OutcomeCode;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import org.apache.hadoop.metrics2.MetricsCollector;
import org.apache.hadoop.metrics2.MetricsRecordBuilder;
import org.apache.hadoop.metrics2.MetricsSource;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.metrics2.lib.Interns;

/** What the shim counts, in Hadoop's metrics as "YarnGpuSched" and so at the resource manager's /jmx. */
public final class Counters implements MetricsSource {
  static final String NAME = "YarnGpuSched";
  private static final String CODE = "OUTCOME_CODE_";

  public final LongAdder sessions = new LongAdder();
  public final LongAdder linkLosses = new LongAdder();
  public final LongAdder batches = new LongAdder();
  public final LongAdder bytes = new LongAdder();
  public final LongAdder changes = new LongAdder();
  public final LongAdder coalesced = new LongAdder();
  public final LongAdder dropped = new LongAdder();
  public final LongAdder withheld = new LongAdder();
  public final LongAdder containersCommitted = new LongAdder();
  public final LongAdder containersRolledBack = new LongAdder();
  public final LongAdder decisionsRepeated = new LongAdder();
  public final Histogram lockHeld = new Histogram();
  public final Histogram askToOutcome = new Histogram();
  public volatile boolean connected;
  private final Map<OutcomeCode, LongAdder> outcomes = new EnumMap<>(OutcomeCode.class);

  public Counters() {
    for (OutcomeCode code : OutcomeCode.values()) {
      if (code.name().startsWith(CODE)) {
        outcomes.put(code, new LongAdder());
      }
    }
  }

  public void outcome(OutcomeCode code) {
    outcomes.get(code).increment();
  }

  public void register() {
    DefaultMetricsSystem.instance().register(NAME, "The link to the GPU scheduling service", this);
  }

  /** A resource manager that becomes active again in the same process registers the name anew. */
  public void unregister() {
    DefaultMetricsSystem.instance().unregisterSource(NAME);
  }

  @Override
  public void getMetrics(MetricsCollector collector, boolean all) {
    MetricsRecordBuilder record = collector.addRecord(NAME).setContext("yarn");
    record.addGauge(Interns.info("Connected", "1 while a session's snapshot is complete"), connected ? 1 : 0);
    count(record, "Sessions", sessions);
    count(record, "LinkLosses", linkLosses);
    count(record, "Batches", batches);
    count(record, "BytesSent", bytes);
    count(record, "Changes", changes);
    count(record, "Coalesced", coalesced);
    count(record, "Dropped", dropped);
    count(record, "Withheld", withheld);
    count(record, "ContainersCommitted", containersCommitted);
    count(record, "ContainersRolledBack", containersRolledBack);
    count(record, "DecisionsRepeated", decisionsRepeated);
    outcomes.forEach((code, number) -> count(record, decisionsName(code), number));
    lockHeld.record(record, "LockHeldUs");
    askToOutcome.record(record, "AskToOutcomeUs");
  }

  private static void count(MetricsRecordBuilder record, String name, LongAdder number) {
    record.addCounter(Interns.info(name, name), number.sum());
  }

  /** OUTCOME_CODE_NO_FIT is counted as DecisionsNoFit. */
  static String decisionsName(OutcomeCode code) {
    StringBuilder name = new StringBuilder("Decisions");
    for (String word : code.name().substring(CODE.length()).split("_")) {
      name.append(word.charAt(0)).append(word.substring(1).toLowerCase(Locale.ROOT));
    }
    return name.toString();
  }
}
