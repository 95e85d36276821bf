package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import io.github.yarn_gpu_sched.protocol.v1.OutcomeCode;
import java.util.*;
import java.util.function.Function;

/** Why a decision is not carried out: nothing of it has been. */
final class Refusal extends Exception {
  final OutcomeCode code;

  Refusal(OutcomeCode code, String format, Object... with) {
    super(String.format(Locale.ROOT, format, with), null, false, false);
    this.code = code;
  }

  static void require(boolean holds, OutcomeCode otherwise, String format, Object... with) throws Refusal {
    if (!holds) throw new Refusal(otherwise, format, with);
  }

  static <T> T parsed(String text, String what, Function<String, T> as) throws Refusal {
    try {
      return as.apply(text);
    } catch (IllegalArgumentException | NoSuchElementException e) {
      throw new Refusal(OutcomeCode.OUTCOME_CODE_INVALID, "\"%.64s\" is no %s id", text, what);
    }
  }
}
