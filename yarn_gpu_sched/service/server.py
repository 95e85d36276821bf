"""The service, put together: one engine, its driver, and everything that listens."""

import asyncio
import contextlib
from pathlib import Path

import structlog
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from yarn_gpu_sched.archive import ArchiveError, MissingExtraError
from yarn_gpu_sched.binding.binding_files import BindingFiles
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.exporter import Exporter
from yarn_gpu_sched.journal import Recorder
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.protocol.v1 import cluster_pb2, gpu_pb2, jobs_pb2, link_pb2, monitor_pb2, preemption_pb2
from yarn_gpu_sched.service.addresses import Address
from yarn_gpu_sched.service.archive import Archiving, Around, SpoolInUseError, archiving_of
from yarn_gpu_sched.service.bindings import Bindings
from yarn_gpu_sched.service.clock import Clock, LoopClock
from yarn_gpu_sched.service.cluster import Cluster
from yarn_gpu_sched.service.driver import Driver
from yarn_gpu_sched.service.explaining import Explaining
from yarn_gpu_sched.service.gauges import Gauges
from yarn_gpu_sched.service.handlers import Methods, service_handler
from yarn_gpu_sched.service.jobs import Jobs
from yarn_gpu_sched.service.link import Link
from yarn_gpu_sched.service.listening import CannotStart, Listening
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.monitors.fleet import Fleet, Limits
from yarn_gpu_sched.service.monitors.gpus import Gpus
from yarn_gpu_sched.service.monitors.health_file import HealthFile, HealthKeeper
from yarn_gpu_sched.service.monitors.idle_watch import IdleJobs, IdleWatch
from yarn_gpu_sched.service.monitors.link import MONITORS_MAX, MonitorLink
from yarn_gpu_sched.service.monitors.speakers import Speakers
from yarn_gpu_sched.service.outlets import Outlets
from yarn_gpu_sched.service.preempting import Preempting
from yarn_gpu_sched.service.preemption_switch import PreemptionSwitch
from yarn_gpu_sched.service.preemption_watch import PreemptionWatch
from yarn_gpu_sched.service.recording import Recording
from yarn_gpu_sched.service.reservation_watch import ReservationWatch
from yarn_gpu_sched.service.session import SessionLimits
from yarn_gpu_sched.service.settings import Settings
from yarn_gpu_sched.service.switch_file import SwitchFile, UnfitStateDirectory
from yarn_gpu_sched.service.walk import Walk
from yarn_gpu_sched.service.watch import Watchers

CALLS_MAX = 256 + MONITORS_MAX
_FLUSH_S = 2.0

_log = structlog.get_logger(__name__)

_SERVICES = tuple(
    file.services_by_name[name]
    for file, name in (
        (link_pb2.DESCRIPTOR, "ResourceManagerLinkService"),
        (jobs_pb2.DESCRIPTOR, "JobsService"),
        (cluster_pb2.DESCRIPTOR, "ClusterService"),
        (preemption_pb2.DESCRIPTOR, "PreemptionService"),
        (gpu_pb2.DESCRIPTOR, "GpuService"),
        (monitor_pb2.DESCRIPTOR, "MonitorService"),
    )
)
_MONITORS = _SERVICES[-1]


