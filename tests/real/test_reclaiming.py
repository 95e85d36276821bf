"""What a queue lent comes back on a real cluster: the service decides, YARN warns and stops, and who was stopped returns."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.real.apps import App, gpus
from tests.real.changes import BOTH_IN_SOAK, changing, registered_again
from tests.real.command_line import ygs
from tests.real.joint import FULL, ServedJoint, YarnRun
from tests.real.lending import (
    AFTER_S,
    GRACE_S,
    MANAGED,
    PATIENT,
    STOPPING,
    ask_again,
    await_plan,
    await_stopped,
    frozen,
    gang,
    logged,
    metric,
    observed_only,
    plan_of,
    preview,
    restart_service,
    running,
    served_with,
    told,
)
from tests.real.test_preempting import ABORTED, PREEMPTED, STUBBORN, exits
from yarn_gpu_sched.protocol.v1 import preemption_pb2, reason_pb2

pytestmark = [pytest.mark.real, pytest.mark.timeout(300), *BOTH_IN_SOAK]
OVER_QUOTA = reason_pb2.WAITING_REASON_CODE_VC_QUOTA
WITHIN_S = 10


@pytest.fixture
def workers(lending: ServedJoint, request: pytest.FixtureRequest) -> Path:
    """Return the folder for the logs of a test's workers."""
    folder = lending.folder / "workers" / str(request.node.name)
    folder.mkdir(parents=True)
    return folder


def victims_of(joint: ServedJoint, app: App) -> list[str]:
    """Return whom a job would have stopped."""
    return sorted(victim.job_id for victim in preview(joint, app).plan.victims)


@pytest.mark.both
def test_whole_borrowed_jobs_go_for_a_gang_within_its_quota_and_come_back_and_finish(
    lending: ServedJoint, workers: Path
) -> None:
    """One victim is stock distributed shell, the master of the other heartbeats on and does nothing with the message."""
    joint = lending
    stays = running(joint, "a", 2, 4)
    run, shell = stock_gang(joint, workers / "shell")
    ignores = running(joint, "a", 2, 2, **MANAGED)
    ignores.launch(STUBBORN)
    late = gang(joint, "a", 1, 1)
    assert "it would borrow" in joint.await_state(late.app_id, OVER_QUOTA)
    kept = joint.placed(stays.app_id, 2)

    heartbeats = joint.apps.begin("await", app=ignores.app_id, completed=1, timeout_s=60)
    owner = served_soon(joint, workers / "owner")
    assert "error" in heartbeats.result(timeout=90)
    for victim in (shell, ignores):
        await_ended_as_preempted(joint, victim, owner)
    assert (joint.placed_now(stays.app_id), joint.placed_now(late.app_id)) == (kept, {})

    ask_again(ignores, 2, 2, 2)
    for victim in (shell, ignores):
        joint.await_state(victim.app_id, OVER_QUOTA)
    (workers / "owner" / "stop").touch()
    owner.await_completed(2)
    owner.finish()
    ignores.hold(4)  # counted from the start
    joint.await_started(workers / "shell", 8)
    assert joint.placed_now(late.app_id) == {}, "who was stopped keeps its place"
    (workers / "shell" / "stop").touch()
    ignores.finish()
    joint.until(lambda: run.exit_code, lambda code: code is not None, "the stock client has ended", 90)
    assert run.exit_code == 0, run.output
    for victim in (shell, ignores):
        joint.until(victim.report, lambda now: now["final"] == "SUCCEEDED", f"{victim.app_id} ends well")


def stock_gang(joint: ServedJoint, folder: Path) -> tuple[YarnRun, App]:
    """Let the stock command line run a gang of four in queue a."""
    folder.mkdir()
    run = joint.distributed_shell(
        folder,
        "stop",
        *("-appname", "shell", "-queue", "a", "-num_containers", "4", "-application_tags", "gang:4x1"),
        *("-container_resources", "memory-mb=256,vcores=1,yarn.io/gpu=1"),
    )
    joint.await_started(folder, 4)
    (job_id,) = [view.job.job_id for view in joint.client.jobs() if view.job.name == "shell"]
    joint.on_gpus(job_id, 4)
    return run, App(joint.apps, job_id)


