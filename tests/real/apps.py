"""Many small applications, spoken for by one JVM of the tests (java/Apps.java)."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

from tests.real.waiting import wait_until
from yarn_gpu_sched.embedded import EmbeddedCluster, java
from yarn_gpu_sched.embedded.jars import hadoop_jars
from yarn_gpu_sched.embedded.layout import Layout

HERE = Path(__file__).parent
Answer = dict[str, Any]


class AppError(AssertionError):
    """YARN, or the application's master, said no."""


class Apps:
    """The JVM. It ends with this object, or with this process."""

    def __init__(self, cluster: EmbeddedCluster, classes: Path, folder: Path) -> None:
        self.exchange = folder / "exchange"
        self.exchange.mkdir(parents=True)
        self.log = folder / "apps.log"
        layout = Layout(cluster.folder)
        path = java.class_path(layout.conf, [classes], hadoop_jars(cluster.spec.hadoop).lib)
        flags = java.flags(cluster.spec, layout, "client")
        main = ["io.github.yarn_gpu_sched.tests.Apps", str(self.exchange)]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [java.java_command(), *flags, "-Xmx512m", "-cp", path, *main],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._ids = itertools.count(1)
        self._waiting: dict[int, Future[Answer]] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=10)
        self._reader.join(timeout=10)
        self._process.stdout.close()

    def begin(self, op: str, **request: object) -> Future[Answer]:
        """Ask for something and go on."""
        future: Future[Answer] = Future()
        with self._lock:
            number = next(self._ids)
            self._waiting[number] = future
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"id": number, "op": op, **request}) + "\n")
            self._process.stdin.flush()
        return future

    def ask(self, op: str, *, wait_s: float = 90.0, **request: object) -> Answer:
        """Ask for something and return the answer; raises AppError if there is none or it is an error."""
        return self.answer(self.begin(op, **request), f"{op} {request}", wait_s)

    def answer(self, future: Future[Answer], what: str, wait_s: float = 90.0) -> Answer:
        """Return what a request that was begun came to."""
        try:
            found = future.result(timeout=wait_s)
        except TimeoutError:
            raise AppError(f"{what}: no answer after {wait_s} s\nlog: {self.log}") from None
        if "error" in found:
            raise AppError(f"{what}: {found['error']}\nlog: {self.log}")
        return found

    def submit(self, **request: object) -> App:
        """Submit an application whose master is this JVM; by default an unmanaged one."""
        given: dict[str, object] = {"unmanaged": True, **request}
        if not given["unmanaged"]:
            given["am_command"] = self.am_command
        return App(self, str(self.answer(self.begin("submit", **given), f"submit {given}")["app"]))

    @property
    def am_command(self) -> str:
        """What a managed application's master runs: it lends its token to this JVM."""
        return f"exec bash {HERE / 'am.sh'} {self.exchange}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            self._waiting.pop(answer["id"]).set_result(answer)
        for future in list(self._waiting.values()):
            future.set_exception(AppError(f"the JVM has ended\nlog: {self.log}"))


