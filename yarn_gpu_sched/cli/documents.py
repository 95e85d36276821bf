"""What every `--json` prints: one type a document. docs/cli.md holds the JSON schema of each.

Field names and meanings follow the protocol; enumerations are their names in lower case without the prefix. Within one
major version of the package fields are only added.
"""

from __future__ import annotations

import json
import sys
from typing import Literal

import msgspec

from yarn_gpu_sched.cli.certs_documents import CertificatesDocument
from yarn_gpu_sched.cli.doctor_documents import DoctorDocument
from yarn_gpu_sched.cli.gpu_documents import IdleDocument, MarkDocument, ServerInShortDocument, TopDocument
from yarn_gpu_sched.cli.preemption_documents import (
    CheckpointDocument,
    PreemptedDocument,
    PreemptionDocument,
    PreviewDocument,
)
from yarn_gpu_sched.cli.reservation_documents import ReservationDocument
from yarn_gpu_sched.cli.usage_documents import UsageDocument

State = Literal["unknown", "pending", "running", "ended"]
ServerStateName = Literal["unknown", "running", "draining", "unhealthy"]
EndName = Literal["unknown", "succeeded", "failed", "killed"]


class ResourceDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An amount of each resource type; ``memory_mb`` in MiB."""

    memory_mb: int
    vcores: int
    gpus: int


class WaitingDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a job waits, with the numbers: what must be had at once, what is free and on how many servers."""

    code: str
    sentence: str
    gpus_asked: int
    containers_asked: int
    gpus_free: int
    servers_free: int


class OutlookDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What would change a wait (``changes``, the nearest first) and when it ends; null: nobody knows, or it does not apply.

    ``starts_in_s`` is the estimate whose grounds ``when`` says; ``job_ids``: the running jobs whose ends would free enough;
    ``server_ids``: the servers with free GPUs that lack memory or vcores; at most 10 of each.
    """

    changes: tuple[str, ...]
    when: str
    starts_in_s: float | None
    next_level: int | None
    relaxes_in_s: float | None
    gpus_lacking: int
    limit_gpus_lacking: int
    job_ids: tuple[str, ...]
    server_ids: tuple[str, ...]


class WaitedDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long was waited, by cause, in seconds."""

    fair_share_s: float
    capacity_s: float
    fragmentation_s: float
    other_s: float


class ReasonSinceDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reason to wait that began ``age_s`` seconds ago."""

    code: str
    age_s: float


class ContainerDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A live container; ``gpu_indices`` in the order of nvidia-smi on its server."""

    container_id: str
    attempt: int
    server_id: str
    resource: ResourceDocument
    gpu_indices: tuple[int, ...]
    application_master: bool
    priority: int
    allocation_request_id: int
    ending: bool


class JobDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job. Times are UTC (RFC 3339); ``expire_time``: when YARN will end it; ``level`` 0 to 2, null before the gang is placed.

    ``delays``: how long its present or last attempt has waited, ``delays_in_all`` all of them. ``preempted``: the last 16 of
    ``preempted_times`` times that it was stopped for another. ``stopped_for``: for which job it is warned (``stops_in_s`` is not
    null) or being stopped.
    """

    job_id: str
    state: State
    virtual_cluster: str
    user: str
    name: str
    tags: tuple[str, ...]
    submit_time: str
    expire_time: str | None
    attempt: int
    active: bool
    recovered: bool
    unmanaged: bool
    gang_containers: int
    gpus_pending: int
    used: ResourceDocument
    waiting: WaitingDocument | None
    end: EndName | None
    diagnostics: str
    age_s: float
    level: int | None
    delays: WaitedDocument
    delays_in_all: WaitedDocument
    preempted: tuple[PreemptedDocument, ...]
    preempted_times: int
    stopped_for: str | None
    stops_in_s: float | None


class JobWithContainersDocument(JobDocument, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`ygs job show --json`: a job with its live containers, and its last reasons to wait in this attempt, oldest first."""

    containers: tuple[ContainerDocument, ...]
    history: tuple[ReasonSinceDocument, ...]


class JobsDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs jobs --json`, in order of submission."""

    jobs: tuple[JobDocument, ...]


class WhyDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs why --json`: ``sentence`` is what `ygs why` prints first; the others are null when the job waits for nothing."""

    job_id: str
    state: State
    sentence: str
    waiting: WaitingDocument | None
    expire_time: str | None
    outlook: OutlookDocument | None


class GpuDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A GPU; ``job_id`` null: free; ``container_id`` null although it has a job: it is kept for that, or its commit is awaited."""

    index: int
    job_id: str | None
    container_id: str | None


class ServerDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A server with its use; ``partition`` is the node label, empty for the default one."""

    server_id: str
    host: str
    rack: str
    partition: str
    state: ServerStateName
    capacity: ResourceDocument
    used: ResourceDocument
    gpus: tuple[GpuDocument, ...]
    containers: int


class ServersDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs servers --json`, in order of server ids; what is kept for gangs that waited too long, in the order in which it is kept.

    ``reservations_left_out``: further ones than fit into the service's answer. ``health``: of the servers with GPUs, by host.
    """

    servers: tuple[ServerDocument, ...]
    reservations: tuple[ReservationDocument, ...]
    reservations_left_out: int
    health: tuple[ServerInShortDocument, ...]


class PartitionShareDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a virtual cluster has and uses of a partition in GPUs; ``quota_gpus`` and ``maximum_gpus`` null: nobody says.

    ``borrowed_gpus``: of what it uses, what does not fit into the quota; ``translated``: the quota was set in percent or as a
    weight.
    """

    partition: str
    quota_gpus: int | None
    maximum_gpus: int | None
    used_gpus: int
    borrowed_gpus: int
    translated: bool


class VirtualClusterDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A virtual cluster with its use; ``quota_gpus`` and ``maximum_gpus`` as configured in GPUs, null where they are not.

    ``shares``: what is in force, by partition; ``parent``: it holds queues, whose use it includes, not jobs; ``warnings``: what is
    wrong with its configuration.
    """

    path: str
    quota_gpus: int | None
    maximum_gpus: int | None
    running: bool
    used: ResourceDocument
    jobs_running: int
    jobs_pending: int
    parent: bool
    shares: tuple[PartitionShareDocument, ...]
    warnings: tuple[str, ...]


class VirtualClustersDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs vcs --json`, in order of paths."""

    virtual_clusters: tuple[VirtualClusterDocument, ...]


class DelayCountsDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Waits by the cause that took longest."""

    fair_share: int
    capacity: int
    fragmentation: int
    other: int


class DelayRowDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The waits of a virtual cluster's jobs of one size (GPUs at once: 0, 1, 2-4, 5-8 or >8).

    ``waits`` have ended, ``mostly`` counts them by the cause that took longest; ``waiting`` jobs wait now, and have waited
    ``waiting_delays`` so far.
    """

    virtual_cluster: str
    size: str
    waits: int
    delays: WaitedDocument
    mostly: DelayCountsDocument
    waiting: int
    waiting_delays: WaitedDocument


class ListedDelaysDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs delays --json`, in order of paths and sizes; what nobody waited for has no row."""

    rows: tuple[DelayRowDocument, ...]


class DaemonDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process of the embedded cluster; ``exit_code`` is null while it runs."""

    name: str
    pid: int
    exit_code: int | None


class EmbeddedServerDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A server as its ResourceManager sees it; ``state`` is YARN's, or UNKNOWN."""

    name: str
    rack: str
    state: str
    gpus: int
    gpus_used: int


class EmbeddedClusterDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs cluster status --json`."""

    folder: str
    hadoop: str
    running: bool
    ready: bool
    web: str
    yarn: str
    distributed_shell_jar: str
    cluster_id: str
    daemons: tuple[DaemonDocument, ...]
    servers: tuple[EmbeddedServerDocument, ...]


class SettingsDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs config show --json`: every setting of the service by its key."""

    settings: dict[str, str | int | float | bool]


class DelaysDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long attempts of jobs waited, by cause, in seconds; ``delayed`` of them waited at all (docs/replay.md)."""

    attempts: int
    delayed: int
    fair_share_s: float
    capacity_s: float
    fragmentation_s: float
    other_s: float
    mostly_fair_share: int
    mostly_capacity: int
    mostly_fragmentation: int


class TraceDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A trace that was replayed; the counts are of jobs, ``bad_rows`` are the first 100."""

    name: str
    form: str
    sha256: str
    states: dict[str, int]
    noted: dict[str, int]
    skipped: dict[str, int]
    bad_rows: tuple[str, ...]
    bad_rows_count: int


class ReplayDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs replay --json`, the same as summary.json; times in seconds, ``delays`` by virtual cluster and size, "*" for all."""

    jobs: int
    gpus: int
    mean_jct_s: float | None
    median_jct_s: float
    p95_jct_s: float
    p99_jct_s: float
    mean_queue_s: float | None
    max_queue_s: float
    mean_bounded_slowdown: float | None
    mean_queue_s_by_gpus: dict[str, float | None]
    makespan_s: float
    held_share: float | None
    lost_gpu_hours: float
    preemptions: int
    refused: int
    policy: str
    version: str
    trace: TraceDocument
    servers: int
    gpus_by_server: dict[str, int]
    domains: int
    relax_after_s: float
    restart_cost_s: float
    checkpoint_every_s: float
    preemption: bool
    grace_s: float
    reserve_after_s: float
    quotas: dict[str, int] | None
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    delays: dict[str, dict[str, DelaysDocument]]
    events: int
    wall_s: float
    cpu_s: float


DOCUMENTS = (
    JobsDocument,
    JobWithContainersDocument,
    WhyDocument,
    ServersDocument,
    VirtualClustersDocument,
    ListedDelaysDocument,
    EmbeddedClusterDocument,
    SettingsDocument,
    ReplayDocument,
    PreemptionDocument,
    PreviewDocument,
    CheckpointDocument,
    TopDocument,
    IdleDocument,
    MarkDocument,
    DoctorDocument,
    UsageDocument,
    CertificatesDocument,
)


def json_schema() -> str:
    """Return the JSON Schema of every document, as docs/cli-schema.json holds it."""
    _, definitions = msgspec.json.schema_components(DOCUMENTS, ref_template="#/$defs/{name}")
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": definitions}
    return f"{json.dumps(schema, indent=2)}\n"


if __name__ == "__main__":
    sys.stdout.write(json_schema())
