"""Looks all the time how GPUs and servers are, and keeps what changed."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import NamedTuple, Self

from yarn_gpu_sched.client import Client
from yarn_gpu_sched.protocol.v1 import gpu_pb2

_POLL_S = 0.05


class Seen(NamedTuple):
    """A state, and when it was first seen, by the monotonic clock."""

    state: str
    at_s: float


class Watcher:
    """What each GPU and each server went through, in order."""

    def __init__(self, address: str) -> None:
        self.gpus: dict[tuple[str, int], list[Seen]] = {}
        self.servers: dict[str, list[Seen]] = {}
        self._client = Client(address, timeout_s=20.0)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(timeout=30)
        self._client.close()

    def states(self, host: str, slot: int) -> list[str]:
        """Return the states of a GPU, in order."""
        return [seen.state for seen in self.gpus[host, slot]]

    def since_s(self, host: str, slot: int, state: str) -> float:
        """Tell when a GPU was last seen to come into a state."""
        return [seen.at_s for seen in self.gpus[host, slot] if seen.state == state][-1]

    def _run(self) -> None:
        while not self._done.wait(_POLL_S):
            self._look()

    def _look(self) -> None:
        for server in self._client.gpus():
            telemetry = gpu_pb2.TelemetryState.Name(server.telemetry).removeprefix("TELEMETRY_STATE_").lower()
            _note(self.servers.setdefault(server.host, []), telemetry)
            for gpu in server.gpus:
                health = gpu_pb2.GpuHealth.Name(gpu.health).removeprefix("GPU_HEALTH_").lower()
                _note(self.gpus.setdefault((server.host, gpu.slot), []), health)


def _note(states: list[Seen], state: str) -> None:
    if not states or states[-1].state != state:
        states.append(Seen(state, time.monotonic()))
