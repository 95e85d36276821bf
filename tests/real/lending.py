"""Queues that lend to each other and take back, and jobs that borrow, on a real cluster."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.real.apps import App, gpus
from tests.real.joint import ServedJoint
from tests.real.queues import keys, of
from yarn_gpu_sched.embedded import free_port
from yarn_gpu_sched.protocol.v1 import job_pb2, preemption_pb2

QUOTA_GPUS = 8
# For 16 GPUs: a and b may each use all of them.
QUEUES: dict[str, str] = {
    key: str(value)
    for key, value in keys(
        {
            "queues": "default,a,b",
            "default.capacity": of(0),
            "a.capacity": of(QUOTA_GPUS),
            "a.user-limit-factor": "-1",
            "b.capacity": of(QUOTA_GPUS),
            "b.user-limit-factor": "-1",
        }
    ).items()
}
AFTER_S, GRACE_S, HOLD_S = 1, 1, 60
PATIENT = {"YGS_PREEMPT_GRACE_S": "300"}
"""With these a victim is warned for longer than any test takes."""
MANAGED = {"unmanaged": False, "attempts": 2}
WARNED, STOPPING = preemption_pb2.PREEMPTION_STAGE_WARNED, preemption_pb2.PREEMPTION_STAGE_STOPPING


def service_settings(folder: Path) -> dict[str, str]:
    """Return with what the service is started: armed, and soon done."""
    return {
        "YGS_METRICS_LISTEN": f"127.0.0.1:{free_port()}",
        "YGS_STATE_DIR": str(folder / "state"),
        "YGS_PREEMPTION": "on",
        "YGS_PREEMPT_AFTER_S": str(AFTER_S),
        "YGS_PREEMPT_GRACE_S": str(GRACE_S),
        "YGS_PREEMPT_HOLD_S": str(HOLD_S),
        "YGS_PREEMPT_MIN_RUN_S": "0",
        "YGS_PREEMPT_PAUSE_S": "0",
        "YGS_PREEMPT_VICTIMS_PER_MINUTE": "1000",  # tests follow each other
    }


@contextmanager
def served_with(joint: ServedJoint, **settings: str) -> Iterator[None]:
    """Let the service run with other settings; what was switched meanwhile is forgotten at the end."""
    restart_service(joint, **settings)
    try:
        yield
    finally:
        (Path(joint.environment["YGS_STATE_DIR"]) / "preemption.json").unlink(missing_ok=True)
        restart_service(joint)


def restart_service(joint: ServedJoint, **settings: str) -> None:
    """Kill the service and start it with other settings than this joint's."""
    joint.cluster.kill("service")
    joint.serve(**settings)
    joint.await_connected()
    joint.await_whole()


@contextmanager
def observed_only(joint: ServedJoint) -> Iterator[None]:
    """Let the service only look whom it would have stopped; afterwards it is armed again."""
    joint.client.set_preemption(preemption_pb2.PREEMPTION_MODE_OBSERVE, "to see")
    try:
        yield
    finally:
        joint.client.set_preemption(preemption_pb2.PREEMPTION_MODE_ON, "seen")


# Jobs


def gang(joint: ServedJoint, queue: str, containers: int, each: int, **more: object) -> App:
    """Let a job ask for a gang; its master is not YARN's, unless told otherwise."""
    app = joint.apps.submit(tags=[f"gang:{containers}x{each}"], queue=queue, **more).register()
    app.allocate(gpus(containers, each))
    return app


def running(joint: ServedJoint, queue: str, containers: int, each: int, **more: object) -> App:
    """Let a job run a gang, by its master's word and by the service's."""
    app = gang(joint, queue, containers, each, **more)
    app.hold(containers)
    joint.on_gpus(app.app_id, containers)
    return app


def ask_again(app: App, attempt: int, containers: int, each: int) -> None:
    """Let the master of a job's next attempt ask as the one before did."""
    assert app.register(attempt=attempt).attempt == attempt
    app.allocate(gpus(containers, each))


@contextmanager
def frozen(joint: ServedJoint, server: str) -> Iterator[None]:
    """Let a server say nothing for a while."""
    joint.cluster.kill(server, signal.SIGSTOP)
    try:
        yield
    finally:
        joint.cluster.kill(server, signal.SIGCONT)


# What is under way


def plan_of(joint: ServedJoint, app: App) -> preemption_pb2.PreemptionPlan | None:
    """Return whom the service stops for a job."""
    plans = joint.client.preemption().plans
    return next((plan for plan in plans if plan.job_id == app.app_id), None)


def await_plan(joint: ServedJoint, app: App, stage: int = WARNED) -> preemption_pb2.PreemptionPlan:
    """Wait until others are warned for a job, or stopped; return who."""
    found = joint.until(lambda: plan_of(joint, app), lambda plan: plan is not None and plan.stage == stage, "a plan")
    assert found is not None
    return found


def await_stopped(joint: ServedJoint, app: App, by: App, times: int = 1) -> job_pb2.JobView:
    """Wait until the service says that a job was stopped so often, the last time for another; return what it says."""
    view = joint.until(
        lambda: joint.view(app.app_id), lambda now: now.preempted_times == times, f"{app.app_id} is stopped"
    )
    assert (view.preempted[-1].by_job_id, view.preempted[-1].by_virtual_cluster) == (by.app_id, "root.b")
    return view


def preview(joint: ServedJoint, app: App) -> preemption_pb2.PreviewPreemptionResponse:
    """Return whom a job would have stopped, or why nobody."""
    return joint.client.preview_preemption(app.app_id)


def told(joint: ServedJoint, app: App) -> list[str]:
    """Let a master heartbeat until its reply has a preemption message; return whom that names."""
    reply = joint.until(app.allocate, lambda now: "preemption" in now, f"the master of {app.app_id} is told")
    assert reply["preemption"]["strict"] == []
    return sorted(reply["preemption"]["negotiable"])


def metric(joint: ServedJoint, name: str) -> float:
    """Return a figure of the service that has no labels."""
    with urlopen(f"http://{joint.environment['YGS_METRICS_LISTEN']}/metrics", timeout=20) as page:
        lines = page.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def logged(joint: ServedJoint, event: str, app: App) -> list[dict[str, Any]]:
    """Return what services of this cluster have written of an event of a job to their log."""
    whole, _, _ = joint.cluster.logs()["service"].read_text().rpartition("\n")
    told_of = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
    return [one for one in told_of if one["event"] == event and one["job_id"] == app.app_id]
