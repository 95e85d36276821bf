"""GPUs by NVIDIA's library, NVML.

What `nvmlInit` finds stays as it is: a card that has vanished is an error on its handle, one that has come back is seen by nobody,
and the order is the old one. So the library is initialised anew after every failure, and, with growing pauses, while a GPU that was
seen once is missing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pynvml

from yarn_gpu_sched.monitor.nvml_calls import (
    GpuLost,
    Handle,
    NotReadable,
    Passing,
    address,
    ask,
    ask_first,
    ask_or_say,
    ask_text,
)
from yarn_gpu_sched.monitor.nvml_fields import read_fields
from yarn_gpu_sched.monitor.nvml_links import End, Place, place_of, read_links
from yarn_gpu_sched.monitor.reading import (
    GPUS_MAX,
    XIDS_MAX,
    Failure,
    FailureKind,
    GpuLink,
    GpuReading,
    GpusReading,
    Xid,
)

_PAUSE_FIRST_S: Final = 1.0
_XID_MAX: Final = 65535
_TOO_MUCH: Final = Failure(FailureKind.UNREADABLE, "the driver's answer takes too much memory")


class _Unit(msgspec.Struct, kw_only=True):
    """A GPU that the library has found, and what does not change of it."""

    index: int
    handle: Any
    uuid: str | None = None
    model: str | None = None
    minor: int | None = None
    pci_bus_id: str | None = None
    place: Place | None = None
    links: tuple[GpuLink, ...] | None = None
    whole: bool = False
    """All of that has been answered, or never will be."""


class NvmlSource:
    """Reads GPUs by NVML, through the installed pynvml."""

    def __init__(
        self,
        *,
        expects_gpus: bool = False,
        again_s_max: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make it; nothing is asked yet. Where GPUs are expected, none at all is a failure."""
        self._expects_gpus = expects_gpus
        self._again_s_max = again_s_max
        self._clock = clock
        self._ready = False
        self._count = 0
        self._units: list[_Unit] = []
        self._seen: set[str] = set()
        self._missing = False
        self._events: Any = None
        self._xids = 0
        self._waiting: list[Xid] = []
        """Xid errors of the next reading: they are told also if nothing else can be."""
        self._again_at_s = 0.0
        self._pause_s = 0.0

    def read(self) -> GpusReading:
        """Look once. What goes wrong is said in the reading."""
        gpus, failure = None, None
        try:
            gpus = self._read()
        except NotReadable as error:
            failure = error.failure
        except GpuLost:
            failure = Failure(FailureKind.UNREADABLE, "the driver calls all GPUs lost at once")
        except MemoryError:  # what took it all is let go before anything else is done
            failure = _TOO_MUCH
        if failure is not None:
            self.close()
        xids = tuple(self._waiting)
        self._waiting.clear()
        return GpusReading(gpus=gpus, failure=failure, xids=xids)

    def _read(self) -> tuple[GpuReading, ...]:
        if self._wants_again():
            self._take_xids()
            self.close()
        if self._ready and ask_first(pynvml.nvmlDeviceGetCount) != self._count:
            self.close()
        if not self._ready:
            self._init()
        gpus = self._gpus()
        self._take_xids()
        return gpus

    def close(self) -> None:
        """Let go of the driver."""
        if self._ready:
            with contextlib.suppress(GpuLost, NotReadable):
                ask(pynvml.nvmlEventSetFree, self._events) if self._events is not None else None
            with contextlib.suppress(GpuLost, NotReadable):
                ask(pynvml.nvmlShutdown)
        self._ready, self._units, self._events = False, [], None

    def _wants_again(self) -> bool:
        """Whether a GPU is missing that was there, and it is time to look for it."""
        return self._ready and self._missing and self._clock() >= self._again_at_s

    def _init(self) -> None:
        ask_first(pynvml.nvmlInit)
        self._ready = True
        count = self._count = ask_first(pynvml.nvmlDeviceGetCount)
        if count > GPUS_MAX:
            detail = f"the driver tells of {count} GPUs; a server has at most {GPUS_MAX}"
            raise NotReadable(Failure(FailureKind.UNREADABLE, detail))
        if not count and (self._expects_gpus or self._seen):
            raise NotReadable(Failure(FailureKind.NO_DEVICES, "No devices were found"))
        self._units = [_Unit(index=index, handle=handle) for index, handle in _handles(count)]
        self._listen()

    def _listen(self) -> None:
        """Have the driver keep Xid errors for us, of all GPUs that can."""
        self._events = ask(pynvml.nvmlEventSetCreate)
        if self._events is None:
            return
        for unit in self._units:
            with contextlib.suppress(GpuLost):
                ask(pynvml.nvmlDeviceRegisterEvents, unit.handle, pynvml.nvmlEventTypeXidCriticalError, self._events)

    def _gpus(self) -> tuple[GpuReading, ...]:
        units = [unit for unit in self._units if self._known(unit)]
        if any(unit.links is None for unit in units):
            links = read_links([End(str(unit.uuid), unit.place, unit.handle) for unit in units])
            for unit in units:
                unit.links = links[str(unit.uuid)]
        gpus = []
        for unit in units:
            with contextlib.suppress(GpuLost):
                gpus.append(_read(unit))
        self._remember({gpu.uuid for gpu in gpus})
        return tuple(gpus)

    def _known(self, unit: _Unit) -> bool:
        """Read what does not change of a GPU, once; False for one that is lost, or does not say who it is."""
        try:
            if not unit.whole:
                _read_static(unit)
        except GpuLost:
            return False
        first = next((one for one in self._units if one.uuid == unit.uuid), unit)
        return unit.uuid is not None and first is unit

    def _remember(self, uuids: set[str]) -> None:
        """Remember who is there; whoever is missing is looked for soon, and more and more seldom."""
        self._seen |= uuids
        self._missing = self._seen != uuids
        if not self._missing:
            self._pause_s = 0.0
        elif self._clock() >= self._again_at_s:
            self._pause_s = min(max(_PAUSE_FIRST_S, 2 * self._pause_s), self._again_s_max)
            self._again_at_s = self._clock() + self._pause_s

    def _take_xids(self) -> None:
        """Take the Xid errors that wait in the driver, and do not wait for any."""
        if self._events is None:
            return
        uuids = {address(unit.handle): unit.uuid for unit in self._units}
        for _ in range(XIDS_MAX - len(self._waiting)):
            event = self._next_event()
            if event is None:
                break
            uuid = uuids.get(address(event.device))
            if uuid and event.eventType & pynvml.nvmlEventTypeXidCriticalError and 0 < event.eventData <= _XID_MAX:
                self._xids += 1
                self._waiting.append(Xid(uuid, event.eventData, self._xids))

    def _next_event(self) -> Any:  # noqa: ANN401 - a structure of pynvml
        try:
            return ask(pynvml.nvmlEventSetWait, self._events, 0)
        except GpuLost:
            return None


