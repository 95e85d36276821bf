package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.*;

import io.github.yarn_gpu_sched.protocol.v1.OutcomeCode;
import java.util.function.Function;
import org.apache.hadoop.yarn.api.records.*;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Ids as they come from outside: whatever is no id is refused in a sentence, and nothing else is thrown. */
class RefusalTest {
  private static <T> void refuses(String text, String what, Function<String, T> as) {
    Refusal refusal = assertThrows(Refusal.class, () -> Refusal.parsed(text, what, as));
    assertEquals(OutcomeCode.OUTCOME_CODE_INVALID, refusal.code);
    String shown = text.length() > 64 ? text.substring(0, 64) : text;
    assertEquals("\"" + shown + "\" is no " + what + " id", refusal.getMessage());
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "_", "container", "container_", "container_1", "container_1_2", "container_1_2_3", "container_e", "container_e1_2_3_4",
      "container_a_b_c_d", "container_1_2_3_4x", "application_1_2", "%s%n", "container_1_2_3_99999999999999999999", "container_1_99999999999_3_4",
      "nonsensenonsensenonsensenonsensenonsensenonsensenonsensenonsensenonsense"})
  void noContainer(String text) { refuses(text, "container", ContainerId::fromString); }

  @ParameterizedTest
  @ValueSource(strings = {"", "application", "application_", "application_1", "application_a_b", "container_1_2_3_4", "job_1_2", "%d"})
  void noApplication(String text) { refuses(text, "application", ApplicationId::fromString); }

  @ParameterizedTest
  @ValueSource(strings = {"container_1_2_3_4", "container_e17_1700000000000_0002_01_000003"})
  void aContainer(String text) throws Refusal { assertEquals(ContainerId.fromString(text), Refusal.parsed(text, "container", ContainerId::fromString)); }
}
