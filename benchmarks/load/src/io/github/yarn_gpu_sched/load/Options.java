package io.github.yarn_gpu_sched.load;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/** The command line after the scenario's name: {@code --name value} pairs, each known and each at most once. */
final class Options {
  /** A command line that makes no sense; the message names the option, its value and what would be right. */
  static final class Wrong extends IllegalArgumentException {
    private static final long serialVersionUID = 1;

    Wrong(String message) {
      super(message);
    }
  }

  private final Map<String, String> given = new HashMap<>();
  private final Set<String> known = new TreeSet<>();

  Options(String[] args, int from) {
    for (int i = from; i < args.length; i += 2) {
      if (!args[i].startsWith("--") || i + 1 == args.length) {
        throw new Wrong("\"" + args[i] + "\": options are pairs, --name value");
      }
      if (given.put(args[i].substring(2), args[i + 1]) != null) {
        throw new Wrong(args[i] + " is given twice; give it once");
      }
    }
  }

  String text(String name, String otherwise) {
    known.add(name);
    return given.getOrDefault(name, otherwise);
  }

  /** A whole number within the bounds, both included. */
  int number(String name, int otherwise, int min, int max) {
    String text = text(name, Integer.toString(otherwise));
    try {
      int value = Integer.parseInt(text);
      if (value >= min && value <= max) {
        return value;
      }
    } catch (NumberFormatException e) {
      // said below, together with the bounds
    }
    throw new Wrong("--" + name + " " + text + ": a whole number from " + min + " to " + max + " would be right");
  }

  /** To be called when all options have been read: an unknown one is a mistake, never ignored. */
  void refuseUnknown() {
    for (String name : new TreeSet<>(given.keySet())) {
      if (!known.contains(name)) {
        throw new Wrong("--" + name + " is not known here; known are --" + String.join(", --", known));
      }
    }
  }
}
