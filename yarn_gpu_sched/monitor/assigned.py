"""Which GPUs the NodeManager assigned itself: asked over its REST, in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import structlog

from yarn_gpu_sched.monitor.node_manager import NodeDevices, NodeManagerSilent, read_node_manager

if TYPE_CHECKING:
    from yarn_gpu_sched.monitor.slots import Slots

Ask = Callable[[str], NodeDevices | None]
Assigned = Mapping[str, Sequence[int]]

_log = structlog.get_logger(__name__)


class NodeManagerWatch:
    """Asks one NodeManager. ``assigned``: slots by container as it last told; None: it assigns none, or nobody can tell which."""

    def __init__(self, address: str, slots: Slots, ask: Ask = read_node_manager) -> None:
        self.assigned: Assigned | None = None
        self._address = address
        self._slots = slots
        self._ask = ask
        self._said = ""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="node-manager")

    async def ask(self) -> None:
        """Ask once. While it does not answer what it told last still holds."""
        try:
            devices = await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, self._address)
        except NodeManagerSilent as error:
            self._say(f"it does not answer: {error}")
            return
        self.assigned = None
        if devices is None:
            self._say("")
            return
        cards = [(slot, gpu.index, gpu.minor) for slot, gpu in self._slots.now.items()]
        self.assigned = devices.slots(cards)
        unknown = "it assigns GPUs itself and does not say which" if self.assigned is None else ""
        self._say(unknown or devices.differs(len(cards)))

    def _say(self, what: str) -> None:
        """Say what is the matter with it, once."""
        if what and what != self._said:
            _log.warning("node_manager", address=self._address, error=what)
        self._said = what

    def close(self) -> None:
        """Ask no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)
