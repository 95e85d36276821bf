package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.*;

import io.github.yarn_gpu_sched.protocol.v1.QueueCapacity;
import io.github.yarn_gpu_sched.protocol.v1.VirtualCluster;
import java.util.*;
import java.util.stream.*;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;

/** What is told of a queue whose configuration is odd or enormous: a message that the service takes, whatever an administrator wrote. */
class QueueWordsTest {
  private static final String KEY = CapacitySchedulerConfiguration.PREFIX + "root.a.";
  private static final int PARTS_MAX = 64;
  private static final int NAME_CHARS_MAX = 256;
  private static final int VALUE_CHARS_MAX = 4096;

  private final Configuration configuration = new Configuration(false);
  private final Set<String> labels = new TreeSet<>();

  private VirtualCluster told() { return ResourceManagerView.configured("root.a", configuration, labels).build(); }

  @Test void itsOwnSettingsAreToldByTheirNames() {
    configuration.set(KEY + "ygs.gang", "debounce");
    configuration.set(KEY + "ygs.relax-after-s", "60");
    configuration.set(KEY + "user-limit-factor", "-1");
    configuration.set(CapacitySchedulerConfiguration.PREFIX + "root.ab.ygs.gang", "no");
    assertEquals(Map.of("gang", "debounce", "relax-after-s", "60"), told().getSettingsMap());
  }

  @Test void aKeyWithoutANameIsNoSetting() {
    configuration.set(KEY + "ygs.", "what is this");
    configuration.set(KEY + "ygs.gang", "debounce");
    assertEquals(Map.of("gang", "debounce"), told().getSettingsMap());
  }

  @Test void longNamesAndValuesAreCut() {
    configuration.set(KEY + "ygs." + "n".repeat(NAME_CHARS_MAX + 1), "v".repeat(VALUE_CHARS_MAX + 1));
    configuration.set(KEY + "ygs." + "m".repeat(NAME_CHARS_MAX), "w".repeat(VALUE_CHARS_MAX));
    assertEquals(Map.of("n".repeat(NAME_CHARS_MAX), "v".repeat(VALUE_CHARS_MAX),
        "m".repeat(NAME_CHARS_MAX), "w".repeat(VALUE_CHARS_MAX)), told().getSettingsMap());
  }

  @Test void ofTooManySettingsTheFirstByNameAreTold() {
    IntStream.range(0, 3 * PARTS_MAX).forEach(number -> configuration.set(KEY + String.format("ygs.s%03d", number), "x"));
    Set<String> expected = IntStream.range(0, PARTS_MAX).mapToObj(number -> String.format("s%03d", number)).collect(Collectors.toSet());
    assertEquals(expected, told().getSettingsMap().keySet());
  }

  @Test void longCapacitiesAreCut() {
    configuration.set(KEY + "capacity", "1".repeat(VALUE_CHARS_MAX + 1));
    configuration.set(KEY + "maximum-capacity", "2".repeat(VALUE_CHARS_MAX + 1));
    QueueCapacity one = told().getCapacities(0);
    assertEquals("1".repeat(VALUE_CHARS_MAX), one.getCapacity());
    assertEquals("2".repeat(VALUE_CHARS_MAX), one.getMaximumCapacity());
  }

  @Test void ofTooManyLabelsTheRestIsLeftOutAndTheDefaultPartitionIsNot() {
    configuration.set(KEY + "capacity", "40");
    for (int number = 0; number < 3 * PARTS_MAX; number++) {
      labels.add(String.format("l%03d", number));
      configuration.set(KEY + String.format("accessible-node-labels.l%03d.capacity", number), String.valueOf(number));
    }
    List<QueueCapacity> all = told().getCapacitiesList();
    assertEquals(PARTS_MAX, all.size());
    assertEquals("", all.get(0).getPartition());
    assertEquals("40", all.get(0).getCapacity());
    assertEquals("l062", all.get(PARTS_MAX - 1).getPartition());
    assertEquals("62", all.get(PARTS_MAX - 1).getCapacity());
  }

  @Test void labelsOfWhichAQueueHasNothingTakeNobodysPlace() {
    IntStream.range(0, 3 * PARTS_MAX).forEach(number -> labels.add(String.format("l%03d", number)));
    labels.add("mine");
    configuration.set(KEY + "accessible-node-labels.mine.capacity", "7");
    assertEquals(List.of("mine"), told().getCapacitiesList().stream().map(QueueCapacity::getPartition).collect(Collectors.toList()));
  }
}