def served_soon(joint: ServedJoint, folder: Path) -> App:
    """Let a gang of queue b ask for half of the cluster; it runs when the grace has ended, within seconds."""
    asked_at_s = time.time()
    owner = gang(joint, "b", 2, 4)
    owner.hold(2)
    owner.launch(joint.worker(folder, "stop"))
    started = joint.await_started(folder, 2)
    assert max(spell.start_s for spell in started.values()) - asked_at_s <= AFTER_S + GRACE_S + WITHIN_S
    return owner


def await_ended_as_preempted(joint: ServedJoint, victim: App, owner: App) -> None:
    """Wait until a job's first attempt has ended for another; YARN says so, and for whom."""
    await_stopped(joint, victim, owner)
    first = joint.until(victim.attempts, lambda them: them[0]["state"] == "FAILED", "its attempt has ended")[0]
    assert f"exitCode: {PREEMPTED}" in first["diagnostics"]
    assert f"preempted for job {owner.app_id} of root.b" in first["diagnostics"]


def test_one_gpu_below_the_threshold_nobody_goes(lending: ServedJoint) -> None:
    """Of 16 GPUs 14 are in use, which is less than 90 %; 15 are not."""
    joint = lending
    running(joint, "a", 2, 4)
    first, second = running(joint, "a", 1, 4, **MANAGED), running(joint, "a", 1, 2, **MANAGED)
    owner = gang(joint, "b", 1, 4)
    joint.await_state(owner.app_id, FULL)
    asked = joint.view(owner.app_id).age_s
    joint.until(lambda: joint.view(owner.app_id).age_s, lambda age_s: age_s > asked + AFTER_S + 1, "it has waited")
    answer = preview(joint, owner)
    assert answer.condition == "under_threshold"
    assert "14 of 16 GPUs are in use, held or reserved, and that must be 90 % of them" in answer.sentence
    assert not joint.client.preemption().plans
    assert [joint.view(app.app_id).preempted_times for app in (first, second)] == [0, 0]
    running(joint, "a", 1, 1)
    owner.hold(1)
    await_stopped(joint, first, owner)
    assert joint.view(second.app_id).preempted_times == 0
    assert len(joint.on_gpus_now(second.app_id)) == 1


def test_three_preemptions_do_not_end_a_job_and_then_it_is_spared(lending: ServedJoint) -> None:
    joint = lending
    running(joint, "a", 2, 4)
    victim = running(joint, "a", 2, 4, **MANAGED)
    for attempt in (1, 2, 3):
        owner = gang(joint, "b", 2, 4)
        owner.hold(2)
        await_stopped(joint, victim, owner, times=attempt)
        owner.finish()
        ask_again(victim, attempt + 1, 2, 4)
        victim.hold(2 * attempt + 2)  # counted from the start
        placed = joint.on_gpus(victim.app_id, 2)
    owner = gang(joint, "b", 2, 4)
    joint.await_state(owner.app_id, FULL)
    asked = joint.view(owner.app_id).age_s
    joint.until(lambda: joint.view(owner.app_id).age_s, lambda age_s: age_s > asked + AFTER_S + 1, "it has waited")
    assert preview(joint, owner).condition == "no_victim"
    assert plan_of(joint, owner) is None
    assert joint.on_gpus_now(victim.app_id) == placed
    victim.finish()
    owner.hold(2)
    joint.until(victim.report, lambda now: now["final"] == "SUCCEEDED", "it ends well")


@pytest.mark.both
def test_an_application_that_keeps_its_containers_loses_them_as_well(lending: ServedJoint, workers: Path) -> None:
    joint = lending
    running(joint, "a", 2, 4)
    victim = running(joint, "a", 2, 4, keeps=True, **MANAGED)
    victim.launch(joint.worker(workers / "victim", "stop"))
    lost = list(joint.await_started(workers / "victim", 2))
    owner = gang(joint, "b", 2, 4)
    owner.hold(2)
    owner.launch(joint.worker(workers / "owner", "stop"))
    joint.await_started(workers / "owner", 2)
    assert victim.register(attempt=2).attempt == 2
    assert exits(victim.await_completed(2)) == dict.fromkeys(lost, ABORTED)
    assert joint.on_gpus_now(victim.app_id) == {}