class App:
    """One application and its master's side of YARN's protocols."""

    def __init__(self, apps: Apps, app_id: str) -> None:
        self._apps = apps
        self.app_id = app_id
        self.attempt = 0

    def register(self, attempt: int = 1, timeout_s: int = 60) -> Self:
        """Wait until the master of this attempt, or of a later one, may speak, and register it."""
        answer = self._ask("register", attempt=attempt, timeout_s=timeout_s)
        self.attempt = int(answer["attempt"].rsplit("_", 1)[1])
        return self

    def register_stock(self) -> StockMaster:
        """Let Hadoop's own client library be the master."""
        self._ask("register", stock=True)
        return StockMaster(self)

    def stock(self, does: str, **request: Any) -> Answer:  # noqa: ANN401 - whatever the master's side takes
        """Let Hadoop's own client library do something."""
        return self._ask("stock", does=does, **request)

    def allocate(
        self,
        *asks: Mapping[str, object],
        release: Sequence[str] = (),
        blacklist: Sequence[str] = (),
        unblacklist: Sequence[str] = (),
        constrained: Sequence[Mapping[str, object]] = (),
        updates: Sequence[Mapping[str, object]] = (),
    ) -> Answer:
        """Send one heartbeat of the master; the answer has `allocated`, `updated`, `completed`, and perhaps `preemption`."""
        return self._ask(
            "allocate",
            asks=asks,
            release=release,
            blacklist=blacklist,
            unblacklist=unblacklist,
            constrained=constrained,
            updates=updates,
        )

    def hold(self, containers: int, timeout_s: int = 60) -> list[Answer]:
        """Heartbeat until so many containers were allocated since the start; return those that are new."""
        return list(self._ask("await", containers=containers, timeout_s=timeout_s)["allocated"])

    def replies(self, containers: int) -> list[list[Answer]]:
        """Heartbeat until so many containers came from now on; return what each reply brought that brought any."""
        came: list[list[Answer]] = []

        def beat() -> int:
            if allocated := self.allocate()["allocated"]:
                came.append(list(allocated))
            return sum(map(len, came))

        wait_until(beat, lambda now: now >= containers, f"{containers} more containers of {self.app_id}")
        return came

    def await_completed(self, containers: int, timeout_s: int = 60) -> list[Answer]:
        """Heartbeat until so many containers have ended since the start; return those that are new."""
        return list(self._ask("await", completed=containers, timeout_s=timeout_s)["completed"])

    def launch(self, command: str, containers: Sequence[str] = ()) -> None:
        """Start the command in these containers, or in all that are held."""
        named: dict[str, Any] = {"containers": containers} if containers else {}
        self._ask("launch", command=command, **named)

    def finish(self) -> None:
        """End the application as succeeded."""
        self._ask("finish")

    def kill(self) -> None:
        """End the application from outside."""
        self._ask("kill")

    def limit(self, left_s: int) -> None:
        """Let its lifetime end so soon."""
        self._ask("lifetime", left_s=left_s)

    def report(self) -> Answer:
        """Return `state`, `final`, `diagnostics` and `attempt` as the ResourceManager tells them."""
        return self._ask("report")

    def attempts(self) -> list[Answer]:
        """Return number, `state` and `diagnostics` of each attempt as the ResourceManager tells them, in order."""
        return sorted(self._ask("attempts")["attempts"], key=lambda one: int(one["attempt"]))

    def _ask(self, op: str, timeout_s: int = 60, **request: object) -> Answer:
        return self._apps.ask(op, app=self.app_id, timeout_s=timeout_s, wait_s=timeout_s + 30, **request)


class StockMaster:
    """A master that is Hadoop's own client library: it keeps totals, adds racks to hosts, and asks again by itself."""

    def __init__(self, app: App) -> None:
        self.app = app

    def request(self, count: int, each: int, **more: object) -> None:
        """Add requests, told with the next heartbeat; ``hosts``, ``racks``, ``strict``, ``priority``, ``key``."""
        self.app.stock("request", **gpus(count, each, **more))

    def withdraw(self) -> None:
        """Take back all requests that are not met."""
        self.app.stock("withdraw")

    def release(self, *containers: str) -> None:
        """Give containers back with the next heartbeat."""
        self.app.stock("release", containers=containers)

    def hold(self, containers: int, *, careless: bool = False) -> list[Answer]:
        """Heartbeat until so many came since the start; return the new ones. A careless master takes no request off for them."""
        return list(self.app.stock("hold", containers=containers, careless=careless)["allocated"])

    def beat(self) -> None:
        """Send one heartbeat."""
        self.hold(0)

    def finish(self) -> None:
        """End the application as succeeded."""
        self.app.stock("finish")


def submitted_to_be_refused(apps: Apps, *tags: str) -> str:
    """Submit, and return the application's id: YARN's client fails if the refusal is quicker than its own polling."""
    try:
        return apps.submit(name="refused", tags=list(tags)).app_id
    except AppError as refused:
        return str(re.findall(r"application_\d+_\d+", str(refused))[0])


def pending(rest: Answer) -> list[tuple[int, int]]:
    """Return what the resource manager holds of an application's asks, by its REST: containers and GPUs of each."""
    asks = [one for one in rest.get("resourceRequests", []) if one["resourceName"] == "*"]
    kinds = [(one, one["capability"]["resourceInformations"]["resourceInformation"]) for one in asks]
    return [
        (one["numContainers"], sum(int(kind["value"]) for kind in each if kind["name"] == "yarn.io/gpu"))
        for one, each in kinds
    ]


def gpus(count: int, each: int = 1, **more: object) -> dict[str, object]:
    """Return an ask for containers with GPUs."""
    return {"count": count, "gpus": each, "memory_mb": 256, "vcores": 1, **more}


def plain(count: int, memory_mb: int = 256, **more: object) -> dict[str, object]:
    """Return an ask for containers without GPUs."""
    return {"count": count, "gpus": 0, "memory_mb": memory_mb, "vcores": 1, **more}


def on_hosts(
    count: int, each: int, hosts: Mapping[str, int], racks: Sequence[str], **more: object
) -> dict[str, object]:
    """Return an ask that nothing but these hosts will meet, as Hadoop's own client writes it: their racks only lead there."""
    places = {**hosts, **dict.fromkeys(racks, count), "*": count}
    return gpus(count, each, places=places, strict=["*", *racks], **more)
