"""Servers with simulated GPUs and monitors: what happens to GPUs, what the service says of them, and jobs that show theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from urllib.request import Request, urlopen

from tests.real import shown
from tests.real.apps import App, gpus
from tests.real.joint import ServedJoint
from tests.real.shown import Shown
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.monitored import NOTHING_HAPPENS, MonitoredServer
from yarn_gpu_sched.protocol.v1 import gpu_pb2

GPUS = 8
HOSTS = ("gpu-a1", "gpu-b1")
LIVE, OK = gpu_pb2.TELEMETRY_STATE_LIVE, gpu_pb2.GPU_HEALTH_OK
MONITOR = {"read_every_s": "0.5", "push_every_s": "0.5", "read_timeout_s": "2"}
"""Settings of the monitors: quick, as everything is here."""
OK_AFTER_S, QUARANTINE_AFTER_S, ZOMBIE_ALARM_S, SILENT_AFTER_S = 3, 3, 3, 8


def service_settings(folder: Path) -> dict[str, str]:
    """Return with what the service is started: it believes local monitors, and is quick about health."""
    return {
        "YGS_BINDING_DIR": "",  # the monitors deliver
        "YGS_LOCAL_MONITORS": "true",
        "YGS_STATE_DIR": str(folder / "state"),
        "YGS_GPU_OK_AFTER_S": str(OK_AFTER_S),
        "YGS_GPU_QUARANTINE_AFTER_S": str(QUARANTINE_AFTER_S),
        "YGS_GPU_ZOMBIE_ALARM_S": str(ZOMBIE_ALARM_S),
        "YGS_MONITOR_SILENT_AFTER_S": str(SILENT_AFTER_S),
    }


# What happens


def files_of(joint: ServedJoint, host: str) -> MonitoredServer:
    """Return where a server's files lie."""
    server = next(server for server in joint.cluster.spec.server_list() if server.name == host)
    return MonitoredServer(joint.cluster.spec, Layout(joint.cluster.folder), server)


def happens(joint: ServedJoint, host: str, *events: Mapping[str, object]) -> None:
    """Let this happen to the GPUs of a server from now on, and nothing else."""
    told = "".join("[[events]]\n" + _toml({"at_s": 0} | dict(event), "\n") for event in events)
    scenario = files_of(joint, host).scenario
    part = scenario.with_suffix(".part")
    part.write_text(told or NOTHING_HAPPENS)
    part.rename(scenario)


def _toml(table: Mapping[str, object], end: str) -> str:
    values = {
        key: "{" + _toml(value, "") + "}" if isinstance(value, Mapping) else json.dumps(value)
        for key, value in table.items()
    }
    return "".join(f"{key} = {value}{end}" for key, value in values.items())


def nothing_happens(joint: ServedJoint) -> None:
    """Let nothing happen to any GPU."""
    for host in HOSTS:
        happens(joint, host)


# What the service says


def health(joint: ServedJoint, host: str) -> gpu_pb2.ServerHealth:
    """Return what the service says of a server's GPUs; of one that it does not know, nothing."""
    return next(iter(joint.client.gpus(host)), gpu_pb2.ServerHealth())


def gpu(joint: ServedJoint, host: str, slot: int) -> gpu_pb2.GpuStatus:
    """Return what the service says of one GPU."""
    return health(joint, host).gpus[slot]


def is_well(server: gpu_pb2.ServerHealth) -> bool:
    """Whether all GPUs of a server can be given out."""
    return (
        server.telemetry == LIVE
        and not server.HasField("drained")
        and server.gpus_healthy == server.gpus_counted == GPUS
        and not any(gpu.clearing or gpu.health != OK for gpu in server.gpus)
    )


def await_well(joint: ServedJoint) -> None:
    """Let nothing happen to any GPU, deal with what did, and wait until all can be given out."""
    nothing_happens(joint)
    for host in HOSTS:
        joint.until(
            partial(health, joint, host), lambda server: server.telemetry == LIVE, f"the monitor of {host} is heard"
        )
        joint.client.mark(gpu_pb2.MARK_ACTION_ACK, host, "before a test", by="tests")
        joint.client.mark(gpu_pb2.MARK_ACTION_UNDRAIN, host, "before a test", by="tests")
        joint.until(partial(health, joint, host), is_well, f"all GPUs of {host} are well")


def cards(joint: ServedJoint) -> dict[tuple[str, int], str]:
    """Return the UUID of the card in each slot of each server, by the service."""
    return {(host, gpu.slot): gpu.card.uuid for host in HOSTS for gpu in health(joint, host).gpus}


def discovered(joint: ServedJoint, host: str) -> list[str]:
    """Return the UUIDs of the GPUs that a server's NodeManager finds, by its REST."""
    server = files_of(joint, host).server
    address = f"http://{server.address}:{joint.cluster.ports['nm_web']}/ws/v1/node/resources/yarn.io%2Fgpu"
    with urlopen(Request(address, headers={"Accept": "application/json"}), timeout=20) as page:
        found = json.load(page)["gpuDeviceInformation"]
    each = found["gpus"] if "gpus" in found else found["gpu"]  # Hadoop 3.5 calls them by the words of nvidia-smi
    return [one["uuid"] for one in each]


def counted_by_yarn(joint: ServedJoint, host: str) -> int:
    """Return how many GPUs of a server the ResourceManager counts."""
    kinds = joint.node(host)["totalResource"]["resourceInformations"]["resourceInformation"]
    return sum(int(kind["value"]) for kind in kinds if kind["name"] == "yarn.io/gpu")


# Jobs


def showing(joint: ServedJoint, folder: Path, containers: int, each: int, *tags: str) -> App:
    """Let a gang of a job show what its containers see."""
    app = joint.apps.submit(tags=[f"gang:{containers}x{each}", *tags]).register()
    app.allocate(gpus(containers, each))
    app.hold(containers)
    show(app, folder)
    return app


def show(app: App, folder: Path) -> None:
    """Let all containers that a job holds show what they see."""
    folder.mkdir(parents=True, exist_ok=True)
    app.launch(f"bash {shown.WORKER} {folder}")


def what_was_decided(joint: ServedJoint, app: App, containers: int) -> dict[str, tuple[str, ...]]:
    """Return the UUIDs of the cards in the slots that the service gave to each container with GPUs of a job."""
    known = cards(joint)
    return {
        name: tuple(known[server.partition(":")[0], slot] for slot in slots)
        for name, (server, slots) in joint.on_gpus(app.app_id, containers).items()
    }


def await_shown(joint: ServedJoint, folder: Path, containers: int) -> dict[str, Shown]:
    """Wait until so many containers show what they see."""
    read = lambda: shown.read(folder)  # noqa: E731 - one line, used once
    return joint.until(read, lambda seen: len(seen) == containers, f"{containers} containers show their GPUs")
