package io.github.yarn_gpu_sched.load;

import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;

/**
 * Load for a real ResourceManager: {@code Main SCENARIO --option value …}, with its configuration on the class path.
 *
 * <p>Exit code 0: ran, and what must hold held; 1: it did not hold; 2: a command line that makes no sense; 3: the run
 * itself failed. What was measured goes to standard output, one JSON object a line.
 */
public final class Main {
  private static final int USAGE = 2;
  private static final int FAILED = 3;
  private static final Map<String, Function<Options, Scenario>> SCENARIOS = new TreeMap<>(Map.of(
      "gangs", GangStream::new, "singles", SingleStream::new, "watch", Watch::new, "hold", Hold::new,
      "turns", Turns::new));

  private Main() {}

  public static void main(String[] args) {
    System.exit(run(args));
  }

  private static int run(String[] args) {
    Function<Options, Scenario> scenario = args.length == 0 ? null : SCENARIOS.get(args[0]);
    if (scenario == null) {
      System.err.println("scenario: one of " + String.join(", ", SCENARIOS.keySet()) + " would be right");
      return USAGE;
    }
    try {
      Options options = new Options(args, 1);
      Scenario chosen = scenario.apply(options);
      return chosen.run(Cluster.open(options, new Report(System.out)));
    } catch (Options.Wrong e) {
      System.err.println(e.getMessage());
      return USAGE;
    } catch (Exception e) {
      e.printStackTrace();
      return FAILED;
    }
  }
}
