"""Applications that end at any moment: by their lifetime, or killed. Nothing of them stays held, and whoever waits goes on."""

from __future__ import annotations

import os
import random
import re
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.real.apps import Answer, App, AppError, gpus
from tests.real.joint import FULL, NOTHING_HELD, Held, ServedJoint
from yarn_gpu_sched.protocol.v1 import job_pb2, reason_pb2

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.timeout(300)]
NOT_ASKED = reason_pb2.WAITING_REASON_CODE_NOT_ASKED
DEGRADED = reason_pb2.WAITING_REASON_CODE_GANG_DEGRADED
KILLS = 20


def gang(joint: ServedJoint, containers: int, each: int, **more: object) -> App:
    app = joint.apps.submit(tags=[f"gang:{containers}x{each}"], **more).register()
    app.allocate(gpus(containers, each))
    return app


def await_end(joint: ServedJoint, app: App) -> job_pb2.JobEnd.ValueType:
    """Wait until the service, too, knows that an application has ended, and that it holds nothing; say how."""

    def look() -> tuple[bool, int]:
        view = joint.view(app.app_id)
        return view.job.job_id == app.app_id and bool(view.end), view.used.gpus

    joint.until(look, lambda seen: seen == (True, 0), f"{app.app_id} has ended and holds nothing")
    return joint.client.job(app.app_id).end


# C25, first half: YARN's lifetime counts waiting too


def test_c25_a_job_that_waits_ends_with_its_lifetime_and_is_placed_no_more(joint: ServedJoint) -> None:
    holder = gang(joint, 4, 4)
    holder.hold(4)
    app = gang(joint, 4, 4, lifetime_s=600)
    joint.await_state(app.app_id, FULL)
    assert joint.client.job(app.app_id).job.HasField("expire_time")
    app.limit(1)
    assert await_end(joint, app) == job_pb2.JOB_END_KILLED
    assert "lifetime" in joint.client.job(app.app_id).diagnostics.lower()
    holder.finish()
    joint.await_idle()
    other = gang(joint, 4, 4)
    other.hold(4)


def test_c25_what_is_held_for_a_gang_goes_when_its_lifetime_ends(joint: ServedJoint, workers: Path) -> None:
    app = gang(joint, 4, 4)
    app.hold(4)
    victim = min(joint.placed(app.app_id, 4))
    app.launch(f"bash -c 'while [ ! -e {workers}/$CONTAINER_ID ]; do sleep 0.1; done; exit 3'")
    (workers / victim).touch()
    app.await_completed(1)
    joint.await_state(app.app_id, DEGRADED)
    app.limit(1)
    ended = lambda: joint.client.job(app.app_id)  # noqa: E731 - one line, used once
    view = joint.until(
        ended, lambda now: bool(now.end) and not now.containers, "the job has ended, and so have its containers"
    )
    assert view.used.gpus == 0, "what was held for its replacement is still held"
    gang(joint, 4, 4).hold(4)


# Killed at any moment


@pytest.mark.parametrize("moment", ["before it asks", "while it waits", "when it was placed", "after it pulled"])
def test_a_kill_leaves_nothing_behind(joint: ServedJoint, moment: str) -> None:
    holder = gang(joint, 4, 4) if moment == "while it waits" else None
    app = joint.apps.submit(tags=["gang:4x4"]).register()
    if moment != "before it asks":
        app.allocate(gpus(4, 4))
    if holder is not None:
        joint.await_state(app.app_id, FULL)
    elif moment == "when it was placed":
        joint.until(lambda: joint.held().gpus, lambda held: held == 16, "it is placed")
    elif moment == "after it pulled":
        app.hold(4)
    app.kill()
    assert await_end(joint, app) == job_pb2.JOB_END_KILLED
    joint.await_held(NOTHING_HELD if holder is None else Held(4, 0, 4 * 256, 16, 0))
    if holder is not None:
        holder.finish()
    gang(joint, 4, 4).hold(4)


