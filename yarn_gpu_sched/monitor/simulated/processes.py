"""Who is on simulated cards: the real processes of this machine whose environment names them.

A process counts that was started with `CONTAINER_ID` and `CUDA_VISIBLE_DEVICES`, on this host where `NM_HOST` says one: several
simulated servers may share a machine. As for CUDA, a list ends at the first word that names no card; a card is named by its UUID,
or the beginning of it, or by its place, in the order of nvidia-smi if `CUDA_DEVICE_ORDER` is `PCI_BUS_ID`, else the fastest first.
A place says nothing of whose it is: of a server with a state directory it counts only with that in `YGS_SIMULATED`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from yarn_gpu_sched.monitor.simulated.server import SimulatedServer
from yarn_gpu_sched.monitor.simulated.spec import Card
from yarn_gpu_sched.monitor.simulated.state import Holder, order_at

HOLDERS_MAX: Final = 4096
_ENVIRONMENT_BYTES_MAX: Final = 1 << 20
_START_FIELD: Final = 19
"""Place of a process's start among the fields of `stat` behind its name."""
SERVER_VARIABLE: Final = "YGS_SIMULATED"
"""Variable of a process that says on which simulated server it is: the server's state directory."""
_NAMES: Final = (
    b"CONTAINER_ID",
    b"CUDA_VISIBLE_DEVICES",
    b"CUDA_DEVICE_ORDER",
    b"NM_HOST",
    SERVER_VARIABLE.encode(),
)


class Scanner:
    """Looks through `/proc`."""

    def __init__(self, host: str = "", proc_root: Path = Path("/proc"), state_dir: Path | None = None) -> None:
        """Look for processes on ``host``; of any host if it is empty. ``state_dir``: that of the server."""
        self._host = host.lower()
        self._server = "" if state_dir is None else str(state_dir.absolute())
        self._proc_root = proc_root

    def __call__(self, server: SimulatedServer) -> list[Holder]:
        """Return who holds which cards, by process id."""
        found = []
        for pid in sorted(int(name) for name in os.listdir(self._proc_root) if name.isdecimal()):  # noqa: PTH208 - every second
            environment = self._environment(pid)
            if environment is not None:
                numbers = self._numbers(pid, environment, server)
                if numbers:
                    found.append(Holder(pid, environment["CONTAINER_ID"], numbers))
            if len(found) == HOLDERS_MAX:
                break
        return found

    def _environment(self, pid: int) -> dict[str, str] | None:
        """Return what matters of a process's environment; None if it holds nothing here."""
        raw = _read(f"{self._proc_root}/{pid}/environ")
        if b"CUDA_VISIBLE_DEVICES=" not in raw or b"CONTAINER_ID=" not in raw:
            return None
        pairs = (entry.partition(b"=") for entry in raw.split(b"\0"))
        environment = {str(name, "ascii"): value.decode(errors="replace") for name, _, value in pairs if name in _NAMES}
        elsewhere = self._host and environment.get("NM_HOST", self._host).lower() != self._host
        return None if elsewhere or not environment.get("CONTAINER_ID") else environment

    def _numbers(self, pid: int, environment: dict[str, str], server: SimulatedServer) -> tuple[int, ...]:
        words = [word.strip() for word in environment.get("CUDA_VISIBLE_DEVICES", "").split(",")]
        cards = server.cards
        if any(word.isdecimal() for word in words):
            if self._server and environment.get(SERVER_VARIABLE) != self._server:
                return ()
            order = order_at(cards, server.scenario, self._started_s(pid) - server.began_s)
            cards = tuple(cards[number] for number in order)
            if environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
                cards = tuple(sorted(cards, key=lambda card: -card.model.power_max_w))
        return tuple(dict.fromkeys(_named(words, cards)))

    def _started_s(self, pid: int) -> float:
        """Tell when a process started: it counted the cards as they were then. 0 if it is gone."""
        with contextlib.suppress(ValueError, IndexError, OSError):
            ticks = int(_read(f"{self._proc_root}/{pid}/stat").rpartition(b")")[2].split()[_START_FIELD])
            boot = next(line for line in _read(f"{self._proc_root}/stat").split(b"\n") if line.startswith(b"btime "))
            return int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
        return 0.0


def _named(words: Sequence[str], cards: Sequence[Card]) -> Iterator[int]:
    for word in words:
        if word.isdecimal() and int(word) < len(cards):
            yield cards[int(word)].number
            continue
        meant = [card.number for card in cards if word.startswith("GPU-") and card.uuid.startswith(word)]
        if len(meant) != 1:
            return
        yield meant[0]


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _ENVIRONMENT_BYTES_MAX)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
