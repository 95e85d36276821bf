package io.github.yarn_gpu_sched.tests;

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.yarn.server.nodemanager.webapp.dao.gpu.GpuDeviceInformation;
import org.apache.hadoop.yarn.server.nodemanager.webapp.dao.gpu.GpuDeviceInformationParser;
import org.apache.hadoop.yarn.server.nodemanager.webapp.dao.gpu.PerGpuDeviceInformation;

/** Prints what the NodeManager's own parser finds in a file that nvidia-smi wrote, a line a GPU. */
public final class GpusOfXml {
  private GpusOfXml() {
  }

  public static void main(String[] args) throws Exception {
    GpuDeviceInformation found = new GpuDeviceInformationParser().parseXml(Files.readString(Path.of(args[0])));
    for (PerGpuDeviceInformation gpu : found.getGpus()) {
      System.out.println(String.join("|", gpu.getUuid(), "" + gpu.getMinorNumber(), gpu.getProductName(),
          "" + gpu.getGpuMemoryUsage().getUsedMemoryMiB(), "" + gpu.getGpuMemoryUsage().getTotalMemoryMiB(),
          "" + gpu.getGpuUtilizations().getOverallGpuUtilization(), "" + gpu.getTemperature().getCurrentGpuTemp()));
    }
  }
}
