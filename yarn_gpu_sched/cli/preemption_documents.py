"""What `--json` prints of preemption; see `documents`."""

from __future__ import annotations

from typing import Literal

import msgspec

ModeName = Literal["unknown", "off", "observe", "on"]
StageName = Literal["unknown", "proposed", "warned", "stopping"]


class PreemptedDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """That a job was stopped for another, ``age_s`` seconds ago, and the GPU-seconds that were lost."""

    age_s: float
    by_job_id: str
    by_virtual_cluster: str
    lost_gpu_s: float


class VictimDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job that is stopped for another, or would be; ``container_ids`` empty: all of it. It loses ``lost_gpu_s`` GPU-seconds."""

    job_id: str
    virtual_cluster: str
    user: str
    gpus: int
    ran_s: float
    lost_gpu_s: float
    stopped_before: int
    container_ids: tuple[str, ...]


class ServerGpusDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GPUs on one server."""

    server_id: str
    gpus: int


class PlanDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs that are stopped for a gang, or would be, and what it then gets.

    ``left_s``: warned, until they are stopped; stopping, until what is held is given up; null while it is only proposed.
    """

    job_id: str
    virtual_cluster: str
    gpus: int
    level: int
    victims: tuple[VictimDocument, ...]
    servers: tuple[ServerGpusDocument, ...]
    stage: StageName
    age_s: float
    left_s: float | None


class SwitchDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who switched preemption (empty: not known), when (UTC, RFC 3339) and why."""

    reason: str
    by: str
    time: str


class TurnedDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a switch changed, or would (``dry_run``); ``kept``: it survives a restart of the service."""

    dry_run: bool
    before: ModeName
    after: ModeName
    spared: tuple[VictimDocument, ...]
    spared_left_out: int
    kept: bool
    not_kept_because: str


class PreemptionDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs preemption --json`: what holds now; ``turned`` is null where nothing was switched, ``switched`` where nobody ever did.

    ``stopped`` and ``observed`` count since the service began.
    """

    mode: ModeName
    mode_of_settings: ModeName
    switched: SwitchDocument | None
    keeps_switch: bool
    quiet_for_s: float
    stopped_last_minute: int
    per_minute_max: int
    stopped: int
    observed: int
    plans: tuple[PlanDocument, ...]
    plans_left_out: int
    turned: TurnedDocument | None


class PreviewDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs preempt --dry-run JOB --json`: whom it would have stopped; ``plan`` null: nobody, by ``condition`` and ``sentence``."""

    job_id: str
    plan: PlanDocument | None
    condition: str
    sentence: str
    hindrances: tuple[str, ...]


class CheckpointDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs checkpoint JOB --json`: of which attempt it is noted."""

    job_id: str
    attempt: int
