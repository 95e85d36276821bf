"""Servers without GPUs stay with stock placement, whatever becomes of the service and whoever waits for GPUs.

All that goes on here goes on in the time of which the ResourceManager's log is looked at in the end.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real import beside, spells
from tests.real.apps import App, gpus, plain
from tests.real.joint import FULL, Held, ServedJoint

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.timeout(400)]

LOG_S = 60.0
HEARTBEATS_S = 5  # a server's, by HEARTBEAT_MS of conftest.py
_WARNING = re.compile(r"^\S+ \S+ (?:WARN|ERROR|FATAL) ([^:]+: .*)$", re.MULTILINE)


@dataclass
class Pending:
    """A GPU ask that waits all the time, who holds the last GPUs, and the ResourceManager's log since then."""

    joint: ServedJoint
    app: App
    last_gpus: App
    workers: Path
    since_s: float
    log_offset: int


@pytest.fixture(scope="module")
def pending(served_joint: ServedJoint) -> Iterator[Pending]:
    """Let two applications hold all GPUs and a third wait, with an ask that but for its GPU fits the CPU server."""
    served_joint.clear()
    served_joint.await_connected()
    first = _holding(served_joint, 3)
    last = _holding(served_joint, 1)
    waiter = served_joint.apps.submit(name="waiter", tags=["gang:5"]).register()
    waiter.allocate(gpus(5))
    served_joint.await_state(waiter.app_id, FULL)
    workers = served_joint.folder / "workers" / "cpu-servers"
    offset = served_joint.rm_log().stat().st_size
    yield Pending(served_joint, waiter, last, workers, time.monotonic(), offset)
    for holder in (first, last):
        holder.kill()
    waiter.hold(5)
    served_joint.clear()


def _holding(joint: ServedJoint, servers: int) -> App:
    app = joint.apps.submit(name="holder", tags=[f"gang:{servers}x4"]).register()
    app.allocate(gpus(servers, 4))
    app.hold(servers)
    return app


def _run_without_gpus(pending: Pending, name: str) -> dict[str, spells.Spell]:
    joint, folder = pending.joint, pending.workers / name
    run = joint.apps.begin(
        "run",
        name=name,
        asks=[plain(4)],
        command=joint.worker(folder, "0.2"),
        am_command=joint.apps.am_command,
    )
    ended = joint.apps.answer(run, f"{name}, a job without GPUs")
    assert [worker["exit"] for worker in ended["completed"]] == [0] * 4
    return spells.read(folder)


def test_a_job_without_gpus_finishes_beside_a_waiting_gang_and_sees_no_gpu(pending: Pending) -> None:
    seen = _run_without_gpus(pending, "beside")
    assert [spell.gpus for spell in seen.values()] == [()] * 4


def _pi(pending: Pending) -> str:
    jar = pending.joint.cluster.mapreduce_examples_jar
    done = pending.joint.cluster.yarn("jar", jar, "pi", "1", "20", timeout_s=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_mapreduce_finishes_while_gangs_run_and_another_waits(pending: Pending) -> None:
    assert "Estimated value of Pi is 3." in _pi(pending)


def test_mapreduce_and_a_job_without_gpus_finish_on_the_cpu_server_while_the_service_is_away(pending: Pending) -> None:
    with beside.service_away(pending.joint):
        seen = _run_without_gpus(pending, "away")
        assert [(spell.server, spell.gpus) for spell in seen.values()] == [("cpu-1", ())] * 4
        assert "Estimated value of Pi is 3." in _pi(pending)


def test_gpu_asks_neither_land_nor_reserve_on_a_cpu_server(pending: Pending) -> None:
    joint = pending.joint
    node = joint.until(lambda: joint.node("cpu-1"), lambda node: node["numContainers"] == 0, "the CPU server is free")
    assert node["usedResource"]["memory"] == 0
    joint.await_held(Held(4, 0, 4 * 256, 16, 0))
    # With four GPUs free the queue's limit no longer keeps stock placement from looking at the ask, which wants five.
    pending.last_gpus.finish()
    joint.await_held(Held(3, 0, 3 * 256, 12, 0))
    assert pending.app.allocate()["allocated"] == []


def test_sixty_seconds_of_log_with_a_waiting_gpu_ask_hold_no_warning_per_heartbeat(pending: Pending) -> None:
    joint, until_s = pending.joint, pending.since_s + LOG_S
    joint.until(time.monotonic, lambda now_s: now_s >= until_s, "60 s have been logged", LOG_S + 10)
    joint.await_connected()
    joint.await_state(pending.app.app_id, FULL)
    assert joint.node("cpu-1")["numContainers"] == 0
    assert joint.held() == Held(3, 0, 3 * 256, 12, 0)
    log = joint.rm_log().read_bytes()
    before, since = (text.decode(errors="replace") for text in (log[: pending.log_offset], log[pending.log_offset :]))
    known = kinds(before)
    often = {kind: n for kind, n in kinds(since).items() if n >= HEARTBEATS_S * LOG_S / 10 and kind not in known}
    assert not often, f"{often}\nlog: {joint.rm_log()}"


def kinds(log: str) -> Counter[str]:
    """Count warnings and worse by their kind: numbers and ids make no difference."""
    return Counter(re.sub(r"\d+", "#", warning)[:160] for warning in _WARNING.findall(log))


def test_warnings_that_differ_by_a_number_are_of_one_kind() -> None:
    line = "2026-11-29 12:00:0{},000 WARN capacity.Placer: node cpu-{} does not have sufficient resource\n"
    log = "".join(line.format(number, number) for number in range(5)) + "2026-11-29 12:00:06,000 INFO a.B: fine\n"
    assert kinds(log) == {"capacity.Placer: node cpu-# does not have sufficient resource": 5}
