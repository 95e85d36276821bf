"""What one look at a server found: the shape that every source of readings fills, real or simulated.

A value that is not there is None, "not available": never zero, never a guess. What no hardware can mean (a utilisation of 400 %,
more memory used than there is) is not there either, and is named in ``bad_fields``: see `yarn_gpu_sched.monitor.plausible`.
"""

from __future__ import annotations

import enum
from typing import Protocol

import msgspec

GPUS_MAX = 64
"""GPUs of one server."""
PROCESSES_MAX = 256
"""Processes that are told of one GPU."""
XIDS_MAX = 256
"""Xid events that one reading tells of."""


class LinkKind(enum.Enum):
    """How two GPUs of a server reach each other, the best first (`nvmlGpuTopologyLevel_t`, and NVLink before it)."""

    NVLINK = "nvlink"
    INTERNAL = "internal"
    """On one board."""
    SINGLE = "single"
    """Through one PCIe switch."""
    MULTIPLE = "multiple"
    """Through several PCIe switches."""
    HOSTBRIDGE = "hostbridge"
    NODE = "node"
    """On one NUMA node."""
    SYSTEM = "system"
    """Across NUMA nodes."""


class FailureKind(enum.Enum):
    """Why the GPUs of a server could not be read at all."""

    DRIVER_MISMATCH = "driver_mismatch"
    """The library is not of the loaded driver's version (NVML_ERROR_LIB_RM_VERSION_MISMATCH, code 18)."""
    NO_DRIVER = "no_driver"
    """No driver or no library."""
    NO_DEVICES = "no_devices"
    """The driver answers that there are no devices, where a valid reading of no GPUs was not expected."""
    TIMED_OUT = "timed_out"
    """The driver did not answer in time."""
    UNREADABLE = "unreadable"
    """It answered what cannot be read."""


class Failure(msgspec.Struct, frozen=True):
    """GPUs that could not be read, and in whose words."""

    kind: FailureKind
    detail: str = ""


class GpuLink(msgspec.Struct, frozen=True):
    """How a GPU reaches another one; ``lanes`` counts NVLinks."""

    uuid: str
    kind: LinkKind
    lanes: int = 0


class GpuProcess(msgspec.Struct, frozen=True):
    """A process that holds a GPU. ``container_id`` is empty for one of no YARN container."""

    pid: int
    memory_mb: int | None = None
    container_id: str = ""
    user: str = ""
    command: str = ""


class Xid(msgspec.Struct, frozen=True):
    """An error that the driver reported once: an event, not a level. ``number`` counts the events of this source from 1."""

    uuid: str
    xid: int
    number: int


class GpuReading(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as one look found it. ``index`` is its place in the order of nvidia-smi, ``uuid`` is who it is.

    Memory is in MiB, utilisation in percent of the time, power in watts, ECC counts are those since the driver was loaded
    (``volatile``). ``processes`` None: the driver does not say.
    """

    uuid: str
    index: int
    model: str | None = None
    minor: int | None = None
    pci_bus_id: str | None = None
    memory_used_mb: int | None = None
    memory_total_mb: int | None = None
    sm_percent: int | None = None
    memory_percent: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    throttle_reasons: tuple[str, ...] | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    mig_enabled: bool | None = None
    mig_devices: int = 0
    processes: tuple[GpuProcess, ...] | None = None
    links: tuple[GpuLink, ...] | None = None
    bad_fields: tuple[str, ...] = ()


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """A port below `/sys/class/infiniband`. ``infiniband`` False: Ethernet (RoCE, iWARP), no evidence of an RDMA domain."""

    device: str
    port: int
    infiniband: bool | None = None
    state: str | None = None
    physical_state: str | None = None
    rate_gbps: float | None = None
    counters: dict[str, int] = {}


class HostReading(msgspec.Struct, frozen=True, kw_only=True):
    """The server beside its GPUs. ``cpu_percent`` is of all cores together, 0 to 100, since the look before."""

    cpu_percent: float | None = None
    memory_used_mb: int | None = None
    memory_total_mb: int | None = None
    ports: tuple[Port, ...] = ()


class GpusReading(msgspec.Struct, frozen=True, kw_only=True):
    """All GPUs of a server as one look found them, in the order of nvidia-smi; or why they could not be looked at.

    ``gpus`` None: could not be read, ``failure`` says why. An empty tuple is a valid reading of no GPUs.
    """

    gpus: tuple[GpuReading, ...] | None
    failure: Failure | None = None
    xids: tuple[Xid, ...] = ()


class GpuSource(Protocol):
    """Whoever can look at the GPUs of this server. Not thread-safe; may block: call it where a hang does no harm."""

    def read(self) -> GpusReading:
        """Look once. What goes wrong is said in the reading; raises nothing."""

    def close(self) -> None:
        """Let go of the driver."""
