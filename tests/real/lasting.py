"""Masters of gangs that go on whatever dies: they register again, ask again for what was lost, and start what they get."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.real.apps import Answer, App, AppError, gpus
from tests.real.joint import ServedJoint
from tests.real.spells import Spell

BEAT_S = 0.2
LIFE_S_MAX = 240.0


@dataclass
class LastingGang:
    """A gang of one request key, and a thread that speaks for it as a careful master does, until all of its work is done.

    `held` are containers whose workers were started; what was given before the resource manager died and was not started by
    then is as good as lost, and asked for again. A worker ends when its folder holds `stop`, or after `until` seconds.
    """

    joint: ServedJoint
    folder: Path
    containers: int
    each: int
    until: str = "stop"
    managed: bool = False
    app: App = field(init=False)
    problem: BaseException | None = None
    held: set[str] = field(default_factory=set)
    done: int = 0
    registrations: int = 0
    lost: list[Answer] = field(default_factory=list)

    def start(self) -> LastingGang:
        """Submit it, and let its master begin."""
        tags, attempts = [f"gang:{self.containers}x{self.each}"], 2
        self.app = self.joint.apps.submit(
            tags=tags, attempts=attempts, unmanaged=not self.managed, name=self.folder.name
        )
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()
        return self

    @property
    def runs(self) -> bool:
        """Whether all of its workers have been started and none has ended."""
        return len(self.held) == self.containers

    def misbound(self, seen: Mapping[str, Spell]) -> list[Spell]:
        """Return those of its workers that were not told of so many GPUs as it asks for each."""
        own = self.app.app_id.removeprefix("application_")
        return [one for one in seen.values() if f"_{own}_" in one.container_id and len(one.gpus or ()) != self.each]

    def await_end(self, wait_s: float) -> None:
        """Wait until its work is done; whatever its master met is raised here."""
        self.thread.join(timeout=wait_s)
        if self.problem is not None:
            raise self.problem
        assert not self.thread.is_alive(), f"{self} goes on after {wait_s:.0f} s"

    def __str__(self) -> str:
        return (
            f"{self.app.app_id}, a gang of {self.containers} x {self.each}: {len(self.held)} run, {self.done} are done"
        )

    # Its master

    def _live(self) -> None:
        try:
            self._register()
            deadline_s = time.monotonic() + LIFE_S_MAX
            while self.done < self.containers:
                assert time.monotonic() < deadline_s, f"{self} goes on after {LIFE_S_MAX:.0f} s"
                self._beat()
                time.sleep(BEAT_S)
            self._finish()
        except BaseException as problem:  # noqa: BLE001 - told by whoever waits for the end
            self.problem = problem

    def _beat(self) -> None:
        left = self.containers - self.done - len(self.held)
        try:
            answer = self.app.allocate(gpus(left, self.each))
        except AppError as problem:
            self._recover(problem)
            return
        self._count(answer)
        for container in answer["allocated"]:
            self._launch(str(container["container"]))

    def _count(self, answer: Answer) -> None:
        for ended in answer["completed"]:
            if ended["container"] not in self.held:
                continue
            self.held.remove(ended["container"])
            if ended["exit"] == 0:
                self.done += 1
            else:
                self.lost.append(ended)

    def _launch(self, container: str) -> None:
        """Start the worker, also on a server whose NodeManager is just away; what cannot be started is given back."""
        command = self.joint.worker(self.folder, self.until)
        try:
            self.app.launch(command, [container])
        except AppError as problem:
            self.lost.append({"container": container, "problem": str(problem)})
            self._release(container)
        else:
            self.held.add(container)

    def _release(self, container: str) -> None:
        try:
            self._count(self.app.allocate(release=[container]))
        except AppError as problem:
            self._recover(problem)

    def _recover(self, problem: AppError) -> None:
        """Register again where the resource manager has begun anew; else it is just away, and the next beat tries again."""
        if "NotRegistered" in str(problem):
            self._register()
        elif "AttemptNotFound" in str(problem):
            raise problem

    def _register(self) -> None:
        deadline_s = time.monotonic() + LIFE_S_MAX
        while True:
            try:
                self.app.register()
            except AppError:
                assert time.monotonic() < deadline_s, f"{self} cannot register"
                time.sleep(BEAT_S)
            else:
                self.registrations += 1
                return

    def _finish(self) -> None:
        deadline_s = time.monotonic() + LIFE_S_MAX
        while True:
            try:
                self.app.finish()
            except AppError as problem:
                assert time.monotonic() < deadline_s, f"{self} cannot end"
                self._recover(problem)
                time.sleep(BEAT_S)
            else:
                return
