package io.github.yarn_gpu_sched.shim;

import static org.junit.jupiter.api.Assertions.*;

import io.github.yarn_gpu_sched.protocol.v1.*;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class StreamTest {
  private final AtomicInteger woken = new AtomicInteger();
  private final Stream stream = new Stream(new Counters(), woken::incrementAndGet);

  private static ConnectResponse decisions(int bytes) {
    RefuseJob refusal = RefuseJob.newBuilder().setDiagnostics("x".repeat(bytes)).build();
    return ConnectResponse.newBuilder()
        .setDecisions(Decisions.newBuilder().addDecisions(Decision.newBuilder().setRefuseJob(refusal))).build();
  }

  private String over() { return stream.over(System.nanoTime()); }

  @Test void moreDecisionsThanCanBeWorkedOffEndTheStream() {
    ConnectResponse message = decisions(1 << 20);
    int fit = Stream.INBOUND_BYTES_MAX / message.getSerializedSize();
    for (int i = 0; i < fit; i++) stream.onNext(message);
    assertNull(over());
    stream.onNext(message);
    assertEquals("the service sent more decisions than can be worked off", over());
    assertEquals(fit + 1, woken.get());
  }

  @Test void whatIsWorkedOffMakesRoom() {
    ConnectResponse message = decisions(1 << 20);
    for (int i = 0; i < 100; i++) {
      stream.onNext(message);
      assertSame(message, stream.receive());
    }
    assertNull(stream.receive());
    assertNull(over());
  }

  @Test void aHeartbeatTakesNoRoom() {
    ConnectResponse beat = ConnectResponse.newBuilder().setHeartbeat(Heartbeat.getDefaultInstance()).build();
    for (int i = 0; i < 1000; i++) stream.onNext(beat);
    assertNull(stream.receive());
    assertFalse(stream.anyReceived());
  }
}
