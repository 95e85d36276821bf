"""A simulated server: its cards, the scenario file as it is now, and the seconds since that began.

Several processes tell of the same server: the monitor's reader, and nvidia-smi as often as somebody runs it. So the instant at
which a scenario began is kept in a file: whoever first sees a scenario writes it down. A scenario file that changes begins anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from yarn_gpu_sched.monitor.simulated import scenario as scenarios
from yarn_gpu_sched.monitor.simulated.scenario import Scenario
from yarn_gpu_sched.monitor.simulated.spec import Card, with_minors
from yarn_gpu_sched.monitor.simulated.state import Holder, ServerState, state_at

_PREFIX = "scenario-began-"
_FRESH_S = 0.05
_SERVES_S = 5.0
"""How long a look serves at most: the many calls of one reading see the same instant."""

Scan = Callable[["SimulatedServer"], Iterable[Holder]]


class SimulatedServer:
    """The cards of one server, as they are now."""

    def __init__(
        self,
        cards: Sequence[Card],
        scenario_file: Path | None = None,
        state_dir: Path | None = None,
        scan: Scan | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Read the scenario; `BadScenario` says what is wrong with it."""
        self._given = tuple(cards)
        self._file = scenario_file
        self._state_dir = state_dir
        self._scan = scan
        self._clock = clock
        self._key: tuple[int, int] | None = None
        self._look: tuple[float, ServerState] | None = None
        self.cards = self._given
        self.scenario = Scenario()
        self.began_s = clock()
        self.wrong = ""
        """What is wrong with the scenario file as it is now; what it said before goes on."""
        self._reread()
        if self.wrong:
            raise scenarios.BadScenario(self.wrong)

    @property
    def now_s(self) -> float:
        """The time."""
        return self._clock()

    @property
    def seconds(self) -> float:
        """Seconds since the scenario began."""
        return self._clock() - self.began_s

    def look(self) -> ServerState:
        """Return what all cards look like now."""
        return self._looked(_FRESH_S)

    def state(self) -> ServerState:
        """Return what all cards looked like at the last look."""
        return self._looked(_SERVES_S)

    def _looked(self, serves_s: float) -> ServerState:
        now_s = self._clock()
        if self._look is None or not 0 <= now_s - self._look[0] < serves_s:
            self._reread()
            holders = self._scan(self) if self._scan is not None else ()
            self._look = (now_s, state_at(self.cards, self.scenario, self.seconds, holders))
        return self._look[1]

    def _reread(self) -> None:
        """Take the scenario file again where it has changed. One that cannot be read any more changes nothing."""
        if self._file is None:
            return
        try:
            stat = self._file.stat()
            key = (stat.st_mtime_ns, stat.st_size)
            if key == self._key:
                return
            scenario = scenarios.load(self._file, len(self._given))
        except OSError as error:
            self.wrong = f"{self._file}: cannot be read: {error.strerror}"
            return
        except scenarios.BadScenario as error:
            self.wrong = str(error)
            return
        self._key, self.wrong, self.scenario = key, "", scenario
        self.cards = with_minors(self._given, scenario.minors) if scenario.minors is not None else self._given
        self.began_s = self._began(f"{self._file.resolve()}:{stat.st_mtime_ns}:{stat.st_size}")

    def _began(self, what: str) -> float:
        """Return when this scenario began: now, unless somebody has written it down already."""
        now_s = self._clock()
        if self._state_dir is None:
            return now_s
        file = self._state_dir / f"{_PREFIX}{hashlib.sha256(what.encode()).hexdigest()[:16]}"
        with contextlib.suppress(OSError, ValueError):
            return float(file.read_text())
        # Somebody who may not write there, as a NodeManager's user, goes by what others have written.
        with contextlib.suppress(OSError):
            _write_once(file, now_s)
        with contextlib.suppress(OSError, ValueError):
            return float(file.read_text())
        return now_s


def _write_once(file: Path, now_s: float) -> None:
    """Write a file as a whole, unless it is there; the files of scenarios before go."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}~")
    draft.write_text(repr(now_s))
    try:
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
    for old in file.parent.glob(f"{_PREFIX}*"):
        if old != file and not old.name.endswith("~"):
            old.unlink(missing_ok=True)
