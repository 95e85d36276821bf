"""What a cluster should look like: the servers, the scheduler, and what differs from `hadoop_conf/`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from yarn_gpu_sched.embedded.errors import ClusterError
from yarn_gpu_sched.embedded.jars import DEFAULT_HADOOP
from yarn_gpu_sched.monitor.simulated.spec import BadSpec, parse

_CAPACITY = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity"
GANG_SCHEDULER = f"{_CAPACITY}.GangCapacityScheduler"
STOCK_SCHEDULER = f"{_CAPACITY}.CapacityScheduler"

SERVERS_MAX = 64  # each is a JVM of its own
RACKS_MAX = 26
GPUS_MAX = 64
MEMORY_MB_MIN = 64  # one smallest container
ROLES = ("rm", "nm", "nn", "dn", "client")


@dataclass(frozen=True, slots=True)
class Server:
    """One simulated server: a NodeManager with a name, an address and a rack of its own."""

    name: str
    address: str
    rack: str
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A cluster to bring up. All fields have defaults; a wrong value raises ClusterError.

    hadoop           version, one of `known_versions()`
    servers          (count, GPUs each), one pair for each kind of server; see `parse_servers`. None at all: a
                     ResourceManager alone, whose servers are simulated by somebody else
    racks            the GPU servers are dealt to `/rack-a`, `/rack-b`, … in runs of equal length
    cpu_servers      servers without GPUs besides, dealt to the racks in turn
    memory_mb        of each server, simulated: more than the machine has is fine
    vcores           of each server, simulated
    service_address  `host:port` of the scheduling service, written as `ygs.service-address`; None leaves the default
    binding_dir      folder from which containers learn their GPUs; None: no binding, containers see what they please
    gpu_model        simulated cards of this model ("V100"; `yarn_gpu_sched.monitor.simulated`) on the GPU servers: the
                     NodeManagers discover them with their GPU plugin, and each such server has a monitor, which
                     delivers the bindings. The service has to run with `local_monitors`. Empty: GPUs are only a number
    monitor_settings settings of these monitors (docs/monitor.md) by key, over those that the cluster itself gives
    scheduler_class  of the ResourceManager; STOCK_SCHEDULER needs neither shim nor service
    extra_classpath  jars or folders before Hadoop's own on the ResourceManager's class path. When the scheduler is
                     GANG_SCHEDULER and this is empty, the shim's jar is looked for (`shim_jar`)
    settings         Hadoop's configuration keys over those of `hadoop_conf/`; the key's prefix says in which file
    hdfs             False: no NameNode and DataNode, a folder of this machine is the file system; up in half the time
    changed          servers that differ from what the fields above make of them, by name: (GPUs, rack)
    jvm_flags        for "rm", "nm", "nn", "dn" or "client": flags after the default ones, so that they win
    """

    hadoop: str = DEFAULT_HADOOP
    servers: tuple[tuple[int, int], ...] = ((4, 4),)
    racks: int = 2
    cpu_servers: int = 0
    memory_mb: int = 65_536
    vcores: int = 32
    service_address: str | None = None
    binding_dir: Path | None = None
    gpu_model: str = ""
    monitor_settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    scheduler_class: str = GANG_SCHEDULER
    extra_classpath: tuple[Path, ...] = ()
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    hdfs: bool = True
    changed: Mapping[str, tuple[int, str]] = field(default_factory=lambda: MappingProxyType({}))
    jvm_flags: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        """Refuse what no cluster can be made of."""
        count = sum(servers for servers, _ in self.servers) + self.cpu_servers
        _check(0 <= count <= SERVERS_MAX, "servers", count, f"0 to {SERVERS_MAX} in all")
        for servers, gpus in self.servers:
            _check(servers >= 1, "servers", servers, "at least 1 of each kind")
            _check(0 <= gpus <= GPUS_MAX, "GPUs of a server", gpus, f"0 to {GPUS_MAX}")
        _check(self.cpu_servers >= 0, "cpu_servers", self.cpu_servers, "0 or more")
        _check(1 <= self.racks <= RACKS_MAX, "racks", self.racks, f"1 to {RACKS_MAX}")
        _check(
            MEMORY_MB_MIN <= self.memory_mb < 2**31,
            "memory_mb",
            self.memory_mb,
            f"{MEMORY_MB_MIN} or more, in MiB",
        )
        _check(1 <= self.vcores < 2**31, "vcores", self.vcores, "1 or more")
        if self.gpu_model:
            try:
                parse(f"1x{self.gpu_model}")
            except BadSpec as bad:
                raise ClusterError(f"gpu_model {self.gpu_model!r}: {bad}") from bad
        one_way = not (self.gpu_model and self.binding_dir is not None)
        _check(one_way, "binding_dir", self.binding_dir, "left out with gpu_model: monitors deliver bindings")
        names = {server.name for server in self.server_list()}
        for name, (gpus, rack) in self.changed.items():
            _check(name in names, "changed server", name, f"one of {', '.join(sorted(names))}")
            _check(0 <= gpus <= GPUS_MAX, f"GPUs of {name}", gpus, f"0 to {GPUS_MAX}")
            _check(re.fullmatch(r"(/[\w.-]+)+", rack) is not None, f"rack of {name}", rack, "a path such as /rack-a")
        unknown = sorted(self.jvm_flags.keys() - set(ROLES))
        _check(not unknown, "jvm_flags", ", ".join(unknown), f"keys out of {', '.join(ROLES)}")

    def server_list(self) -> tuple[Server, ...]:
        """Return the servers in the order of their addresses, GPU servers first."""
        gpus = [gpus for count, gpus in self.servers for _ in range(count)]
        run = -(-len(gpus) // self.racks)
        placed = [(n // run, f"gpu-{_letter(n // run)}{n % run + 1}", g) for n, g in enumerate(gpus)]
        placed += [(n % self.racks, f"cpu-{n + 1}", 0) for n in range(self.cpu_servers)]
        servers = (
            Server(name, f"127.0.1.{number}", f"/rack-{_letter(rack)}", gpus)
            for number, (rack, name, gpus) in enumerate(placed, start=1)
        )
        return tuple(self._as_changed(server) for server in servers)

    def _as_changed(self, server: Server) -> Server:
        gpus, rack = self.changed.get(server.name, (server.gpus, server.rack))
        return replace(server, gpus=gpus, rack=rack)


def parse_servers(text: str) -> tuple[tuple[int, int], ...]:
    """Read `4x4` (4 servers of 4 GPUs) or `2x8,2x4` (and so on) into the `servers` of a ClusterSpec.

    Raises ClusterError if the text is neither.
    """
    kinds = [re.fullmatch(r"(\d{1,3})[xX](\d{1,3})", kind.strip()) for kind in text.split(",")]
    if not all(kinds):
        raise ClusterError(f"servers {text!r} should be COUNTxGPUS, such as 4x4, or several of them, such as 2x8,2x4")
    return tuple((int(kind[1]), int(kind[2])) for kind in kinds if kind)


def _check(right: bool, name: str, value: object, expected: str) -> None:  # noqa: FBT001 - a condition, no flag
    if not right:
        raise ClusterError(f"{name} {value} should be {expected}")


def _letter(number: int) -> str:
    return chr(ord("a") + number)
