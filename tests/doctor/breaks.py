"""What is broken, for which check, and what it has to say: name, check, how, verdict, words of the sentence and of what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.doctor.site import GPU_HOSTS, RM, Break, Site, use
from yarn_gpu_sched.doctor import Verdict
from yarn_gpu_sched.protocol.v1 import gpu_pb2

F, W = Verdict.FAULT, Verdict.WARNING
Row = tuple[str, str, Break, Verdict, str, str]
_ADMIN_ENV = "yarn.nodemanager.admin-env"
_STOCK = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
_LINUX = "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor"


def conf(key: str, value: str | None, host: str = RM) -> Break:
    return lambda site: site.set(key, value, host)


def queue_file(key: str, value: str) -> Break:
    return lambda site: site.write_conf("capacity-scheduler", {f"yarn.scheduler.capacity.{key}": value})


def info(**values: Any) -> Break:  # noqa: ANN401 - of JSON
    return lambda site: site.info.update(values)


def leaf(**values: Any) -> Break:  # noqa: ANN401 - of JSON
    return lambda site: site.leaf.update(values)


def node(host: str, **values: Any) -> Break:  # noqa: ANN401 - of JSON
    return lambda site: site.nodes[host].update(values)


def told(**values: Any) -> Break:  # noqa: ANN401 - what the service says
    def change(site: Site) -> None:
        for name, value in values.items():
            setattr(site.service, name, value)

    return change


def monitored(host: str, **values: Any) -> Break:  # noqa: ANN401 - of a message
    return lambda site: site.health(host).MergeFrom(gpu_pb2.ServerHealth(**values))


def both(*breaks: Break) -> Break:
    def change(site: Site) -> None:
        for one in breaks:
            one(site)

    return change


def racks(*hosts: str) -> Break:
    return both(*(node(host, rack="/default-rack") for host in hosts))


def admin_env(host: str, without: Iterable[str] = (), **more: str) -> Break:
    def change(site: Site) -> None:
        pairs = [one.split("=", 1) for one in site.value(_ADMIN_ENV, host).split(",")]
        kept = {name: value for name, value in pairs if name not in without} | more
        site.set(_ADMIN_ENV, ",".join(f"{name}={value}" for name, value in kept.items()), host)

    return change


def gone(path: str) -> Break:
    def change(site: Site) -> None:
        site.pages = {key: page for key, page in site.pages.items() if key[1] != path}

    return change


def stopped(site: Site) -> None:
    """Let nobody listen where the ResourceManager did."""
    site.places["rm"] = ("http://rm:1",)


def service_stopped(site: Site) -> None:
    site.service_address = "127.0.0.1:1"


def vc(index: int, **fields: Any) -> Break:  # noqa: ANN401 - of a message
    def change(site: Site) -> None:
        site.service.vcs[index].virtual_cluster.running = fields.pop("running", True)
        for name, value in fields.items():
            getattr(site.service.vcs[index], name).extend(value)

    return change


def forget_card(site: Site) -> None:
    del site.health("gpu-a1").gpus[3:]


def fewer_counted(site: Site) -> None:
    site.health("gpu-b1").gpus_counted = site.health("gpu-b1").gpus_healthy = 3


def fewer_discovered(site: Site) -> None:
    del site.pages["gpu-a1", "/ws/v1/node/resources/yarn.io%2Fgpu"]["gpuDeviceInformation"]["gpus"][2:]


def no_gpus(site: Site) -> None:
    for host in GPU_HOSTS:
        site.nodes[host]["totalResource"]["resourceInformations"]["resourceInformation"] = []
    site.service.health.clear()


def unheard(telemetry: gpu_pb2.TelemetryState.ValueType, **fields: Any) -> Break:  # noqa: ANN401 - of a message
    return monitored("gpu-b1", telemetry=telemetry, **fields)


def no_monitor(site: Site) -> None:
    site.health("gpu-b1").telemetry = gpu_pb2.TELEMETRY_STATE_NONE


BREAKS: list[Row] = [
    ("stopped", "rm", stopped, F, r"no ResourceManager answers: http://rm:1/.*refused", r"--rm"),
    ("HTTP 500", "rm", lambda site: site.pages.update({(RM, "/ws/v1/cluster/info"): 500}), F, r"HTTP 500", r"--rm"),
    ("Kerberos", "rm", lambda site: site.pages.update({(RM, "/ws/v1/cluster/info"): 401}), F, r"401: .*SPNEGO", r"--rm"),
    ("no JSON", "rm", lambda site: site.pages.update({(RM, "/ws/v1/cluster/info"): b"<html>"}), F, r"understood", r"--rm"),
    ("standby", "rm", info(haState="STANDBY"), F, r"is STANDBY: it schedules nothing", r"--rm http://HOST:8088"),
    ("none runs", "rm", both(*(node(host, state="NEW") for host in ("cpu-1", *GPU_HOSTS))), F, r"no server runs", r"-all"),
    ("unhealthy", "rm", node("gpu-a1", state="UNHEALTHY"), W, r"gpu-a1 is UNHEALTHY", r"yarn node -status gpu-a1:"),
    ("3.3", "hadoop", info(resourceManagerVersion="3.3.6"), F, r"Hadoop 3\.3\.6 is not supported", r"3\.4 or 3\.5"),
    ("two lines", "hadoop", node("gpu-a1", version="3.5.0"), W, r"another line: gpu-a1 3\.5\.0", r"to 3\.4"),
    (
        "stock", "scheduler", both(Site.no_shim, conf("yarn.resourcemanager.scheduler.class", _STOCK)),
        F, r"CapacityScheduler: stock placement", r"set yarn\.resourcemanager\.scheduler\.class to org.*GangCap",
    ),
    ("did not come up", "scheduler", Site.no_shim, F, r"/jmx has no YarnGpuSched", r"ygs-rm-shim\.jar"),
    (
        "constraints", "settings", conf("yarn.resourcemanager.placement-constraints.handler", "placement-processor"),
        F, r"handler is placement-processor", r"set it to scheduler in yarn-site",
    ),
    (
        "opportunistic", "settings",
        conf("yarn.resourcemanager.opportunistic-container-allocation.enabled", "true"),
        F, r"opportunistic-container-allocation\.enabled is true", r"to false in yarn-site",
    ),
    (
        "stock preemption", "settings", conf("yarn.resourcemanager.scheduler.monitor.enable", "true"),
        F, r"scheduler\.monitor\.enable is true: stock preemption", r"to false in yarn-site",
    ),
    (
        "allocator", "settings", conf("yarn.scheduler.app-placement-allocator.class", "other"),
        W, r"allocator\.class is other", r"take the key out",
    ),
    (
        "far without TLS", "settings", conf("ygs.service-address", "192.0.2.1:7433"),
        F, r"ygs\.service-address is 192\.0\.2\.1:7433, and without TLS", r"ygs\.tls\.certificate",
    ),
    (
        "half of TLS", "settings", conf("ygs.tls.key", "/etc/key.pem"), F, r"only ygs\.tls\.key is set", r"all three",
    ),
    ("lazy", "settings", queue_file("lazy-preemption-enabled", "true"), F, r"lazy-preemption", r"false in capacity-sch"),
    ("multi-node", "settings", queue_file("multi-node-placement-enabled", "true"), F, r"multi-node", r"false in capac"),
    ("async", "settings", queue_file("schedule-asynchronously.enable", "true"), F, r"asynchronously", r"false in cap"),
    ("no type", "counting", conf("yarn.resource-types", None), F, r"knows no GPUs", r"yarn\.io/gpu in resource-types\.xml"),
    (
        "calculator", "counting",
        queue_file("resource-calculator", "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator"),
        F, r"DefaultResourceCalculator: it counts memory alone", r"DominantResourceCalculator",
    ),
    ("no recovery", "restarts", conf("yarn.resourcemanager.recovery.enabled", "false"), W, r"ends what runs", r"to true"),
    (
        "losing", "restarts", conf("yarn.resourcemanager.work-preserving-recovery.enabled", "false"),
        W, r"work-preserving-recovery\.enabled is false", r"to true",
    ),
    (
        "late", "restarts", conf("yarn.resourcemanager.connect.retry-interval.ms", None),
        W, r"retry-interval\.ms is 30000", r"set it to 1000",
    ),
    (
        "NodeManager", "restarts", conf("yarn.nodemanager.recovery.enabled", "false", "gpu-b1"),
        W, r"recovery\.enabled is false on gpu-b1:", r"recovery\.supervised",
    ),
    ("stopped", "service", service_stopped, F, r"127\.0\.0\.1:1", r"ygs serve"),
    ("no ResourceManager", "stream", told(connected=False), F, r"no ResourceManager is connected", r"ygs\.service-address"),
    (
        "shim alone", "stream", lambda site: site.counters.update(Connected=0),
        F, r"shim says that it is not connected to 127\.0\.0\.1:\d+", r"set ygs\.service-address",
    ),
    ("other cluster", "stream", told(cluster_id="other"), F, r"schedules cluster other, this.*is of embedded-", r"--service"),
    ("no shim", "stream", Site.no_shim, F, r"runs no shim", r"check scheduler"),
    ("dropped", "stream", lambda site: site.counters.update(Dropped=7), W, r"given up 7 ", r"Dropped"),
    ("old service", "versions", told(service_version="0.0.9"), W, r"service is of version 0\.0\.9", r"for the service"),
    ("unknown service", "versions", told(service_version=""), W, r"service is of version unknown", r"restart it"),
    ("old shim", "versions", told(agent="ygs-rm-shim 0.0.9 on Hadoop 3.4.2"), W, r"shim is of version 0\.0\.9", r"\.jar"),
    (
        "unknown shim", "versions", told(agent="ygs-rm-shim on Hadoop 3.4.2"), W, r"shim is of version unknown", r"\.jar",
    ),
    (
        "old monitor", "versions", monitored("gpu-b1", monitor_agent="ygs monitor 0.0.9"),
        W, r"monitors of another version than .*: gpu-b1 0\.0\.9", r"for the monitor",
    ),
    ("unknown queue", "queues", lambda site: site.service.vcs.pop(), F, r"not know the queues root\.default", r"stream"),
    (
        "warnings", "queues", vc(1, warnings=["quota 8 GPUs is over its maximum, 4"]),
        W, r"root\.default: quota 8 GPUs is over", r"root\.default.*refreshQueues",
    ),
    ("stopped queue", "queues", vc(1, running=False), W, r"root\.default is stopped", r"state to RUNNING"),
    (
        "too much", "queues", lambda site: site.service.vcs.append(use("root.more", quota_gpus=3)),
        W, r"promise 11 GPUs, the cluster has 8", r"yarn\.io/gpu",
    ),
    (
        "C29", "am-limit", leaf(configuredMaxAMResourceLimit=0.1, numPendingApplications=3),
        F, r"root\.default: 3 applications stay ACCEPTED: masters may have \d+ MiB .*0\.1 of",
        r"set yarn\.scheduler\.capacity\.maximum-am-resource-percent.*to 1 .*refreshQueues",
    ),
    ("nobody waits yet", "am-limit", leaf(configuredMaxAMResourceLimit=0.1), W, r"ACCEPTED for ever", r"to 1 "),
    ("none may", "applications", leaf(maxApplications=0), F, r"0 applications of at most 0: further", r"root\.default\.max"),
    (
        "full", "applications", leaf(maxApplications=10, numApplications=10), F, r"10 applications of at most 10", r"max",
    ),
    ("nearly full", "applications", leaf(maxApplications=10, numApplications=9), W, r"9 applications of at m", r"max"),
    (
        "at once", "applications", leaf(maxParallelApps=2, numApplications=7, numActiveApplications=2),
        W, r"5 applications wait: at most 2 run at once", r"max-parallel-apps",
    ),
    ("one user", "user-limit", leaf(userLimitFactor=1.0), W, r"root\.default: a user may have 1 times", r"factor to -1"),
    (
        "memory", "largest-ask", conf("yarn.scheduler.maximum-allocation-mb", "8192"),
        W, r"is 8192: .*server has 65536 MiB", r"65536 or more",
    ),
    (
        "vcores", "largest-ask", conf("yarn.scheduler.maximum-allocation-vcores", None),
        W, r"vcores is 4: .*server has 32 vcores", r"32 or more",
    ),
    (
        "8.1 all", "racks", racks(*GPU_HOSTS), F, r"all 2 GPU servers are in /default-rack.*locality means nothing",
        r"net\.topology\.node\.switch\.mapping\.impl",
    ),
    ("8.1 one", "racks", racks("gpu-b1"), W, r"1 of 2 GPU servers are in /default-rack: gpu-b1", r"net\.topology"),
    ("vanished card", "gpus", forget_card, F, r"gpu-a1: GPUs by YARN 4, the service 4, its monitor 3, its NodeM", r"restart"),
    ("service", "gpus", fewer_counted, F, r"gpu-b1: GPUs by YARN 4, the service 3", r"restart"),
    ("plugin", "gpus", fewer_discovered, F, r"gpu-a1: .*its NodeManager 2", r"NodeManager"),
    ("none", "gpus", no_gpus, F, r"counts no GPUs on any server", r"node-resources\.xml"),
    ("unknown", "gpus", lambda site: site.service.health.pop(), F, r"gpu-b1: YARN counts 4 GPUs, the ser", r"stream"),
    ("ill", "gpus", monitored("gpu-a1", gpus_healthy=3), W, r"gpu-a1: 1 of 4 GPUs are not given out", r"ygs ack gpu-a1"),
    ("silent", "monitors", unheard(gpu_pb2.TELEMETRY_STATE_SILENT, age_s=45.0), F, r"silent.*gpu-b1 \(45 s\)", r"ygs monitor"),
    (
        "unreadable", "monitors", unheard(gpu_pb2.TELEMETRY_STATE_UNREADABLE, failure="Driver/library version mismatch"),
        F, r"cannot be read on gpu-b1 \(Driver/library version mismatch\)", r"driver",
    ),
    ("none", "monitors", no_monitor, W, r"no monitor speaks for gpu-b1", r"start ygs monitor"),
    ("unbound", "binding", admin_env("gpu-a1", ["BASH_ENV"]), W, r"no BASH_ENV on gpu-a1", r"BASH_ENV="),
    ("no folder", "binding", admin_env("gpu-b1", ["YGS_BINDING_DIR"]), F, r"no YGS_BINDING_DIR on gpu-b1.*78", r"binding_dir"),
    ("no GPUs there", "binding", admin_env("cpu-1", ["YGS_SERVER_GPUS"]), F, r"without GPUs.*cpu-1.*78", r"YGS_SERVER_GPUS=0"),
    ("GPUs there", "binding", admin_env("gpu-a1", YGS_SERVER_GPUS="0"), F, r"=0 on gpu-a1, which have GPUs", r"take YGS"),
    ("open", "binding", admin_env("gpu-a1", ["CUDA_VISIBLE_DEVICES"]), W, r"no CUDA_VISIBLE_DEVICES=-1 on gpu-a1", r"=-1"),
    ("stock binds", "binding", Site.no_shim, F, r"stock placement writes no bindings, and gpu-a1, gpu-b1", r"BASH_ENV out"),
    ("RM's clock", "clocks", lambda site: site.date_ahead_s.update(rm=40.0), W, r"ResourceManager \+\d\d s", r"NTP"),
    ("a server's", "clocks", lambda site: site.date_ahead_s.update({"gpu-b1": -4000.0}), F, r"gpu-b1 -\d+ s", r"NTP"),
    ("service's", "clocks", told(service_ahead_s=-30.0), W, r"service -30 s", r"NTP"),
    (
        "Kerberos", "security", conf("hadoop.security.authentication", "kerberos"),
        W, r"Kerberos is on: not tried.*needs no ticket.*by name only", r"few servers",
    ),
    (
        "executor", "security", conf("yarn.nodemanager.container-executor.class", _LINUX, "gpu-a1"),
        W, r"3\.4: .*not tried with real control groups: gpu-a1", r"node_manager",
    ),
    (
        "executor of 3.5", "security",
        both(conf("yarn.nodemanager.container-executor.class", _LINUX, "gpu-a1"), node("gpu-a1", version="3.5.0")),
        F, r"3\.5 is not supported: .*gpu-a1", r"node-resources\.xml",
    ),
    (
        "executor without plugin", "security", conf("yarn.nodemanager.container-executor.class", _LINUX, "cpu-1"),
        W, r"without the GPU plugin.*cpu-1", r"bind_gpus\.sh",
    ),
]  # fmt: skip