def _handles(count: int) -> list[tuple[int, Handle]]:
    """Return places and handles of the GPUs that answer. If none does, for another cause than being lost, nothing is known."""
    found: list[tuple[int, Handle]] = []
    wrong = 0
    for index in range(count):
        try:
            handle = ask(pynvml.nvmlDeviceGetHandleByIndex, index)
        except GpuLost:
            continue
        if handle is None:
            wrong += 1
        else:
            found.append((index, handle))
    if wrong and not found:
        raise NotReadable(Failure(FailureKind.UNREADABLE, f"the driver tells of {count} GPUs and lets none be asked"))
    return found


def _read_static(unit: _Unit) -> None:
    """Read what does not change. What only now cannot be answered is asked for again at the next look."""
    whole = True
    for name, call in _STATIC.items():
        if getattr(unit, name) is None:
            try:
                setattr(unit, name, call(unit.handle))
            except Passing:
                whole = False
    unit.whole = whole


def _pci_bus_id(handle: Handle) -> str:
    return str(pynvml.nvmlDeviceGetPciInfo(handle).busId)


def _place(handle: Handle) -> Place:
    return place_of(pynvml.nvmlDeviceGetPciInfo(handle))


_STATIC: Final[dict[str, Callable[[Handle], Any]]] = {
    "uuid": lambda handle: _printable(ask_text(pynvml.nvmlDeviceGetUUID, handle)),
    "model": lambda handle: ask_text(pynvml.nvmlDeviceGetName, handle),
    "minor": lambda handle: ask_or_say(pynvml.nvmlDeviceGetMinorNumber, handle),
    "pci_bus_id": lambda handle: ask_text(_pci_bus_id, handle),
    "place": lambda handle: ask_or_say(_place, handle),
}


def _printable(uuid: str | None) -> str | None:
    """Return a UUID that can name a GPU; None for bytes that cannot."""
    return uuid if uuid is not None and uuid.isascii() and uuid.isprintable() and " " not in uuid else None


def _read(unit: _Unit) -> GpuReading:
    return GpuReading(
        uuid=str(unit.uuid),
        index=unit.index,
        model=unit.model,
        minor=unit.minor,
        pci_bus_id=unit.pci_bus_id,
        links=unit.links,
        **read_fields(unit.handle),
    )
