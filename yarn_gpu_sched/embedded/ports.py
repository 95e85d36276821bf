"""Ports for one cluster, chosen free and leased, so that clusters side by side never take each other's."""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass

from yarn_gpu_sched.embedded.errors import ClusterError

# Below the range from which Linux takes ports for outgoing connections, or a client's socket may sit on one.
_FIRST, _LAST, _BLOCK = 20_000, 32_000, 16
_SINGLE = range(12_000, _FIRST)
_TRIES_MAX = 200
NAMES = (
    "rm_client",
    "rm_scheduler",
    "rm_tracker",
    "rm_admin",
    "rm_web",
    "nn_rpc",
    "nn_web",
    "dn_transfer",
    "dn_web",
    "dn_ipc",
    "nm_rpc",
    "nm_localizer",
    "nm_web",
    "nm_collector",
)


@dataclass(frozen=True, slots=True)
class PortLease:
    """Ports by name, theirs alone while `lease` is open in some process.

    The lease is a bound Unix socket in the abstract name space, which the kernel drops with the last process that has
    it: nothing is left to clean up.
    """

    ports: dict[str, int]
    lease: socket.socket


def lease_ports() -> PortLease:
    """Choose a block of ports that are free on all addresses of this machine.

    NodeManagers of one cluster share theirs, since each has an address of its own.
    Raises ClusterError if no block is free.
    """
    blocks = list(range(_FIRST, _LAST - _BLOCK, _BLOCK))
    random.shuffle(blocks)
    for base in blocks:
        lease = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            lease.bind(f"\0yarn-gpu-sched-ports-{base}")
            ports = {name: base + offset for offset, name in enumerate(NAMES)}
            if all(_is_free(port) for port in ports.values()):
                return PortLease(ports, lease)
        except OSError:
            pass
        lease.close()
    raise ClusterError(f"no {_BLOCK} free ports in a row between {_FIRST} and {_LAST}")


def free_port() -> int:
    """Choose a port that is free now, for a service beside a cluster; it is not leased, so use it at once.

    Raises ClusterError if none of many is free.
    """
    for port in random.sample(_SINGLE, _TRIES_MAX):
        if _is_free(port):
            return port
    raise ClusterError(f"none of {_TRIES_MAX} ports between {_SINGLE.start} and {_SINGLE.stop} is free")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections that were closed a moment ago are no hindrance; listeners on any address are.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - bound for an instant, never listened on
        except OSError:
            return False
        return True
