package io.github.yarn_gpu_sched.load;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.yarn.exceptions.YarnException;

/** Submits and registers many applications at once, so that a measurement begins with ready masters. */
final class Applications {
  private static final int THREADS = 32;
  private static final int REGISTER_WAIT_MS = 120_000;
  private static final int WAITING_GANG = 8;

  private Applications() {}

  /** Registered masters of {@code count} new applications that all carry the tags, in order of submission. */
  static List<ApplicationMaster> prepare(Cluster cluster, int count, Set<String> tags)
      throws InterruptedException, ExecutionException {
    long begun_ns = System.nanoTime();
    ExecutorService threads = Executors.newFixedThreadPool(THREADS, Daemons.named("prepare"));
    try {
      List<ApplicationMaster> masters = all(threads, count, i -> submit(cluster, i, tags));
      all(threads, count, i -> {
        masters.get(i).register(REGISTER_WAIT_MS);
        return true;
      });
      cluster.report().event("applications_registered", "applications", count, "tags", String.join(",", tags),
          "took_ms", (System.nanoTime() - begun_ns) / 1e6);
      return masters;
    } finally {
      threads.shutdownNow();
    }
  }

  /**
   * Registers masters of which each asks one gang and never looks again: in a queue that has no more than one gang's GPUs
   * all but one wait, while others come and go.
   */
  static void letWait(Cluster cluster, int count) throws Exception {
    Shape shape = new Shape(64, 1, 1);
    for (ApplicationMaster master : prepare(cluster, count, Set.of("gang:" + WAITING_GANG))) {
      master.allocate(List.of(shape.ask(1, 0, WAITING_GANG)), List.of());
    }
  }

  private static ApplicationMaster submit(Cluster cluster, int i, Set<String> tags) throws IOException, YarnException {
    return ApplicationMaster.submit(cluster.rm(), "load-" + i, cluster.queue(i), tags);
  }

  /** Ends all that are still open, as far as they can be ended: at the end of a run errors no longer matter. */
  static void finish(List<ApplicationMaster> masters) throws InterruptedException, ExecutionException {
    ExecutorService threads = Executors.newFixedThreadPool(THREADS, Daemons.named("finish"));
    try {
      all(threads, masters.size(), i -> {
        try {
          masters.get(i).finish();
          return true;
        } catch (IOException e) {
          return false;
        }
      });
    } finally {
      threads.shutdownNow();
    }
  }

  private interface Numbered<T> {
    T call(int i) throws Exception;
  }

  private static <T> List<T> all(ExecutorService threads, int count, Numbered<T> work)
      throws InterruptedException, ExecutionException {
    List<Callable<T>> calls = new ArrayList<>(count);
    for (int i = 0; i < count; i++) {
      int number = i;
      calls.add(() -> work.call(number));
    }
    List<T> results = new ArrayList<>(count);
    for (Future<T> done : threads.invokeAll(calls)) {
      results.add(done.get());
    }
    return results;
  }
}
