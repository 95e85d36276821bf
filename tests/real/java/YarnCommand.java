package io.github.yarn_gpu_sched.tests;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.stream.StreamSupport;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;
import org.apache.hadoop.yarn.client.cli.ApplicationCLI;
import org.apache.hadoop.yarn.client.cli.RMAdminCLI;

/** The classes behind `yarn rmadmin` and `yarn application`, as they are, in a JVM that runs already. */
final class YarnCommand {
  private final ByteArrayOutputStream said = new ByteArrayOutputStream();
  private final PrintStream stream = new PrintStream(said, true, StandardCharsets.UTF_8);
  private final Configuration conf;

  YarnCommand(Configuration conf) {
    this.conf = conf;
  }

  /** Run a command line; the answer has its exit code, and all that it printed. */
  ObjectNode run(JsonNode arguments) throws Exception {
    String[] words = StreamSupport.stream(arguments.spliterator(), false).map(JsonNode::asText).toArray(String[]::new);
    int code;
    if (words[0].equals("rmadmin")) {
      String[] rest = new String[words.length - 1];
      System.arraycopy(words, 1, rest, 0, rest.length);
      code = ToolRunner.run(new Configuration(conf), new Admin(), rest);
    } else {
      ApplicationCLI command = new ApplicationCLI();
      try {
        command.setSysOutPrintStream(stream);
        command.setSysErrPrintStream(stream);
        code = ToolRunner.run((Tool) command, words);
      } finally {
        command.stop();
      }
    }
    return Apps.JSON.createObjectNode().put("code", code).put("output", said.toString(StandardCharsets.UTF_8));
  }

  private final class Admin extends RMAdminCLI {
    Admin() {
      out = stream;
      errOut = stream;
    }
  }
}
