"""The monitor of one server: looks at it again and again, tells the service what changed, and does what the service orders."""

from __future__ import annotations

import asyncio
import importlib.metadata
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import structlog

from yarn_gpu_sched.monitor import messages
from yarn_gpu_sched.monitor.assigned import NodeManagerWatch
from yarn_gpu_sched.monitor.bindings import Bindings, Rules
from yarn_gpu_sched.monitor.certificate import CertificateWatch
from yarn_gpu_sched.monitor.checkpoints import LOOK_S, Checkpoints
from yarn_gpu_sched.monitor.delta import Delta, Look
from yarn_gpu_sched.monitor.metrics import GpuShown, Shown
from yarn_gpu_sched.monitor.prechecks import strays
from yarn_gpu_sched.monitor.ring import Event, Ring
from yarn_gpu_sched.monitor.slots import Slots
from yarn_gpu_sched.monitor.strays import Strays
from yarn_gpu_sched.monitor.stream import PROTOCOL_VERSION, Stream
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from yarn_gpu_sched.monitor.clock import Clock
    from yarn_gpu_sched.monitor.reading import GpusReading, HostReading
    from yarn_gpu_sched.monitor.settings import Settings

BAD_FIELDS_KEPT_MAX = 1_024
NODE_MANAGER_SOON_S = 0.2
"""Seconds between two questions to the NodeManager while a container's file waits for the answer."""
HOST_WAIT_S = 1.0
"""Seconds that a look waits for the server's part; one that takes longer is told later."""

_log = structlog.get_logger(__name__)


class GpuReader(Protocol):
    """Whoever looks at the GPUs without ever hanging: the child process."""

    async def read(self) -> GpusReading:
        """Look once; what goes wrong is said in the reading."""


class HostReader(Protocol):
    """Whoever looks at the server beside its GPUs; may block."""

    def read(self) -> HostReading:
        """Look once."""


