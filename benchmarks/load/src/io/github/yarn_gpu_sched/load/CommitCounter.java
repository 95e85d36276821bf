package io.github.yarn_gpu_sched.load;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.webapp.util.WebAppUtils;

/**
 * Counts containers where they are committed: the root queue's own counter of allocations, at the ResourceManager's
 * {@code /jmx}. It is the same for any scheduler, so two schedulers compare by it.
 *
 * <p>Hadoop caches JMX values for its metrics period, so {@code hadoop-metrics2.properties} of the ResourceManager must
 * say {@code *.period=1}, and samples are further apart than that: then each sample is fresh.
 */
final class CommitCounter {
  private static final String PATH =
      "/jmx?get=Hadoop:service=ResourceManager,name=QueueMetrics,q0=root::AggregateContainersAllocated";
  private static final Pattern VALUE = Pattern.compile("\"AggregateContainersAllocated\"\\s*:\\s*(\\d+)");
  private static final int EVERY_MS = 1100;

  private record Sample(long at_ns, long containers) {}

  private final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(10)).build();
  private final HttpRequest request;
  private final List<Sample> samples = new ArrayList<>();

  CommitCounter(Configuration conf) {
    URI uri = URI.create("http://" + WebAppUtils.getRMWebAppURLWithoutScheme(conf) + PATH);
    request = HttpRequest.newBuilder(uri).timeout(Duration.ofSeconds(30)).build();
  }

  /** Forgets earlier samples and takes one a little more than a second for as long as said, or until told to stop. */
  void watch(int seconds, java.util.function.BooleanSupplier stopped) throws IOException, InterruptedException {
    samples.clear();
    samples.add(sample());
    while (seconds() < seconds && !stopped.getAsBoolean()) {
      Thread.sleep(EVERY_MS);
      samples.add(sample());
    }
  }

  private Sample sample() throws IOException, InterruptedException {
    HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
    Matcher found = VALUE.matcher(response.body());
    if (!found.find()) {
      throw new IOException(request.uri() + " has no counter of allocated containers, it says " + response.body());
    }
    return new Sample(System.nanoTime(), Long.parseLong(found.group(1)));
  }

  private Sample last() {
    return samples.get(samples.size() - 1);
  }

  /** Seconds between the first and the last sample. */
  double seconds() {
    return (last().at_ns - samples.get(0).at_ns) / 1e9;
  }

  long containers() {
    return last().containers - samples.get(0).containers;
  }

  double perSecond() {
    return seconds() == 0 ? 0 : containers() / seconds();
  }

  /** The slowest stretch between two neighbouring samples, containers a second. */
  double slowest() {
    double slowest = perSecond();
    for (int i = 1; i < samples.size(); i++) {
      Sample before = samples.get(i - 1);
      Sample after = samples.get(i);
      slowest = Math.min(slowest, (after.containers - before.containers) * 1e9 / (after.at_ns - before.at_ns));
    }
    return slowest;
  }
}
