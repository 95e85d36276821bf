package io.github.yarn_gpu_sched.shim;

import static org.junit.jupiter.api.Assertions.*;

import java.io.IOException;
import java.nio.file.*;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SettingsTest {
  private final Configuration conf = new Configuration(false);

  @Test void defaultsAreAsDocumented() {
    Settings settings = new Settings(conf);
    assertEquals("/127.0.0.1:7433", settings.service.toString());
    assertEquals("yarn", settings.clusterId);
    assertEquals(60, settings.settleS);
    assertEquals(100, settings.batchMs);
  }

  @Test void theClusterIsNamedAsItsResourceManagersAre() {
    conf.set("yarn.resourcemanager.cluster-id", "prod");
    assertEquals("prod", new Settings(conf).clusterId);
  }

  @ParameterizedTest
  @CsvSource({"ygs.service-address,7433", "ygs.service-address,127.0.0.1:0", "ygs.service-address,127.0.0.1:99999",
      "ygs.service-address,192.0.2.1:7433", "ygs.cluster-id,a b", "ygs.settle-s,soon", "ygs.settle-s,3601", "ygs.settle-s,NaN",
      "ygs.batch-ms,0", "ygs.batch-ms,501", "ygs.cpu-servers,service"})
  void whatIsWrongIsNamed(String key, String value) {
    conf.set(key, value);
    String message = assertThrows(IllegalArgumentException.class, () -> new Settings(conf)).getMessage();
    assertTrue(message.contains(key), message);
    assertFalse(message.contains("\n"), message);
  }

  @Test void byTlsTheServiceMayBeElsewhere() {
    conf.set("ygs.service-address", "192.0.2.1:7433");
    for (String key : Tls.KEYS) {
      String message = assertThrows(IllegalArgumentException.class, () -> new Settings(conf)).getMessage();
      assertTrue(message.contains(key), message);
      conf.set(key, "/nowhere/" + key);
    }
    assertEquals("/192.0.2.1:7433", new Settings(conf).service.toString());
  }

  @Test void filesThatDoNotServeAreNamed(@TempDir Path folder) throws IOException {
    Tls tls = new Tls(key -> folder.resolve(key).toString());
    assertTrue(assertThrows(IOException.class, tls::credentials).getMessage().contains("ygs.tls.certificate"));
    Files.writeString(folder.resolve("ygs.tls.certificate"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    assertTrue(assertThrows(IOException.class, tls::credentials).getMessage().contains("holds no certificate in PEM"));
  }

  @ParameterizedTest
  @CsvSource({"yarn.resourcemanager.placement-constraints.handler,placement-processor",
      "yarn.resourcemanager.opportunistic-container-allocation.enabled,true", "yarn.resourcemanager.scheduler.monitor.enable,true",
      "yarn.scheduler.capacity.lazy-preemption-enabled,true", "yarn.scheduler.capacity.multi-node-placement-enabled,true",
      "yarn.scheduler.capacity.schedule-asynchronously.enable,true"})
  void whatPlacesBehindTheServiceIsRefused(String key, String value) {
    Settings.refuse(conf);
    conf.set(key, value);
    String message = assertThrows(IllegalArgumentException.class, () -> Settings.refuse(conf)).getMessage();
    assertTrue(message.contains(key), message);
  }
}
