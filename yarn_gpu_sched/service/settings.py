"""What can be set, with meaning, range and default. How settings are found: `settings_files`."""

from pathlib import Path
from typing import Any, Literal

import pydantic
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from yarn_gpu_sched.identity import TlsFiles
from yarn_gpu_sched.service.addresses import Address, listening
from yarn_gpu_sched.service.settings_types import (
    TLS_KEYS,
    ArchiveUrl,
    HdfsPath,
    Listen,
    MaybeDirectory,
    MaybeFile,
    MaybeListen,
    ReserveAfter,
    Seconds,
)

ENVIRONMENT_PREFIX = "YGS_"


def _setting(default: Any, meaning: str, right: str, **limits: Any) -> Any:  # noqa: ANN401 - as pydantic's own
    return Field(default, description=meaning, json_schema_extra={"right": right}, **limits)


class Settings(BaseSettings):
    """Everything that can be set. docs/service.md has the same table; a test compares them."""

    model_config = SettingsConfigDict(env_prefix=ENVIRONMENT_PREFIX, extra="forbid", frozen=True, validate_default=True)

    # The files of TLS come first: whether they are there decides where it may be listened.
    tls_certificate: MaybeFile = _setting(
        "",
        "The service's certificate in PEM, of ygs://service/NAME, with the host names by which it is called; empty: no TLS.",
        "an absolute path, or empty; all three of TLS or none",
    )
    tls_key: MaybeFile = _setting("", "The key of that certificate.", "an absolute path of a PEM file, or empty")
    tls_authority: MaybeFile = _setting(
        "", "Whose certificates callers need.", "an absolute path of a PEM file with one authority or more, or empty"
    )
    tls_on_loopback: bool = _setting(
        default=False,
        meaning="Whether loopback addresses have TLS too; else whoever is on this machine may do everything there.",
        right="true or false; true only with the three files",
    )
    listen: Listen = _setting(
        "127.0.0.1:7433",
        "Where the service listens. Without TLS on loopback or a Unix socket only, where callers may do everything.",
        "host:port with a numeric host, where port 0 is chosen by the system, or unix:/absolute/path",
    )
    metrics_listen: MaybeListen = _setting(
        "",
        "Where Prometheus may read; empty: nowhere. Beyond loopback it needs a certificate of tls_authority.",
        "host:port with a numeric host, or empty",
    )
    binding_dir: MaybeDirectory = _setting(
        "",
        "Directory of binding files; empty: none are written.",
        "an absolute path of a directory that is empty or the service's own, or empty",
    )
    recorder_dir: MaybeDirectory = _setting(
        "", "Directory of recorded events; empty: nothing is recorded.", "an absolute path, or empty"
    )
    recorder_file_mb_max: int = _setting(
        64, "Size in MiB at which a new file of the record begins.", "1 to 4096", ge=1, le=4096
    )
    recorder_files_max: int = _setting(16, "Files of the record that are kept.", "2 to 10000", ge=2, le=10_000)
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "Least severe log line that is written.", "debug, info, warning or error"
    )
    audit_every_events: int = _setting(
        1_000_000,
        "Check the engine's laws once in so many events; 0: never.",
        "0 to 1000000000",
        ge=0,
        le=1_000_000_000,
    )
    outbound_mb_max: int = _setting(
        64,
        "Decisions in MiB that a resource manager may leave unread before its stream is ended.",
        "1 to 1024",
        ge=1,
        le=1024,
    )
    unanswered_max: int = _setting(
        262_144,
        "Decisions that a resource manager may leave unanswered before its stream is ended.",
        "1 to 10000000",
        ge=1,
        le=10_000_000,
    )
    watchers_max: int = _setting(64, "Callers that may watch jobs at once.", "1 to 128", ge=1, le=128)
    stop_grace_s: float = _setting(
        2.0, "Seconds that calls under way may take when the service stops.", "0 to 60", ge=0, le=60
    )
    am_share: float = _setting(
        0.10,
        "Share of the GPU servers' memory and vcores that application masters may hold.",
        "0 to 1",
        ge=0,
        le=1,
    )
    cpu_share: float = _setting(
        0.10,
        "Share of a GPU server's memory and vcores that work without GPUs may always use.",
        "0 to 1",
        ge=0,
        le=1,
    )
    backoff_min_s: float = _setting(
        0.1,
        "Seconds before a gang that the resource manager refused is tried again.",
        "0.01 to 60",
        ge=0.01,
        le=60,
    )
    backoff_max_s: float = _setting(30.0, "Most seconds between two such tries.", "0.01 to 3600", ge=0.01, le=3600)
    ended_jobs_max: int = _setting(10_000, "Ended jobs that are still shown.", "0 to 1000000", ge=0, le=1_000_000)
    cpu_servers: Literal["stock", "service"] = _setting(
        "stock",
        "Who places containers on servers without GPUs: stock placement, or the service (only for integrators: "
        "the shim knows stock alone).",
        "stock or service",
    )
    repair_hold_s: float = _setting(
        120.0,
        "Seconds that the place of a gang's lost member is held for its replacement.",
        "0 to 86400",
        ge=0,
        le=86_400,
    )
    requeue_after_s: float = _setting(
        600.0,
        "Seconds that a gang may wait for such a replacement before it starts anew as a whole.",
        "1 to 86400",
        ge=1,
        le=86_400,
    )
    gang_hold_s: float = _setting(
        60.0,
        "Seconds that GPUs are held for the gang of a master that has GPUs itself, until the gang is asked.",
        "0 to 60",
        ge=0,
        le=60,
    )
    gather_s: float = _setting(
        4.0,
        "Seconds without a change before the asks of a job without a gang tag are taken as a gang, where its queue says so.",
        "4 to 600",
        ge=4,
        le=600,
    )
    relax_after_s: Seconds = _setting(
        150.0,
        "Seconds that a gang waits at a level of locality before the next, where neither its tag nor its queue says; 0: it takes "
        "what there is at once.",
        "0, or 0.001 to 86400",
        ge=0,
        le=86_400,
    )
    relax_after_max_s: float = _setting(
        3_600.0,
        "Most such seconds that a tag may say, where its queue does not.",
        "0 to 31536000",
        ge=0,
        le=31_536_000,
    )
    preemption: Literal["off", "observe", "on"] = _setting(
        "observe",
        "Whether borrowed jobs are stopped for gangs within their quota: never; only decided, explained and counted; or really. It "
        "holds until an operator says otherwise (`ygs preemption`).",
        "off, observe or on",
    )
    preempt_threshold_percent: int = _setting(
        90,
        "Nobody is stopped while less of a partition's GPUs are in use, held or reserved, percent.",
        "90 to 100",
        ge=90,
        le=100,
    )
    preempt_after_s: float = _setting(
        120.0,
        "Seconds that a gang waits, complete, before others are stopped for it.",
        "0 to 86400",
        ge=0,
        le=86_400,
    )
    preempt_grace_s: float = _setting(
        30.0,
        "Seconds that a job is warned before it is stopped.",
        "0 to 3600",
        ge=0,
        le=3_600,
    )
    preempt_hold_s: float = _setting(
        120.0,
        "Seconds that what a stopped job leaves is held for the gang.",
        "1 to 3600",
        ge=1,
        le=3_600,
    )
    preempt_min_run_s: float = _setting(
        600.0,
        "Seconds that a job runs before it may be stopped.",
        "0 to 31536000",
        ge=0,
        le=31_536_000,
    )
    preempt_spare_after: int = _setting(3, "A job that was stopped so often is spared.", "0 to 1000", ge=0, le=1_000)
    preempt_victims_per_minute: int = _setting(
        16, "Most jobs, or single containers, that are stopped in a minute.", "1 to 10000", ge=1, le=10_000
    )
    preempt_pause_s: float = _setting(
        120.0,
        "Seconds in which nobody is stopped after a resource manager registered.",
        "0 to 86400",
        ge=0,
        le=86_400,
    )
    reserve_after_s: ReserveAfter = _setting(
        1_800.0,
        "Seconds that a gang waits, complete, before places are kept for it that later jobs cannot take; 0: never. Only policy "
        "`philly` keeps any.",
        "0, or 1 to 31536000",
        ge=0,
        le=31_536_000,
    )
    state_dir: MaybeDirectory = _setting(
        "",
        "Directory in which what operators say survives a restart: the switch of preemption, drained servers, GPUs taken out; "
        "empty: it does not.",
        "an absolute path of a directory that can be written, or empty",
    )
    audit_log: MaybeFile = _setting(
        "",
        "File of the audit log; empty: `audit.jsonl` in state_dir, and without that the ordinary log.",
        "an absolute path, or empty",
    )
    audit_file_mb_max: int = _setting(
        16, "Size in MiB at which a new file of the audit log begins.", "1 to 4096", ge=1, le=4096
    )
    audit_files_max: int = _setting(8, "Files of the audit log that are kept.", "2 to 1000", ge=2, le=1_000)
    monitor_listen: MaybeListen = _setting(
        "",
        "Where node monitors of other machines may connect, beside `listen`; empty: nowhere. It takes nothing but what "
        "monitors tell of their own servers. Beyond loopback it has TLS.",
        "host:port with a numeric host, or empty",
    )
    local_monitors: bool = _setting(
        default=False,
        meaning="Whether a monitor that calls over loopback may speak for any server: for a cluster of local processes only.",
        right="true or false",
    )
    monitor_silent_after_s: float = _setting(
        30.0,
        "Seconds without a word of a server's monitor after which nothing new is placed there.",
        "1 to 86400",
        ge=1,
        le=86_400,
    )
    gpu_suspect_after_readings: int = _setting(
        3, "Bad readings in a row after which a GPU is suspect and not given out.", "1 to 1000", ge=1, le=1_000
    )
    gpu_ok_after_s: float = _setting(
        60.0,
        "Seconds for which a GPU, or a server's telemetry, reads well before it counts as well again.",
        "0 to 86400",
        ge=0,
        le=86_400,
    )
    gpu_quarantine_after_s: float = _setting(
        60.0, "Seconds for which a suspect GPU reads badly before it is quarantined.", "1 to 86400", ge=1, le=86_400
    )
    gpu_zombie_alarm_s: float = _setting(
        60.0,
        "Seconds for which somebody may hold a GPU that was given back before it counts as faulty.",
        "1 to 86400",
        ge=1,
        le=86_400,
    )
    gpu_free_memory_mb_max: int = _setting(
        512,
        "Memory in MiB that may be in use on a GPU without processes that counts as free.",
        "0 to 1048576",
        ge=0,
        le=1 << 20,
    )
    idle_below_percent: int = _setting(
        5, "Percent of the time below which a GPU counts as not used.", "1 to 100", ge=1, le=100
    )
    idle_after_s: float = _setting(
        1_800.0, "Seconds without use after which a GPU counts as idle.", "1 to 2592000", ge=1, le=2_592_000
    )
    idle_jobs: Literal["show", "warn", "preempt"] = _setting(
        "show",
        "What follows for a job all of whose GPUs are idle: it is shown, the log warns of it too, or it counts as borrowed "
        "as well and may be stopped for others, though its queue is within its quota.",
        "show, warn or preempt",
    )
    policy: Literal["philly", "fifo", "fifo_strict", "sjf"] = _setting(
        "philly",
        "Who goes next: virtual clusters by what they use of their quotas (`philly`), whoever was submitted first, where "
        "later ones may pass a blocked one (`fifo`) or not (`fifo_strict`), or whoever declares the shortest run time (`sjf`). "
        "Quotas and limits of queues hold with `philly` alone; policies that preempt by rules of their own are for replay.",
        "philly, fifo, fifo_strict or sjf",
    )

    archive_url: ArchiveUrl = _setting(
        "",
        "WebHDFS address of the NameNode, where what ran is archived below `archive_path`; empty: nowhere.",
        "http://host:port or https://host:port, without a path, or empty",
    )
    archive_path: HdfsPath = _setting(
        "/yarn-gpu-sched/archive",
        "Folder in HDFS of this cluster's archive; no other cluster may use the same.",
        "an absolute path in HDFS, without the root itself",
    )
    archive_user: str = _setting(
        "",
        "HDFS user of the archive; empty: the login name.",
        "a user name, or empty",
        pattern=r"^[A-Za-z0-9._@-]{0,128}$",
    )
    archive_spool_dir: MaybeDirectory = _setting(
        "",
        "Directory in which rows wait for the archive; empty: `archive` below `state_dir`.",
        "an absolute path of a directory that can be written, or empty",
    )
    archive_spool_mb_max: int = _setting(
        1_024,
        "Most MiB of these; then the oldest go, telemetry first, and are counted.",
        "16 to 1048576",
        ge=16,
        le=1 << 20,
    )
    archive_retention_days: int = _setting(90, "Days for which the archive keeps files.", "1 to 36500", ge=1, le=36_500)

    @pydantic.model_validator(mode="after")
    def _check_archive(self) -> "Settings":
        if self.archive_url and not (self.archive_spool_dir or self.state_dir):
            raise ValueError("archive_url needs archive_spool_dir, or state_dir: rows wait on the local disk")
        return self

    @pydantic.model_validator(mode="after")
    def _check(self) -> "Settings":
        if self.backoff_max_s < self.backoff_min_s:
            raise ValueError("backoff_max_s must be at least backoff_min_s")
        missing = [key for key in TLS_KEYS if not getattr(self, key)]
        if 0 < len(missing) < len(TLS_KEYS):
            given = next(key for key in TLS_KEYS if key not in missing)
            raise ValueError(f"{given} must come with {' and '.join(missing)}: of the three all or none")
        if self.tls_on_loopback and missing:
            raise ValueError(f"tls_on_loopback must be false without {', '.join(TLS_KEYS)}")
        return self

    @property
    def tls_files(self) -> TlsFiles | None:
        """What TLS needs, if there is any."""
        return TlsFiles(*(Path(getattr(self, key)) for key in TLS_KEYS)) if self.tls_certificate else None

    def has_tls(self, address: Address) -> bool:
        """Whether TLS is spoken at an address."""
        return not address.unix and (not address.loopback or self.tls_on_loopback)

    @property
    def address(self) -> Address:
        """Where to listen."""
        return listening(self.listen, tls=bool(self.tls_files), unix=True)

    @property
    def monitor_address(self) -> Address | None:
        """Where monitors of other machines may connect."""
        return listening(self.monitor_listen, tls=bool(self.tls_files)) if self.monitor_listen else None

    @property
    def metrics_address(self) -> Address | None:
        """Where Prometheus may read."""
        return listening(self.metrics_listen, tls=bool(self.tls_files)) if self.metrics_listen else None