class Agent:
    """Everything of one monitor, driven by one clock."""

    def __init__(self, settings: Settings, gpus: GpuReader, host: HostReader | None, clock: Clock) -> None:
        """Take the directories. Raises OSError and `binding.UnfitDirectory`."""
        self.settings = settings
        self.slots = Slots(_directory(settings.state_dir), settings.excluded)
        self.ring = Ring(settings.ring_max)
        self.delta = Delta(self.ring, self.slots, settings.free_memory_mb_max, clock.now_s())
        rules = Rules(settings.binding_names, settings.free_memory_mb_max)
        self.bindings = Bindings(_directory(settings.binding_dir), self.slots, rules, self.fresh, self._refused)
        tell = (self.hello, self.delta.renew, self._carry_out)
        self.stream = Stream(settings.service, self.ring, clock, *tell, tls=settings.tls_files)
        self.certificate = CertificateWatch(settings.tls_files) if settings.tls_files else None
        self.strays = Strays()
        self.node_manager = NodeManagerWatch(settings.node_manager, self.slots) if settings.node_manager else None
        self.shown = Shown(settings.host_name)
        self._gpus = gpus
        self._host = host
        self._clock = clock
        self._look_now = asyncio.Event()
        self._tell_next = False
        self._waiting: list[asyncio.Future[Look]] = []
        self._reads = 0
        self._failed_reads: Counter[str] = Counter()
        self._bad_fields: Counter[tuple[int, str]] = Counter()
        self._xids: dict[str, int] = {}
        self._strays_seen = 0
        self._failure = ""
        # One thread each: a file system that hangs stops what it serves, and nothing else.
        self._host_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="host")
        self._file_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="files")
        self._stray_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="strays")
        self._host_reading: asyncio.Future[HostReading] | None = None
        self._ending: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Look, tell and obey until cancelled. An error of any part ends all."""
        # What is told first is whole: until then nobody could say which cards there are.
        await self.look()
        parts: list[Coroutine[None, None, None]] = [self._look_often(), self._push_often(), self.stream.run()]
        if self.bindings.files is not None:
            parts.append(self._watch_files(Checkpoints(self.bindings.files.checkpoints)))
        if self.node_manager is not None:
            await self._ask_node_manager(self.node_manager)
            parts.append(self._watch_node_manager(self.node_manager))
        if self.certificate is not None:
            parts.append(self.certificate.run(self._clock))
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part)

    def close(self) -> None:
        """Let go of directories and threads."""
        if self.node_manager is not None:
            self.node_manager.close()
        self._host_thread.shutdown(wait=False, cancel_futures=True)
        self._file_thread.shutdown(wait=False, cancel_futures=True)
        self._stray_thread.shutdown(wait=False, cancel_futures=True)
        self.bindings.close()

    def hello(self) -> pb.Hello:
        """Say who speaks."""
        return pb.Hello(
            protocol_version=PROTOCOL_VERSION,
            host=self.settings.host_name,
            agent=f"ygs monitor {importlib.metadata.version('yarn-gpu-sched')}",
            cards=messages.cards(self.slots.cards, self.slots.now, self.slots.slot),
            simulated=bool(self.settings.simulate),
            push_every_s=self.settings.push_every_s,
        )

    async def fresh(self) -> Look:
        """Wait for a look at the server that begins after this was called."""
        future: asyncio.Future[Look] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._look_now.set()
        return await future

    async def _look_often(self) -> None:
        while True:
            began_s = self._clock.now_s()
            self._look_now.clear()
            await self.look()
            await self._clock.wait(self.settings.read_every_s - (self._clock.now_s() - began_s), self._look_now)

    async def look(self) -> Look:
        """Look at the server once, and take what is new."""
        waiting, self._waiting = self._waiting, []
        tell, self._tell_next = self._tell_next, False
        seen = self.stream.carried_out
        began_s = self._clock.now_s()
        gpus = await self._gpus.read()
        look = Look(began_s, gpus, await self._read_host())
        renumbered = self._place(gpus)
        urgent = self.delta.see(look)
        self.stream.seen = seen
        self._count(look)
        self._see_strays(look)
        if urgent or tell:
            self.ring.send()
        self.shown = self._show()
        for future in waiting:
            if not future.done():
                future.set_result(look)
        if renumbered:
            await self.bindings.renumber()
        return look

    def _place(self, gpus: GpusReading) -> bool:
        """Give cards their slots; tells whether any card has another place than before."""
        if gpus.gpus is None:
            return False
        before = {slot: gpu.index for slot, gpu in self.slots.now.items()}
        self.slots.place(gpus.gpus)
        return bool(before) and before != {slot: gpu.index for slot, gpu in self.slots.now.items()}

    async def _read_host(self) -> HostReading | None:
        """Look at the server, unless the look before hangs."""
        if self._host is None:
            return None
        wait_s = 0.0
        if self._host_reading is None:
            loop = asyncio.get_running_loop()
            self._host_reading = loop.run_in_executor(self._host_thread, self._host.read)
            wait_s = HOST_WAIT_S
        done, _ = await asyncio.wait({self._host_reading}, timeout=wait_s)
        if not done:
            return None
        reading, self._host_reading = self._host_reading, None
        return reading.result()

    def _count(self, look: Look) -> None:
        self._reads += 1
        failure = look.gpus.failure if look.gpus.gpus is None else None
        if failure is not None:
            self._failed_reads[failure.kind.value] += 1
        self._say_failure(f"{failure.kind.value}: {failure.detail}" if failure is not None else "")
        if look.gpus.gpus is not None:
            for slot, gpu in self.slots.now.items():
                for field in gpu.bad_fields:
                    if (slot, field) in self._bad_fields or len(self._bad_fields) < BAD_FIELDS_KEPT_MAX:
                        self._bad_fields[slot, field] += 1
        for xid in look.gpus.xids:
            if self.slots.slot(xid.uuid) is not None:
                self._xids[xid.uuid] = xid.xid
            _log.warning("xid", uuid=xid.uuid, xid=xid.xid)

    def _say_failure(self, failure: str) -> None:
        if failure and failure != self._failure:
            _log.error("gpus_unreadable", error=failure)
        elif self._failure and not failure:
            _log.info("gpus_readable")
        self._failure = failure

    def _see_strays(self, look: Look) -> None:
        """Count them; where they are ended, nobody waits for that: what `/proc` says of one that the driver holds may hang."""
        if look.gpus.gpus is None or not self.bindings.told:
            return
        found = list(strays(self.slots.now, self.bindings.held))
        self._strays_seen = len(found)
        if not self.settings.end_strays or (self._ending is not None and not self._ending.done()):
            return
        if self._ending is not None:
            self._ending.result()  # an error of any part ends all
        if self.slots.given_anew:
            found = [each for each in found if each.process.container_id not in self.bindings.wanted]
        self._ending = asyncio.get_running_loop().run_in_executor(self._stray_thread, self.strays.see, found)

    async def _push_often(self) -> None:
        while True:
            await self._clock.wait(self.settings.push_every_s)
            self.ring.send()

    async def _watch_files(self, checkpoints: Checkpoints) -> None:
        """Try again what could not be written, and look which containers wrote checkpoints."""
        loop = asyncio.get_running_loop()
        while True:
            await self._clock.wait(LOOK_S)
            await self.bindings.retry()
            names = checkpoints.next_names(self.bindings.wanted)
            touched_ns = await loop.run_in_executor(self._file_thread, checkpoints.look, names)
            for container_id in checkpoints.news(touched_ns):
                self.ring.put_event(Event(self._clock.now_s(), container_id))
                self.ring.send()

    async def _watch_node_manager(self, node_manager: NodeManagerWatch) -> None:
        while True:
            waits = self.bindings.waits_for_node_manager
            await self._clock.wait(NODE_MANAGER_SOON_S if waits else self.settings.push_every_s)
            await self._ask_node_manager(node_manager)

    async def _ask_node_manager(self, node_manager: NodeManagerWatch) -> None:
        await node_manager.ask()
        if self.delta.see_assigned(node_manager.assigned):
            self.ring.send()
        await self.bindings.follow(node_manager.assigned)

    def _refused(self, refusal: pb.BindingRefusal) -> None:
        self.ring.put_event(Event(self._clock.now_s(), refusal))
        self.ring.send()

    async def _carry_out(self, order: pb.ReportResponse) -> None:
        await self.bindings.carry_out(order)
        if order.gone_container_ids or order.all:
            self._tell_next = True
            self._look_now.set()  # so that the service soon hears of a reading that began after this

    def _show(self) -> Shown:
        holders = {slot: each for each in self.bindings.wanted.values() for slot in each.slots}
        gpus = []
        for slot, gpu in self.slots.now.items() if not self._failure else ():
            holder = holders.get(slot, pb.Binding())
            gpus.append(
                GpuShown(
                    slot, gpu, holder.job_id, holder.container_id, holder.virtual_cluster, self._xids.get(gpu.uuid)
                )
            )
        return Shown(
            self.settings.host_name,
            tuple(gpus),
            counts={
                "ygs_monitor_reads": self._reads,
                "ygs_monitor_pushes": self.stream.pushes_total,
                "ygs_monitor_streams": self.stream.streams_total,
                "ygs_monitor_dropped": self.ring.dropped_total,
                "ygs_monitor_binding_failures": self.bindings.failures_total,
                "ygs_monitor_binding_refusals": self.bindings.refusals_total,
                "ygs_monitor_strays_ended": self.strays.ended_total,
            },
            levels={
                "ygs_monitor_connected": self.stream.connected,
                "ygs_monitor_waiting": len(self.ring),
                "ygs_monitor_bindings": len(self.bindings.wanted),
                "ygs_monitor_cards_vanished": len(self.slots.vanished),
                "ygs_monitor_strays": self._strays_seen,
                "ygs_monitor_read_age_seconds": self._clock.now_s() - (self.ring.read_s or 0.0),
            },
            certificate_expires_s=self.certificate.expires_s if self.certificate else None,
            bad_fields=dict(self._bad_fields),
            failed_reads=dict(self._failed_reads),
        )


def _directory(text: str) -> Path | None:
    return Path(text) if text else None