def test_a_master_outside_of_the_cluster_is_never_stopped(lending: ServedJoint) -> None:
    """Of two that borrow the younger one loses less, but is not YARN's to stop."""
    joint = lending
    running(joint, "a", 2, 4)
    victim, unmanaged = running(joint, "a", 1, 4, **MANAGED), running(joint, "a", 1, 4)
    owner = gang(joint, "b", 1, 4)
    owner.hold(1)
    await_stopped(joint, victim, owner)
    more = gang(joint, "b", 1, 4)
    joint.await_state(more.app_id, FULL)
    answer = preview(joint, more)
    assert answer.condition == "no_victim", answer
    unmanaged.finish()
    more.hold(1)


def test_an_application_without_a_gang_loses_single_containers_and_goes_on(lending: ServedJoint) -> None:
    joint = lending
    running(joint, "a", 2, 4)
    victim = joint.apps.submit(queue="a", unmanaged=False).register()
    victim.allocate(gpus(8))
    held = sorted(str(one["container"]) for one in victim.hold(8))
    joint.on_gpus(victim.app_id, 8)
    owner = gang(joint, "b", 2, 1)
    owner.hold(2)
    gone = exits(victim.await_completed(2))
    assert gone == dict.fromkeys(held[-2:], PREEMPTED), "the youngest"
    await_stopped(joint, victim, owner)
    assert set(joint.on_gpus_now(victim.app_id)) == set(held[:-2])
    victim.allocate(gpus(2))
    joint.await_state(victim.app_id, OVER_QUOTA)
    owner.finish()
    victim.hold(10)  # counted from the start
    assert (victim.attempt, victim.report()["state"]) == (1, "RUNNING")


def test_who_wrote_a_checkpoint_loses_less_and_goes_rather(lending: ServedJoint, workers: Path) -> None:
    """Its container touches the file that its environment names."""
    joint = lending
    running(joint, "a", 2, 4)
    older, younger = running(joint, "a", 1, 4, **MANAGED), running(joint, "a", 1, 4, **MANAGED)
    touches = workers / "touches.sh"
    touches.write_text(f'until [[ -e {workers}/go ]]; do sleep 0.1; done; touch "$YGS_CHECKPOINT_FILE"; sleep 300\n')
    older.launch(f"bash {touches}")
    with observed_only(joint):
        owner = gang(joint, "b", 1, 4)
        joint.until(lambda: victims_of(joint, owner), [younger.app_id].__eq__, "the younger one has less to lose")
        (workers / "go").touch()
        joint.until(lambda: victims_of(joint, owner), [older.app_id].__eq__, "what the older one did is safe")
    owner.hold(1)
    await_stopped(joint, older, owner)
    assert joint.view(younger.app_id).preempted_times == 0


