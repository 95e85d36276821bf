"""Ways to break an installation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.doctor.site import GPU_HOSTS, RM, Break, Site
from yarn_gpu_sched.doctor import Verdict
from yarn_gpu_sched.protocol.v1 import gpu_pb2

Row = tuple[str, str, Break, Verdict, str, str]
"""Name, check, how, verdict, words of the sentence, words of what to do."""
_ADMIN_ENV = "yarn.nodemanager.admin-env"


def conf(key: str, value: str | None, host: str = RM) -> Break:
    return lambda site: site.set(key, value, host)


def queue_file(key: str, value: str) -> Break:
    return lambda site: site.write_conf("capacity-scheduler", {f"yarn.scheduler.capacity.{key}": value})


def info(**values: Any) -> Break:  # noqa: ANN401 - values of JSON are of any kind
    return lambda site: site.info.update(values)


def leaf(**values: Any) -> Break:  # noqa: ANN401 - values of JSON are of any kind
    return lambda site: site.leaf.update(values)


def node(host: str, **values: Any) -> Break:  # noqa: ANN401 - values of JSON are of any kind
    return lambda site: site.nodes[host].update(values)


def told(**values: Any) -> Break:  # noqa: ANN401 - whatever the service may say
    def change(site: Site) -> None:
        for name, value in values.items():
            setattr(site.service, name, value)

    return change


def monitored(host: str, **values: Any) -> Break:  # noqa: ANN401 - fields of a message are of any kind
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


def vc(index: int, **fields: Any) -> Break:  # noqa: ANN401 - fields of a message are of any kind
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


def unheard(telemetry: gpu_pb2.TelemetryState.ValueType, **fields: Any) -> Break:  # noqa: ANN401 - fields of a message are of any kind
    return monitored("gpu-b1", telemetry=telemetry, **fields)


def no_monitor(site: Site) -> None:
    site.health("gpu-b1").telemetry = gpu_pb2.TELEMETRY_STATE_NONE
