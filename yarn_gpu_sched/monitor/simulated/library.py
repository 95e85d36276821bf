"""An object that stands in for NVIDIA's library below `pynvml`: it takes the very arguments, and fills the very structures.

    stand_in(server)        # from here on, pynvml asks it

As with the real one, what `nvmlInit` finds stays: cards keep their place until the next one, a handle of a card that was off the
bus does not come back, and an event set tells what happened after a card was registered with it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Final

import pynvml

from yarn_gpu_sched.monitor.simulated.device_calls import DEVICE_CALLS, INVALID_ARGUMENT, SUCCESS
from yarn_gpu_sched.monitor.simulated.pointers import HANDLES, number_of, point, put_text, target, whole
from yarn_gpu_sched.monitor.simulated.scenario import Scenario, XidError
from yarn_gpu_sched.monitor.simulated.server import SimulatedServer
from yarn_gpu_sched.monitor.simulated.state import DRIVER_VERSION, GpuState, Trouble, lost_since

UNINITIALIZED: Final = 1
DRIVER_NOT_LOADED: Final = 9
TIMEOUT: Final = 10
GPU_IS_LOST: Final = 15
LIB_RM_VERSION_MISMATCH: Final = 18

_EVENT_XID: Final = 0x8
_EVENT_SETS: Final = 0x80000
_HANG_STEP_S: Final = 0.05


def stand_in(server: SimulatedServer) -> Library:
    """Let pynvml ask simulated cards from here on."""
    library = Library(server)
    put_under_pynvml(library)
    return library


def put_under_pynvml(library: object) -> None:
    """Give pynvml another library, and let it forget the functions of the one before."""
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 - it keeps functions of the library before, and offers no way to forget


class Library:
    """The functions of NVML that the readers call; any other is not there, as in an old library."""

    def __init__(self, server: SimulatedServer, sleep: Callable[[float], None] = time.sleep) -> None:
        """Stand in for the driver of ``server``."""
        self._server = server
        self._sleep = sleep
        self._order: tuple[int, ...] = ()
        self._initialised = False
        self._init_s = 0.0
        self._registered_s: dict[int, float] = {}
        self._told: tuple[Scenario | None, set[int]] = (None, set())
        """The scenario whose events are told, and the places of those that have been."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        """Find a function of the library by its name in C."""
        if name in DEVICE_CALLS:
            return functools.partial(self._ask_device, name)
        own = _FUNCTIONS.get(name)
        if own is None:
            raise AttributeError(name)
        # An object of its own: pynvml sets attributes of the functions that it finds.
        return functools.partial(self._ask, own)

    def _ask(self, name: str, *arguments: object) -> int:
        if name in _LOOKS:
            self._server.look()
        self._wait()
        if not self._initialised and name != "init":
            return UNINITIALIZED
        trouble = self._trouble()
        if trouble != SUCCESS and name != "shutdown":
            return trouble
        code: int = getattr(self, name)(*arguments)
        return code

    def _ask_device(self, name: str, handle: object, *arguments: object) -> int:
        self._wait()
        gpu = self._gpu(handle)
        if isinstance(gpu, int):
            return gpu
        fields, call = DEVICE_CALLS[name]
        codes = [gpu.missing[field] for field in fields if field in gpu.missing]
        return codes[0] if codes else call(gpu, self._server.cards, *arguments)

    def _wait(self) -> None:
        """Do not answer while the driver hangs."""
        if self._server.state().trouble is Trouble.HANG:
            while self._server.look().trouble is Trouble.HANG:
                self._sleep(_HANG_STEP_S)

    def _trouble(self) -> int:
        trouble = self._server.state().trouble
        return _CODES.get(trouble, SUCCESS) if trouble is not None else SUCCESS

    def _gpu(self, handle: object) -> GpuState | int:
        """Find the card of a handle, or say why it does not answer."""
        if not self._initialised:
            return UNINITIALIZED
        trouble = self._trouble()
        if trouble != SUCCESS:
            return trouble
        number = number_of(handle)
        state = self._server.state()
        if number not in self._order:
            return INVALID_ARGUMENT
        return GPU_IS_LOST if number in self._lost() else state.gpus[number]

    def _lost(self) -> frozenset[int]:
        server = self._server
        return lost_since(server.scenario, self._init_s - server.began_s, server.now_s - server.began_s)

    def init(self, _flags: object) -> int:
        """See what cards there are."""
        state = self._server.state()
        self._order = () if state.trouble is Trouble.NO_DEVICES else state.order
        self._init_s = self._server.now_s
        self._registered_s = {}
        self._initialised = True
        return SUCCESS

    def shutdown(self) -> int:
        """Forget them."""
        self._initialised = False
        return SUCCESS

    def driver_version(self, buffer: object, size: object) -> int:
        """Tell the driver's version."""
        put_text(buffer, DRIVER_VERSION, size)
        return SUCCESS

    def count(self, count: object) -> int:
        """Tell how many cards there were at the last init."""
        trouble = self._server.state().trouble
        target(count).value = 0 if trouble is Trouble.NO_DEVICES else len(self._order)
        return SUCCESS

    def handle(self, index: object, handle: object) -> int:
        """Hand out the handle of a card by its place."""
        place = whole(index)
        if place >= len(self._order):
            return INVALID_ARGUMENT
        number = self._order[place]
        if number in self._lost():
            return GPU_IS_LOST
        point(target(handle), HANDLES + number)
        return SUCCESS

    def event_set(self, events: object) -> int:
        """Make the event set: there is one."""
        point(target(events), _EVENT_SETS)
        return SUCCESS

    def register(self, handle: object, _types: object, _events: object) -> int:
        """Tell a card's events from now on."""
        gpu = self._gpu(handle)
        if isinstance(gpu, int):
            return gpu
        self._registered_s.setdefault(gpu.card.number, self._server.now_s)
        return SUCCESS

    def next_event(self, _events: object, event: Any, _timeout_ms: object) -> int:  # noqa: ANN401 - as ctypes takes it
        """Tell the oldest event that has not been told; nobody waits for one."""
        server = self._server
        if self._told[0] is not server.scenario:
            self._told = (server.scenario, set())
        for place, happening in enumerate(server.scenario.events):
            if isinstance(happening, XidError) and place not in self._told[1]:
                at_s = server.began_s + happening.at_s
                if self._registered_s.get(happening.gpu, at_s) < at_s <= server.now_s:
                    self._told[1].add(place)
                    return _fill_event(target(event), happening)
        return TIMEOUT

    def free_events(self, _events: object) -> int:
        """Forget the event set."""
        self._registered_s = {}
        return SUCCESS


def _fill_event(event: Any, happening: XidError) -> int:  # noqa: ANN401 - a structure
    point(event.device, HANDLES + happening.gpu)
    event.eventType, event.eventData = _EVENT_XID, happening.xid
    return SUCCESS


_CODES: Final = {Trouble.MISMATCH: LIB_RM_VERSION_MISMATCH, Trouble.NO_DRIVER: DRIVER_NOT_LOADED}
_LOOKS: Final = frozenset({"init", "count"})
"""Each reading begins with one of these: all else that it asks is of the same instant."""
_FUNCTIONS: Final[dict[str, str]] = {
    "nvmlInitWithFlags": "init",
    "nvmlShutdown": "shutdown",
    "nvmlSystemGetDriverVersion": "driver_version",
    "nvmlDeviceGetCount_v2": "count",
    "nvmlDeviceGetHandleByIndex_v2": "handle",
    "nvmlEventSetCreate": "event_set",
    "nvmlDeviceRegisterEvents": "register",
    "nvmlEventSetWait_v2": "next_event",
    "nvmlEventSetFree": "free_events",
}
"""Name in C; what answers it here."""
