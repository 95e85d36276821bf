package io.github.yarn_gpu_sched.shim;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.hadoop.metrics2.MetricsRecordBuilder;
import org.apache.hadoop.metrics2.lib.Interns;

/** Durations in buckets that grow by a quarter: percentiles are right within 25 %, in a fixed amount of memory. */
public final class Histogram {
  private static final double GROWTH = Math.log(1.25);
  private final AtomicLongArray buckets = new AtomicLongArray(96);
  private final AtomicLong longestUs = new AtomicLong();

  public void add(long ns) {
    long us = Math.max(0, ns / 1000);
    int bucket = us < 1 ? 0 : (int) (Math.log(us) / GROWTH) + 1;
    buckets.incrementAndGet(Math.min(bucket, buckets.length() - 1));
    longestUs.accumulateAndGet(us, Math::max);
  }

  /** Microseconds that the given share of all durations do not exceed; 0 when there is none. */
  long percentileUs(double share) {
    long total = 0;
    for (int i = 0; i < buckets.length(); i++) {
      total += buckets.get(i);
    }
    long left = (long) Math.ceil(total * share);
    for (int i = 0; i < buckets.length() && total > 0; i++) {
      left -= buckets.get(i);
      if (left <= 0) {
        return Math.min(longestUs.get(), (long) Math.ceil(Math.exp(GROWTH * i)));
      }
    }
    return longestUs.get();
  }

  void record(MetricsRecordBuilder record, String name) {
    record.addGauge(Interns.info(name + "P50", name), percentileUs(0.5));
    record.addGauge(Interns.info(name + "P99", name), percentileUs(0.99));
    record.addGauge(Interns.info(name + "Max", name), longestUs.get());
  }
}
