"""What `--json` prints of GPUs, their health and what operators say of them; see `documents`. null: not available, or none."""

from __future__ import annotations

from typing import Literal

import msgspec

TelemetryName = Literal["unknown", "none", "live", "silent", "unreadable"]
HealthName = Literal["unknown", "ok", "suspect", "quarantined", "recovering"]
ActionName = Literal["drain", "undrain", "quarantine", "ack"]


class SaidDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who said something of a server or a GPU, when (UTC, RFC 3339) and why."""

    reason: str
    by: str
    time: str


class GpuProcessDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process that holds a GPU; ``container_id`` null: it is of none."""

    pid: int
    memory_mb: int | None
    container_id: str | None
    user: str | None
    command: str | None


class GpuReadingDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was last read of a GPU, ``age_s`` seconds ago. ``processes`` null: the driver does not say which hold it."""

    age_s: float
    sm_percent: int | None
    memory_percent: int | None
    memory_used_mb: int | None
    memory_total_mb: int | None
    temperature_c: int | None
    power_w: int | None
    ecc_corrected: int | None
    ecc_uncorrected: int | None
    throttle_reasons: tuple[str, ...]
    processes: tuple[GpuProcessDocument, ...] | None


class GpuHealthDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A GPU with its health and use: in this state for ``since_s`` seconds, its holder has not used it for ``idle_s``.

    ``clearing``: it was given back, and is not seen free yet. ``nvidia_smi_index`` null: no card is there.
    """

    slot: int
    uuid: str | None
    nvidia_smi_index: int | None
    model: str | None
    mig: bool
    health: HealthName
    faults: tuple[str, ...]
    since_s: float
    needs_ack: bool
    clearing: bool
    quarantined: SaidDocument | None
    job_id: str | None
    container_id: str | None
    virtual_cluster: str | None
    idle_s: float | None
    reading: GpuReadingDocument | None


class ServerHealthDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A server with its GPUs; ``server_id`` null: the resource manager does not know it; ``age_s``: since its monitor spoke.

    ``gpus_counted`` is what YARN counts, ``gpus_over_committed`` what is held beyond the healthy ones.
    """

    host: str
    server_id: str | None
    telemetry: TelemetryName
    age_s: float | None
    failure: str
    drained: SaidDocument | None
    gpus_counted: int
    gpus_healthy: int
    gpus_over_committed: int
    simulated: bool
    cpu_percent: int | None
    memory_used_mb: int | None
    memory_total_mb: int | None
    gpus: tuple[GpuHealthDocument, ...]


class TopDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs top --json`, in order of hosts and slots."""

    servers: tuple[ServerHealthDocument, ...]


class ServerInShortDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The health of a server in `ygs servers --json`; ``gpus_out`` are not given out: not healthy, or not seen free."""

    host: str
    telemetry: TelemetryName
    failure: str
    drained: SaidDocument | None
    gpus_counted: int
    gpus_healthy: int
    gpus_over_committed: int
    gpus_out: int


class IdleJobDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job that has not used ``idle_gpus`` of its ``gpus``, the longest for ``idle_s``; of ``unknown_gpus`` nobody can tell.

    ``hosts`` are at most 10 of those where the idle ones are.
    """

    job_id: str
    user: str
    virtual_cluster: str
    gpus: int
    idle_gpus: int
    unknown_gpus: int
    idle_s: float
    hosts: tuple[str, ...]
    warned: bool
    preemptable: bool


class IdleDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs idle --json`, the longest first; idle is what was used less than ``idle_below_percent`` for ``idle_after_s``."""

    jobs: tuple[IdleJobDocument, ...]
    left_out: int
    idle_after_s: float
    idle_below_percent: int


class MarkDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `ygs drain`, `undrain`, `quarantine` and `ack` changed, or would (``dry_run``); ``job_ids`` run there and go on.

    ``changes`` empty: it is so already. ``kept``: it survives a restart of the service.
    """

    action: ActionName
    server: str
    gpu: str | None
    dry_run: bool
    changes: tuple[str, ...]
    kept: bool
    not_kept_because: str
    job_ids: tuple[str, ...]
