"""A GPU is given out only when it is really free, and who holds one that is not theirs is found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.monitor.server import gpu, process
from yarn_gpu_sched.monitor.prechecks import NotFree, Stray, not_free, strays
from yarn_gpu_sched.monitor.processes import describe
from yarn_gpu_sched.monitor.reading import GpuProcess, GpuReading
from yarn_gpu_sched.monitor.strays import Strays, end

CONTAINER = "container_1700000000000_0001_01_000002"
OTHER = "container_1700000000000_0002_01_000002"


def looked(**by_slot: dict[str, Any]) -> dict[int, GpuReading]:
    return {int(slot[1:]): gpu(int(slot[1:]), **fields) for slot, fields in by_slot.items()}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"memory_used_mb": 1_024},
        {"memory_used_mb": None},
        {"processes": None},
        {"processes": None, "memory_used_mb": None},
    ],
)
def test_what_is_free_or_not_known_to_be_held_accuses_nobody(fields: dict[str, object]) -> None:
    assert not_free(CONTAINER, [0], looked(g0=fields), 1_024) is None


def test_memory_in_use_is_named() -> None:
    found = not_free(CONTAINER, [0, 1], looked(g0={}, g1={"memory_used_mb": 1_025}), 1_024)
    assert found == NotFree((1,), "GPU 1: 1025 MiB in use, at most 1024 count as free")


def test_memory_in_use_counts_where_processes_are_not_known() -> None:
    assert not_free(CONTAINER, [0], looked(g0={"processes": None, "memory_used_mb": 9_000}), 1_024)


def test_somebody_elses_process_is_named_with_user_and_container() -> None:
    found = not_free(CONTAINER, [2], looked(g2={"processes": (process(77, OTHER), process(78))}), 1_024)
    assert found is not None
    assert (
        found.detail == f"GPU 2: held by process 77 (python) of ada, {OTHER}, process 78 (python) of ada, no container"
    )


def test_many_processes_are_told_shortly() -> None:
    found = not_free(CONTAINER, [2], looked(g2={"processes": tuple(process(pid) for pid in range(2, 300))}), 1_024)
    assert found is not None
    assert found.detail.endswith(" and 295 more")


def test_a_vanished_card_is_not_free() -> None:
    assert not_free(CONTAINER, [3], {}, 1_024) == NotFree((3,), "GPU 3: its card has vanished")


def test_a_container_that_runs_already_is_let_be() -> None:
    there = looked(
        g0={"processes": (process(5, CONTAINER), process(6, OTHER)), "memory_used_mb": 9_000},
        g1={"memory_used_mb": 9_000},
    )
    assert not_free(CONTAINER, [0, 1], there, 1_024) is None
    assert not_free(CONTAINER, [1], there, 1_024)


def test_strays_are_processes_of_no_container_or_of_one_with_other_gpus() -> None:
    there = looked(g0={"processes": (process(5, CONTAINER), process(6, OTHER), process(7))}, g1={"processes": None})
    held = {CONTAINER: frozenset({0}), OTHER: frozenset({1})}
    assert list(strays(there, held)) == [Stray(0, process(6, OTHER)), Stray(0, process(7))]


class Ended:
    """Remembers whom it was to end."""

    def __init__(self, answer: bool = True) -> None:  # noqa: FBT001, FBT002 - what it answers
        self.pids: list[int] = []
        self._answer = answer

    def __call__(self, one: GpuProcess) -> bool:
        self.pids.append(one.pid)
        return self._answer


def test_a_stray_is_ended_after_two_readings_once() -> None:
    ended = Ended()
    watch = Strays(ended)
    watch.see([Stray(0, process(5))])
    assert ended.pids == []
    watch.see([Stray(0, process(5, memory_mb=7)), Stray(1, process(5)), Stray(1, process(6))])
    assert ended.pids == [5]
    watch.see([Stray(0, process(5)), Stray(1, process(6))])
    assert ended.pids == [5, 6]
    assert watch.ended_total == 2


def test_a_stray_that_went_in_between_begins_anew() -> None:
    ended = Ended()
    watch = Strays(ended)
    watch.see([Stray(0, process(5))])
    watch.see([])
    watch.see([Stray(0, process(5))])
    assert ended.pids == []


def test_one_that_could_not_be_ended_is_tried_again() -> None:
    ended = Ended(answer=False)
    watch = Strays(ended)
    for _ in range(3):
        watch.see([Stray(0, process(5))])
    assert ended.pids == [5, 5]
    assert watch.ended_total == 0


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


def seen(pid: int) -> GpuProcess:
    container_id, user, command = describe(pid)
    return GpuProcess(pid, 5, container_id, user, command)


def test_a_real_process_is_asked_to_end(sleeper: subprocess.Popen[bytes]) -> None:
    assert end(seen(sleeper.pid))
    assert sleeper.wait(10) == -15


def test_a_number_that_is_another_process_by_now_is_spared(sleeper: subprocess.Popen[bytes]) -> None:
    before = seen(sleeper.pid)
    other = GpuProcess(before.pid, 5, OTHER, before.user, before.command)
    assert not end(other)
    assert sleeper.poll() is None


@pytest.mark.parametrize("pid", [-1, 0, 1, os.getpid()])
def test_init_and_oneself_are_never_ended(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    monkeypatch.setattr(os, "pidfd_open", opened.append)
    assert not end(GpuProcess(pid, None, *describe(pid)))
    assert opened == [], "not even looked at"


def test_nobody_is_not_ended() -> None:
    assert not end(GpuProcess(2**31 - 1, None, "", "", ""))