def test_it_is_observed_then_armed_then_off_at_once_and_still_off_after_a_restart(lending: ServedJoint) -> None:
    joint = lending
    running(joint, "a", 2, 4)
    victim = running(joint, "a", 2, 4, **MANAGED)
    kept = joint.placed(victim.app_id, 3)
    with served_with(joint, **PATIENT):
        joint.client.set_preemption(preemption_pb2.PREEMPTION_MODE_OBSERVE, "to see")
        owner = gang(joint, "b", 2, 4)
        joint.until(lambda: joint.client.preemption().observed, bool, "it is observed that some would be stopped")
        observed = "ygs_preemptions_observed_total"
        joint.until(lambda: metric(joint, observed), bool, "it is counted")
        line = joint.until(lambda: logged(joint, "preemption_observed", owner), bool, "it is in the log")[0]
        assert line["victims"] == [victim.app_id]
        shown = ygs(joint, "preempt", "--dry-run", owner.app_id)
        assert [one["job_id"] for one in shown["plan"]["victims"]] == [victim.app_id]
        assert shown["hindrances"] == ["preemption is observe (to see)"]
        assert joint.client.why(owner.app_id).waiting.code in FULL
        assert "preemption" not in victim.allocate()
        assert not joint.client.preemption().plans

        joint.client.set_preemption(preemption_pb2.PREEMPTION_MODE_ON, "seen")
        (warned,) = await_plan(joint, owner).victims
        assert warned.job_id == joint.client.why(owner.app_id).outlook.job_ids[0] == victim.app_id
        assert told(joint, victim) == sorted(kept)
        assert joint.view(victim.app_id).stopped_for == owner.app_id
        assert metric(joint, "ygs_preemptions_total") == 0

        switched = ygs(joint, "preemption", "off", "--reason", "enough")
        assert [one["job_id"] for one in switched["turned"]["spared"]] == [victim.app_id]
        assert switched["plans"] == []
        assert joint.view(victim.app_id).stopped_for == ""
        restart_service(joint, **PATIENT)
        now = ygs(joint, "preemption")
        assert (now["mode"], now["switched"]["reason"], now["keeps_switch"]) == ("off", "enough", True)
        joint.until(lambda: victims_of(joint, owner), [victim.app_id].__eq__, "whom it would have stopped")
        assert next(iter(preview(joint, owner).hindrances)) == "preemption is off (enough)"
        assert (joint.placed_now(victim.app_id), joint.client.preemption().stopped) == (kept, 0)


def test_the_resource_manager_and_then_the_service_killed_in_a_grace_spare_who_is_warned(
    lending: ServedJoint, workers: Path
) -> None:
    joint = lending
    other = running(joint, "a", 2, 4)
    victim = running(joint, "a", 2, 4, **MANAGED)
    for app in (other, victim):  # the resource manager remembers what its servers run
        app.launch(joint.worker(workers, "stop"))
    joint.await_started(workers, 4)
    kept = joint.placed(victim.app_id, 3)
    with served_with(joint, **PATIENT), changing(joint) as changes:
        owner = gang(joint, "b", 2, 4)
        assert [one.job_id for one in await_plan(joint, owner).victims] == [victim.app_id]
        changes.stop("rm")
        joint.until(lambda: joint.client.cluster().connected, lambda up: not up, "the service has noticed")
        changes.start("rm")
        joint.await_connected(90)
        assert not joint.client.preemption().plans, "for whom anybody was warned has not asked again"
        for app in (other, victim, owner):
            registered_again(joint, app)
        changes.await_back()
        joint.until(lambda: joint.placed_now(victim.app_id), kept.__eq__, "the victim has what it had")

        owner.allocate(gpus(2, 4))
        assert [one.job_id for one in await_plan(joint, owner).victims] == [victim.app_id], "it is warned anew"
        restart_service(joint, YGS_PREEMPT_PAUSE_S="300", **PATIENT)
        now = joint.client.preemption()
        assert (list(now.plans), now.quiet_for_s > 0, now.stopped) == ([], True, 0)
        assert joint.placed_now(victim.app_id) == kept
        assert victim.attempt == len(victim.attempts()) == 1
        victim.finish()
        owner.hold(2)


def test_a_victim_that_does_not_end_is_reported_and_what_it_holds_is_given_to_nobody_before(
    lending: ServedJoint, workers: Path
) -> None:
    """Its server does not answer for a while."""
    joint = lending
    running(joint, "a", 2, 4)
    running(joint, "a", 1, 4)
    victim = running(joint, "a", 1, 4, **MANAGED)
    victim.launch(joint.worker(workers / "victim", "stop"))
    (spell,) = joint.await_started(workers / "victim", 1).values()
    with frozen(joint, spell.server):
        owner = gang(joint, "b", 1, 4)
        await_plan(joint, owner, STOPPING)
        joint.until(lambda: metric(joint, "ygs_preemption_victims_late"), bool, "it is late")
        (line,) = logged(joint, "preemption_victim_late", victim)
        assert line["by_job_id"] == owner.app_id
        assert owner.allocate()["allocated"] == []
    owner.hold(1)
    joint.until(lambda: metric(joint, "ygs_preemption_victims_late"), lambda count: count == 0, "it has ended")
