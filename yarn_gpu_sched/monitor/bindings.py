"""Carries out what the service orders: a binding file for each container, which says its GPUs or why it must not start.

Before a container gets its file its GPUs are looked at, twice if the first look finds them not free; see `prechecks`. A container
that has a file already is never looked at again: it may be running. Files stay when the monitor or the service is killed; those of
containers that the service does not name go when it says that it has named all. The slots of the protocol become names that CUDA
knows only here: UUIDs, or the places of nvidia-smi at that moment. Where the NodeManager assigns GPUs itself, they are what counts,
and a container's file waits for them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec
import structlog

from yarn_gpu_sched import binding
from yarn_gpu_sched.binding import BindingFiles, is_file_name
from yarn_gpu_sched.binding.binding import LETTERS_MAX, VALUE_LETTERS_MAX
from yarn_gpu_sched.monitor.assigned import Assigned
from yarn_gpu_sched.monitor.messages import text
from yarn_gpu_sched.monitor.prechecks import NotFree, not_free
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yarn_gpu_sched.monitor.delta import Look
    from yarn_gpu_sched.monitor.slots import Slots

CONTAINERS_MAX = 8_192
LOOKS = 2

T = TypeVar("T")
Fresh = Callable[[], Awaitable["Look"]]
"""Makes a look at the server that begins now."""

_log = structlog.get_logger(__name__)


class Unnamed(ValueError):  # noqa: N818 - a name that says what is wrong
    """A slot has no card that a container could be told."""


class Rules(msgspec.Struct, frozen=True):
    """How GPUs are named, and how much memory may be in use on one that counts as free."""

    names: Literal["uuid", "index"]
    free_memory_mb_max: int


class Bindings:
    """Keeps binding files as the service orders. ``held`` are the slots of each container that it named."""

    def __init__(
        self,
        directory: Path | None,
        slots: Slots,
        rules: Rules,
        fresh: Fresh,
        refused: Callable[[pb.BindingRefusal], None],
    ) -> None:
        """Take the directory, None: no files are written. Raises `binding.UnfitDirectory`."""
        self.wanted: dict[str, pb.Binding] = {}
        self.told = False
        """The service has once said which containers there are, all of them."""
        self.failures_total = 0
        self.refusals_total = 0
        self.files = BindingFiles(directory) if directory is not None else None
        self._directory = directory
        self._slots = slots
        self._rules = rules
        self._fresh = fresh
        self._refused = refused
        self._complete = False
        """The present stream has listed all containers."""
        self._unwritten: dict[str, str | None] = {}
        self._refusals: dict[str, NotFree] = {}
        self._assigned: Assigned | None = None
        self._awaited: dict[str, None] = {}
        self._looked_at: set[str] = set()
        self._writing = asyncio.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bindings")

    def close(self) -> None:
        """Write no more; the files stay, as the containers do."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self.files is not None:
            self.files.close()

    @property
    def waits_for_node_manager(self) -> bool:
        """Whether a container's file waits until the NodeManager has assigned its GPUs."""
        return bool(self._awaited)

    @property
    def held(self) -> dict[str, frozenset[int]]:
        """The slots of each container of this server."""
        return {name: frozenset((self._true(wanted) or wanted).slots) for name, wanted in self.wanted.items()}

    @property
    def _let_start(self) -> list[str]:
        """Containers whose files name their GPUs: whoever is still being looked at must not be told."""
        others = self._awaited.keys() | self._refusals.keys() | self._looked_at
        return [name for name in self.wanted if name not in others]

    async def carry_out(self, order: pb.ReportResponse) -> None:
        """Do what is ordered: forget who is gone, tell who may start at once, look before the others start."""
        named = {each.container_id: each for each in order.bindings if self._fit(each.container_id)}
        gone = set(order.gone_container_ids)
        if order.all:
            gone |= self.wanted.keys() - named.keys()
        for container_id in gone:
            self.wanted.pop(container_id, None)
            self._refusals.pop(container_id, None)
            self._awaited.pop(container_id, None)
        self._want(named)
        restored = order.all or not self._complete or order.sequence == 1
        self._complete = order.all or (self._complete and order.sequence > 1)
        self.told |= order.all
        if self.files is not None:
            known = await self._in_thread(self._known, list(named), order.all)
            changes: dict[str, str | None] = dict.fromkeys(known.others)
            changes |= dict.fromkeys(name for name in gone if is_file_name(name))
            new = self._sort(known, named, changes)
            await self._change(changes)
            await self._check(new, restored=restored)

    def _want(self, named: dict[str, pb.Binding]) -> None:
        for name in list(named):
            if name not in self.wanted and len(self.wanted) >= CONTAINERS_MAX:
                self.failures_total += 1
                _log.error("too_many_containers", container_id=name, containers_max=CONTAINERS_MAX)
                del named[name]
            else:
                self.wanted[name] = named[name]

    def _sort(self, known: _Known, named: Mapping[str, pb.Binding], changes: dict[str, str | None]) -> list[pb.Binding]:
        """Return those that are to be looked at before they start, and write of the others what they are to be told."""
        new = []
        for name, each in named.items():
            if name in known.refused:
                if name not in self._refusals:  # by a monitor before this one: it may not have told
                    self._tell(name, NotFree(tuple(each.slots), known.refused[name]))
            elif name in known.bound:
                self._render_again(self._true(each) or each, changes)
            elif not each.slots:
                self._render(each, changes)
            elif (true := self._true(each)) is None:
                self._awaited[name] = None
            else:
                new.append(true)
        return new

    def _true(self, each: pb.Binding) -> pb.Binding | None:
        """Return a binding with the GPUs that the NodeManager assigned, where it does so; None: it has not yet."""
        if self._assigned is None or not each.slots:
            return each
        slots = self._assigned.get(each.container_id)
        if slots is None:
            return None
        true = pb.Binding()
        true.CopyFrom(each)
        true.slots[:] = slots
        return true

    async def follow(self, assigned: Assigned | None) -> None:
        """Take what the NodeManager assigned itself, None: nothing. Containers are told that; who waited for it may start."""
        if assigned == self._assigned:
            return
        self._assigned = assigned
        changes: dict[str, str | None] = {}
        for name in self._let_start:
            if (true := self._true(self.wanted[name])) is not None:
                self._render_again(true, changes)
        await self._change(changes)
        ready = [true for name in self._awaited if (true := self._true(self.wanted[name])) is not None]
        for each in ready:
            del self._awaited[each.container_id]
        await self._check(ready, restored=False)

    async def _check(self, new: Sequence[pb.Binding], *, restored: bool) -> None:
        """Let those start whose GPUs are free, at the last look the others not."""
        names = {each.container_id for each in new}
        self._looked_at |= names
        try:
            await self._look_twice(new, restored=restored)
        finally:
            self._looked_at -= names

    async def _look_twice(self, new: Sequence[pb.Binding], *, restored: bool) -> None:
        for look_number in range(1, LOOKS + 1):
            if not new:
                return
            look = await self._fresh()
            changes: dict[str, str | None] = {}
            waiting: list[pb.Binding] = []
            for each in new:
                if each.container_id not in self.wanted:
                    continue  # it went meanwhile
                found = self._not_free(each, look, restored=restored)
                if found is None:
                    self._render(each, changes)
                elif look_number < LOOKS:
                    waiting.append(each)
                else:
                    self._refuse(each.container_id, found, changes)
            self._looked_at -= changes.keys()
            await self._change(changes)
            new = waiting

    def _not_free(self, each: pb.Binding, look: Look, *, restored: bool) -> NotFree | None:
        now = self._slots.now
        if look.gpus.gpus is None:
            return None  # nobody can tell, and the service knows that
        if restored and any(slot in now and now[slot].processes is None for slot in each.slots):
            return None  # it may be running already: the memory in use may be its own
        return not_free(each.container_id, each.slots, now, self._rules.free_memory_mb_max)

    def _render(self, each: pb.Binding, changes: dict[str, str | None]) -> None:
        try:
            changes[each.container_id] = self._rendered(each)
        except (Unnamed, binding.UnfitBinding) as error:
            self._refuse(each.container_id, NotFree(tuple(each.slots), str(error)), changes)

    def _render_again(self, each: pb.Binding, changes: dict[str, str | None]) -> None:
        """Write anew the file of a container that may be running; one that cannot be said any more stays as it is."""
        with contextlib.suppress(Unnamed, binding.UnfitBinding):
            changes[each.container_id] = self._rendered(each)

    def _rendered(self, each: pb.Binding) -> str:
        return binding.render(binding.Binding(tuple(map(self._name, each.slots)), variables(each)))

    def _name(self, slot: int) -> str:
        if slot >= len(self._slots.cards):
            raise Unnamed(f"GPU {slot}: no such card is known on this server")
        if self._rules.names == "uuid":
            return self._slots.cards[slot].uuid
        index = self._slots.cards[slot].index
        if index is None:
            raise Unnamed(f"GPU {slot}: its card has vanished, so nvidia-smi has no place for it")
        return str(index)

    def _refuse(self, container_id: str, why: NotFree, changes: dict[str, str | None]) -> None:
        changes[container_id] = binding.render(binding.Refusal(why.detail))
        _log.warning("binding_refused", container_id=container_id, slots=why.slots, detail=why.detail)
        self._tell(container_id, why)

    def _tell(self, container_id: str, why: NotFree) -> None:
        self.refusals_total += 1
        self._refusals[container_id] = why
        slots = [slot for slot in why.slots if slot < len(self._slots.cards)]
        self._refused(pb.BindingRefusal(container_id=container_id, slots=slots, detail=text(why.detail)))

    def _fit(self, container_id: str) -> bool:
        if is_file_name(container_id):
            return True
        self.failures_total += 1
        _log.warning("container_id_unfit_for_binding", container_id=container_id)
        return False

    async def retry(self) -> None:
        """Try again what could not be written; all of it where somebody has taken the directory away."""
        changes: dict[str, str | None] = {}
        if await self._in_thread(self._taken_anew):
            changes = {name: binding.render(binding.Refusal(why.detail)) for name, why in self._refusals.items()}
            self._render_all(changes)
        if changes or self._unwritten:
            await self._change(changes)

    def _taken_anew(self) -> bool:
        """Take the directory again if it is not there any more, in the thread."""
        try:
            taken = self.files is not None and self.files.take_anew()
        except binding.UnfitDirectory as error:
            _log.warning("binding_dir_lost", error=str(error))
            return False
        if taken:
            _log.warning("binding_dir_lost", error="another one, or none, was in its place: it was made anew")
        return taken

    def _render_all(self, changes: dict[str, str | None]) -> None:
        for name in self._let_start:
            self._render_again(self._true(self.wanted[name]) or self.wanted[name], changes)

    async def renumber(self) -> None:
        """Write the files anew, because the places of nvidia-smi are others now."""
        if self.files is None or self._rules.names != "index":
            return
        changes: dict[str, str | None] = {}
        self._render_all(changes)
        await self._change(changes)

    async def _change(self, changes: dict[str, str | None]) -> None:
        if self.files is None:
            return
        async with self._writing:
            changes = self._unwritten | changes
            errors = await self._in_thread(self.files.change, changes) if changes else {}
            self._unwritten = {name: changes[name] for name in errors}
        for name, error in errors.items():
            self.failures_total += 1
            _log.warning("binding_failed", container_id=name, error=str(error))

    async def _in_thread(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    def _known(self, names: Sequence[str], all_: bool) -> _Known:  # noqa: FBT001 - the order's own field
        """Look which containers have a file, in the thread."""
        assert self.files is not None, "only asked where there are files"
        assert self._directory is not None, "only asked where there are files"
        there = self.files.names()
        known = _Known(others=sorted(there - set(names)) if all_ else [])
        for name in names:
            if name not in there:
                continue
            refusal = _refusal(self._directory / name)
            if refusal is None:
                known.bound.add(name)
            else:
                known.refused[name] = refusal
        return known


class _Known(msgspec.Struct):
    others: list[str]
    bound: set[str] = msgspec.field(default_factory=set)
    refused: dict[str, str] = msgspec.field(default_factory=dict)


def _refusal(path: Path) -> str | None:
    """Read why a container was refused; None: it was not."""
    try:
        with path.open(encoding="ascii") as file:
            found = binding.parse(file.read(LETTERS_MAX + 1))
    except (OSError, ValueError):
        return None  # it is written anew
    return found.reason if isinstance(found, binding.Refusal) else None


def variables(each: pb.Binding) -> dict[str, str]:
    """Return what a container is told beside its GPUs."""
    values = {"YGS_JOB_ID": each.job_id, "YGS_DOMAIN": each.domain}
    if each.HasField("rank"):
        values["YGS_RANK"] = str(each.rank)
        values["YGS_WORLD_SIZE"] = str(each.world_size)
        values["YGS_HOSTS"] = ",".join(each.hosts)
    # What does not fit is left out: a container can start without it.
    return {name: value for name, value in values.items() if value and _fits(value)}


def _fits(value: str) -> bool:
    return len(value) <= VALUE_LETTERS_MAX and value.isascii() and value.isprintable()