class Service:
    """One scheduling service. `start`, then `stop`; `port` is where it listens."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        """Take directories and build the parts; call it on a running event loop."""
        self.settings = settings
        self.clock = clock or LoopClock()
        self.metrics = Metrics()
        self.engine = Engine(_engine_settings(settings))
        self.port = 0
        self._files = BindingFiles(Path(settings.binding_dir)) if settings.binding_dir else None
        self.bindings = Bindings(self._files, self.clock, self.metrics) if self._files else None
        self.recording = _recording(settings, self.engine, self.clock, self.metrics)
        self.watchers = Watchers(self.engine, self.clock, settings.watchers_max)
        self._preemption_watch = PreemptionWatch(self.engine, self.clock, self.metrics)
        self._reservation_watch = ReservationWatch(self.engine, self.clock, self.metrics)
        self.fleet = Fleet(self.engine, self.clock, self.metrics, _limits(settings))
        self._idle_watch = IdleWatch(self.engine, self.clock, self.metrics, self.fleet, IdleJobs(settings.idle_jobs))
        self._health_keeper = HealthKeeper(self.engine, self.clock, _health_file(settings))
        outlets = Outlets(
            self.metrics,
            self.watchers,
            self.bindings,
            self.recording,
            self._preemption_watch,
            self.fleet,
            self._health_keeper.changed,
        )
        self.archiving = outlets.archiving = self._archiving()
        self.driver = Driver(self.engine, self.clock, outlets, settings.audit_every_events)
        self.preemption_switch = PreemptionSwitch(self.driver, Mode(settings.preemption), _switch_file(settings))
        self.explaining = Explaining(self.driver, self.clock)
        self._gauges = Gauges(self.metrics, self.clock, self.driver, self.watchers, self.bindings, self.fleet)
        self._walk = Walk(self.engine, self.clock, self._gauges, self.explaining)
        self._health = health.aio.HealthServicer()
        speakers = Speakers(self.clock, any_local=settings.local_monitors)
        self._monitors = MonitorLink(self.engine, self.clock, self.metrics, self.fleet, speakers)
        self._listening = Listening(settings, self.clock, self.metrics)
        self._server = self._build()
        self._monitor_server = self._build_for_monitors() if settings.monitor_listen else None
        self.monitor_port = 0
        self._exporter: Exporter | None = None
        self._driving: asyncio.Task[None] | None = None
        self._stopped = False

    def _archiving(self) -> Archiving | None:
        try:
            return archiving_of(self.settings, Around(self.engine, self.clock, self.metrics, self.fleet))
        except (ArchiveError, MissingExtraError, SpoolInUseError) as error:
            raise CannotStart(f"archive_url: {error}") from error

    def _build(self) -> aio.Server:
        server = self._listening.server(CALLS_MAX)
        limits = SessionLimits(self.settings.outbound_mb_max << 20, self.settings.unanswered_max)
        link = Link(self.driver, self.clock, limits)
        jobs = Jobs(self.engine, self.clock)
        cluster = Cluster(self.driver, self.clock)
        preempting = Preempting(self.driver, self.clock, self.preemption_switch)
        gpus = Gpus(self.driver, self.clock, self.fleet, self._health_keeper, self._idle_watch)
        methods: tuple[Methods, ...] = (
            {"Connect": link.connect},
            {
                "ListJobs": jobs.list_jobs,
                "GetJob": jobs.get_job,
                "GetWaitingReason": jobs.get_waiting_reason,
                "ListDelays": jobs.list_delays,
                "WatchJobs": self.watchers.watch,
            },
            {
                "GetCluster": cluster.get_cluster,
                "ListServers": cluster.list_servers,
                "ListVirtualClusters": cluster.list_virtual_clusters,
            },
            {
                "GetPreemption": preempting.get_preemption,
                "SetPreemptionMode": preempting.set_preemption_mode,
                "PreviewPreemption": preempting.preview_preemption,
                "ReportCheckpoint": preempting.report_checkpoint,
            },
            {"ListGpus": gpus.list_gpus, "ListIdle": gpus.list_idle, "Mark": gpus.mark},
            {"Report": self._monitors.report},
        )
        server.add_generic_rpc_handlers(tuple(map(service_handler, _SERVICES, methods)))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = [service.full_name for service in _SERVICES]
        reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
        return server

    def _build_for_monitors(self) -> aio.Server:
        """Make a server that knows nothing but what monitors tell."""
        server = self._listening.server(MONITORS_MAX)
        server.add_generic_rpc_handlers((service_handler(_MONITORS, {"Report": self._monitors.report}),))
        return server

    async def start(self) -> None:
        """Listen. Raises `CannotStart`."""
        self.port = self._listening.open(self._server, self.settings.address, "listen")
        if self._monitor_server is not None and self.settings.monitor_address is not None:
            address = self.settings.monitor_address
            self.monitor_port = self._listening.open(self._monitor_server, address, "monitor_listen")
        self._export()
        self._listening.start()
        self._walk.start()
        self._driving = asyncio.create_task(self.driver.run())
        await self.preemption_switch.restore()
        await self._health_keeper.restore(self.driver.tell)
        self.fleet.start(self.driver.tell)
        self._idle_watch.start(self.driver.tell)
        self._preemption_watch.start()
        self._reservation_watch.start()
        if self.archiving is not None:
            self.archiving.start()
        if self.bindings is not None:
            self.bindings.checkpoints.start(self.driver.tell)
        await self._server.start()
        if self._monitor_server is not None:
            await self._monitor_server.start()
            _log.info("monitors_listening", port=self.monitor_port)
        for name in ("", *(service.full_name for service in _SERVICES)):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        _log.info("listening", address=str(Address(self.settings.address.host, self.port)), tls=self.tls)

    def _export(self) -> None:
        address = self.settings.metrics_address
        if address is None:
            return
        self._exporter = self._listening.export(address)
        self._gauges.start()
        _log.info("metrics_listening", address=str(Address(address.host, self._exporter.port)))

    @property
    def tls(self) -> bool:
        """Whether it listens with TLS."""
        return self.settings.has_tls(self.settings.address)

    async def wait_failed(self) -> None:
        """Return only when the driver is gone, which it never should be."""
        assert self._driving is not None
        await asyncio.wait({self._driving})

    async def stop(self) -> None:
        """Stop gracefully: calls end, what was decided is bound and recorded. Twice is once."""
        if self._stopped:
            return
        self._stopped = True
        await self._health.enter_graceful_shutdown()
        self.driver.close()
        self.watchers.close()
        for server in filter(None, (self._monitor_server, self._server)):
            await server.stop(self.settings.stop_grace_s)
        self.fleet.stop()
        self._idle_watch.stop()
        await self._stop_driver()
        self._gauges.stop()
        self._walk.stop()
        self._preemption_watch.stop()
        self._reservation_watch.stop()
        if self.archiving is not None:
            await self.archiving.stop()
        if self.bindings is not None:
            await self.bindings.flush(_FLUSH_S)
            await self.bindings.close()
        if self._files is not None:
            self._files.close()
        if self.recording is not None:
            self.recording.close()
        if self._exporter is not None:
            self._exporter.close()
        self.preemption_switch.close()
        await self._health_keeper.close()
        self._listening.close()
        _log.info("stopped")

    async def _stop_driver(self) -> None:
        if self._driving is None:
            return
        if not self._driving.done():
            await self.driver.settle()
        self._driving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._driving


def _engine_settings(settings: Settings) -> EngineSettings:
    return EngineSettings(
        am_share=settings.am_share,
        cpu_share=settings.cpu_share,
        backoff_min_s=settings.backoff_min_s,
        backoff_max_s=settings.backoff_max_s,
        ended_jobs_max=settings.ended_jobs_max,
        place_on_cpu_servers=settings.cpu_servers == "service",
        repair_hold_s=settings.repair_hold_s,
        requeue_after_s=settings.requeue_after_s,
        gang_hold_s=settings.gang_hold_s,
        gather_s=settings.gather_s,
        relax_after_s=settings.relax_after_s,
        relax_after_max_s=settings.relax_after_max_s,
        preemption=Mode(settings.preemption),
        preempt_threshold_percent=settings.preempt_threshold_percent,
        preempt_after_s=settings.preempt_after_s,
        preempt_grace_s=settings.preempt_grace_s,
        preempt_hold_s=settings.preempt_hold_s,
        preempt_min_run_s=settings.preempt_min_run_s,
        preempt_spare_after=settings.preempt_spare_after,
        preempt_victims_per_minute=settings.preempt_victims_per_minute,
        preempt_pause_s=settings.preempt_pause_s,
        reserve_after_s=settings.reserve_after_s,
        suspect_after_readings=settings.gpu_suspect_after_readings,
        ok_after_s=settings.gpu_ok_after_s,
        quarantine_after_s=settings.gpu_quarantine_after_s,
        zombie_alarm_s=settings.gpu_zombie_alarm_s,
        policy=settings.policy,
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        free_memory_mb_max=settings.gpu_free_memory_mb_max,
        idle_below_percent=settings.idle_below_percent,
        idle_after_s=settings.idle_after_s,
        silent_after_s=settings.monitor_silent_after_s,
        bad_readings=settings.gpu_suspect_after_readings,
    )


def _health_file(settings: Settings) -> HealthFile | None:
    try:
        return HealthFile(Path(settings.state_dir)) if settings.state_dir else None
    except UnfitStateDirectory as error:
        raise CannotStart(str(error)) from error


def _switch_file(settings: Settings) -> SwitchFile | None:
    try:
        return SwitchFile(Path(settings.state_dir)) if settings.state_dir else None
    except UnfitStateDirectory as error:
        raise CannotStart(str(error)) from error


def _recording(settings: Settings, engine: Engine, clock: Clock, metrics: Metrics) -> Recording | None:
    if not settings.recorder_dir:
        return None

    def make() -> Recorder:
        return Recorder(
            Path(settings.recorder_dir),
            engine,
            file_bytes_max=settings.recorder_file_mb_max << 20,
            files_max=settings.recorder_files_max,
        )

    try:
        return Recording(make, clock, metrics)
    except OSError as error:
        raise CannotStart(f"recorder_dir: {settings.recorder_dir} cannot be used: {error}") from error