@pytest.mark.parametrize("moment", ["while it waits", "while GPUs are held for its gang"])
def test_a_job_with_a_master_of_its_own_that_is_killed_by_the_stock_command_leaves_nothing_behind(
    joint: ServedJoint, moment: str
) -> None:
    waits = moment == "while it waits"
    holder = gang(joint, 4, 4) if waits else None
    app = joint.apps.submit(tags=["gang:3x4"], unmanaged=False, am={"gpus": 0 if waits else 1})
    if holder is not None:
        app.register()
        app.allocate(gpus(3, 4))
        joint.await_state(app.app_id, FULL)
    else:
        assert "12 GPUs are held for its gang" in joint.await_state(app.app_id, NOT_ASKED)
    done = joint.cluster.yarn("app", "-kill", app.app_id)
    assert done.returncode == 0, done.stdout + done.stderr
    assert await_end(joint, app) == job_pb2.JOB_END_KILLED
    joint.await_held(NOTHING_HELD if holder is None else Held(4, 0, 4 * 256, 16, 0))
    if holder is not None:
        holder.finish()
    gang(joint, 4, 4).hold(4)


def answered_or_gone(joint: ServedJoint, asked: Future[Answer], app: App) -> None:
    """Take the answer to an ask; if there is none, then because its attempt is gone by now."""
    try:
        joint.apps.answer(asked, "the ask")
    except AppError as late:
        if app.app_id.replace("application", "appattempt") not in str(late):
            raise


def seconds_to_be_placed(joint: ServedJoint) -> float:
    """Return how long it takes here and now to have a gang."""
    app = joint.apps.submit(tags=["gang:3x4"]).register()
    since_s = time.monotonic()
    app.allocate(gpus(3, 4))
    app.hold(3)
    took_s = time.monotonic() - since_s
    app.kill()
    await_end(joint, app)
    return took_s


def was_committed(joint: ServedJoint, app: App) -> bool:
    """Whether containers of it were ever allocated, by the resource manager's log."""
    name = app.app_id.removeprefix("application_")
    allocated = rf"container_(e\d+_)?{name}_\d+_\d+ Container Transitioned from NEW to ALLOCATED"
    return re.search(allocated, joint.rm_log().read_text()) is not None


def test_kills_at_random_moments_of_a_gangs_life_leave_nothing_behind(joint: ServedJoint) -> None:
    seed = os.environ.get("YGS_SEED") or (str(time.time_ns()) if os.environ.get("YGS_RANDOM") else "kills")
    print(f"YGS_SEED={seed}")  # noqa: T201 - shown when the test fails, to play it again
    draw = random.Random(seed)
    placed_s = min(1.0, seconds_to_be_placed(joint))
    refused = joint.counters()
    apps = []
    for number in range(KILLS):
        app = joint.apps.submit(name=f"killed-{number}", tags=["gang:3x4"]).register()
        asked = joint.apps.begin("allocate", app=app.app_id, asks=[gpus(3, 4)])
        if number % 4 == 0:  # of these it is certain that a commit came before
            placed = lambda app_id=app.app_id: joint.app(app_id)["runningContainers"]  # noqa: E731 - one line, used once
            joint.until(placed, lambda now: now > 0, "it is placed")
        until_s = time.monotonic() + placed_s * (0.0, 0.0, draw.random() ** 4, draw.random())[number % 4]
        while time.monotonic() < until_s:
            pass  # a moment is meant, not a condition
        killed = joint.apps.begin("kill", app=app.app_id)
        apps.append(app)
        joint.apps.answer(killed, "the kill")
        answered_or_gone(joint, asked, app)
    for app in apps:
        assert await_end(joint, app) == job_pb2.JOB_END_KILLED
    joint.await_idle()
    joint.await_held(NOTHING_HELD)
    committed = [number for number, app in enumerate(apps) if was_committed(joint, app)]
    print(f"committed: {committed}")  # noqa: T201 - shown when the test fails
    assert 0 < len(committed) < KILLS, "the moments were all before a commit, or all after it"
    gang(joint, 4, 4).hold(4)
    assert joint.counters()["ContainersRolledBack"] == refused["ContainersRolledBack"]


def test_of_gangs_that_wait_the_next_goes_when_the_first_is_killed(joint: ServedJoint) -> None:
    """In whatever order they are killed, nobody waits for a gang that is no more."""
    holder = gang(joint, 4, 4)
    holder.hold(4)
    waiting = [gang(joint, 3, 4) for _ in range(3)]
    for app in waiting:
        joint.await_state(app.app_id, FULL)
    waiting[0].kill()
    await_end(joint, waiting[0])
    holder.finish()
    waiting[1].hold(3)
    assert joint.placed_now(waiting[2].app_id) == {}
    waiting[1].kill()
    waiting[2].hold(3)
