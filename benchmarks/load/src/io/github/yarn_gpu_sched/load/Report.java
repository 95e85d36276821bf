package io.github.yarn_gpu_sched.load;

import java.io.PrintStream;
import java.util.Arrays;
import java.util.Locale;

/** What a run says: one JSON object a line on standard output, nothing else there. */
final class Report {
  private final PrintStream out;

  Report(PrintStream out) {
    this.out = out;
  }

  /** Writes one event with alternating names and values; values are numbers, booleans or text. */
  synchronized void event(String name, Object... fields) {
    StringBuilder line = new StringBuilder("{\"event\":").append(quoted(name));
    line.append(",\"time_ms\":").append(System.currentTimeMillis());
    for (int i = 0; i < fields.length; i += 2) {
      line.append(',').append(quoted((String) fields[i])).append(':').append(value(fields[i + 1]));
    }
    out.println(line.append('}'));
    out.flush();
  }

  private static String value(Object value) {
    if (value instanceof Double) {
      return String.format(Locale.ROOT, "%.3f", (Double) value);
    }
    return value instanceof Number || value instanceof Boolean ? value.toString() : quoted(String.valueOf(value));
  }

  private static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c == '"' || c == '\\') {
        quoted.append('\\').append(c);
      } else if (c < ' ' || c > '~') {
        quoted.append(String.format("\\u%04x", (int) c));
      } else {
        quoted.append(c);
      }
    }
    return quoted.append('"').toString();
  }

  /** Nearest-rank percentiles of times in nanoseconds, as fields in milliseconds. */
  static Object[] percentiles(long[] times_ns) {
    long[] sorted = times_ns.clone();
    Arrays.sort(sorted);
    return new Object[] {
      "count", sorted.length, "p50_ms", rank(sorted, 500), "p99_ms", rank(sorted, 990),
      "p999_ms", rank(sorted, 999), "max_ms", rank(sorted, 1000),
    };
  }

  private static double rank(long[] sorted, int per_mille) {
    int rank = (int) Math.max(1, (sorted.length * (long) per_mille + 999) / 1000);
    return sorted.length == 0 ? Double.NaN : sorted[rank - 1] / 1e6;
  }
}
