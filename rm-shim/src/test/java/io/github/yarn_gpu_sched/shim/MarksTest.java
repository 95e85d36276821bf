package io.github.yarn_gpu_sched.shim;

import static org.junit.jupiter.api.Assertions.*;

import java.util.List;
import java.util.concurrent.*;
import org.junit.jupiter.api.*;

class MarksTest {
  private final Marks<String, String> marks = new Marks<>(new Counters());

  @Test void markingTwiceIsOnce() {
    marks.server("s");
    marks.server("s");
    assertEquals(List.of("s"), marks.drainServers());
    assertEquals(List.of(), marks.drainServers());
  }

  @Test void queuesAreDrainedOnce() {
    marks.queues();
    assertTrue(marks.drainQueues());
    assertFalse(marks.drainQueues());
  }

  @Test @Timeout(20) void hurryWakesASleeper() throws Exception {
    CountDownLatch awake = new CountDownLatch(1);
    Thread sleeper = new Thread(() -> {
      marks.sleep(TimeUnit.MINUTES.toNanos(10));
      awake.countDown();
    });
    sleeper.start();
    while (sleeper.getState() != Thread.State.TIMED_WAITING) Thread.onSpinWait();
    marks.hurry();
    awake.await();
  }

  @Test @Timeout(20) void aHurryBeforeTheSleepIsNotLost() {
    marks.hurry();
    marks.sleep(TimeUnit.MINUTES.toNanos(10));
    assertTrue(marks.urgent());
  }

  @Test @Timeout(20) void aSleeperLooksByItselfAfterAHurry() {
    marks.hurry();
    marks.calm();
    marks.sleep(TimeUnit.MINUTES.toNanos(10));
    assertFalse(marks.urgent());
  }

  @Test void nothingIsLostBetweenManyMarkersAndADrainer() throws Exception {
    ConcurrentMap<String, Boolean> seen = new ConcurrentHashMap<>();
    ExecutorService markers = Executors.newFixedThreadPool(2);
    for (int i = 0; i < 2000; i++) {
      String job = "j" + i;
      markers.execute(() -> marks.job(job));
    }
    markers.shutdown();
    while (seen.size() < 2000 && !Thread.interrupted()) marks.drainJobs().forEach(job -> seen.put(job, true));
    assertTrue(markers.awaitTermination(10, TimeUnit.SECONDS));
    assertEquals(2000, seen.size());
  }
}
