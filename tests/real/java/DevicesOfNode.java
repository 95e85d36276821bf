package io.github.yarn_gpu_sched.tests;

import java.io.ByteArrayOutputStream;
import java.lang.annotation.Annotation;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import javax.ws.rs.core.MediaType;
import javax.ws.rs.ext.MessageBodyWriter;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.resourceplugin.gpu.AssignedGpuDevice;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.resourceplugin.gpu.GpuDevice;
import org.apache.hadoop.yarn.server.nodemanager.webapp.dao.gpu.NMGpuResourceInfo;

/** Prints what the NodeManager's REST answers about so many GPUs, all of one container, by the writer that is named. */
public final class DevicesOfNode {
  private DevicesOfNode() {
  }

  @SuppressWarnings("unchecked") // any of these writers takes any object
  public static void main(String[] args) throws Exception {
    MessageBodyWriter<Object> writer =
        (MessageBodyWriter<Object>) Class.forName(args[0]).getDeclaredConstructor().newInstance();
    ContainerId container = ContainerId.fromString(args[1]);
    for (int count = 0; count < 3; count++) {
      List<GpuDevice> total = new ArrayList<>();
      List<AssignedGpuDevice> assigned = new ArrayList<>();
      for (int index = 0; index < count; index++) {
        total.add(new GpuDevice(index, index + 3));
        assigned.add(new AssignedGpuDevice(index, index + 3, container));
      }
      Object answer = new NMGpuResourceInfo(null, total, assigned);
      ByteArrayOutputStream written = new ByteArrayOutputStream();
      writer.writeTo(answer, answer.getClass(), answer.getClass(), new Annotation[0], MediaType.APPLICATION_JSON_TYPE,
          null, written);
      System.out.println(written.toString(StandardCharsets.UTF_8));
    }
  }
}
