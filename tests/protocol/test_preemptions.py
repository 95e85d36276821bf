"""What is shown of preemption, as messages: every field, in seconds from now, and never more than a message holds."""

from __future__ import annotations

import pytest

from yarn_gpu_sched.engine import views
from yarn_gpu_sched.engine.foretelling import CONDITIONS
from yarn_gpu_sched.model.job import Job, JobState
from yarn_gpu_sched.model.preemption import Mode, Preempted
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.protocol.bounds import MESSAGE_BYTES_MAX
from yarn_gpu_sched.protocol.convert import job_view_message, preemption_message, preview_message
from yarn_gpu_sched.protocol.enums import PREEMPTION_MODE_NUMBERS, PREEMPTION_MODES
from yarn_gpu_sched.protocol.v1 import job_pb2, preemption_pb2

NOW_S = 1_000.0
VICTIM = views.VictimView("victim", "root.a", "someone", 4, 3_600.0, 7_200.0, 2, ("c1", "c2"))


def plan(**fields: object) -> views.PlanView:
    given: dict[str, object] = {
        "job_id": "owner",
        "vc": "root.b",
        "gpus": 4,
        "level": 1,
        "victims": (VICTIM,),
        "servers": (("gpu-1", 3), ("gpu-2", 1)),
        "stage": "warned",
        "decided_s": NOW_S - 20,
        "until_s": NOW_S + 10,
    }
    return views.PlanView(**(given | fields))  # type: ignore[arg-type] # fields come from the caller, by name


def view(*plans: views.PlanView) -> views.PreemptionView:
    return views.PreemptionView(Mode.ON, "armed", NOW_S + 100, 3, 16, plans)


def test_what_is_under_way_has_every_field() -> None:
    message = preemption_message(view(plan()), NOW_S)
    assert (message.mode, message.quiet_for_s) == (preemption_pb2.PREEMPTION_MODE_ON, 100)
    assert (message.stopped_last_minute, message.per_minute_max, message.plans_left_out) == (3, 16, 0)
    (one,) = message.plans
    assert (one.job_id, one.virtual_cluster, one.gpus, one.level) == ("owner", "root.b", 4, 1)
    assert (one.stage, one.age_s, one.left_s) == (preemption_pb2.PREEMPTION_STAGE_WARNED, 20, 10)
    assert [(server.server_id, server.gpus) for server in one.servers] == [("gpu-1", 3), ("gpu-2", 1)]
    (victim,) = one.victims
    assert (victim.job_id, victim.virtual_cluster, victim.user, victim.gpus) == ("victim", "root.a", "someone", 4)
    assert (victim.ran_s, victim.lost_gpu_s, victim.stopped_before) == (3_600, 7_200, 2)
    assert list(victim.container_ids) == ["c1", "c2"]


@pytest.mark.parametrize("stage", ["proposed", "warned", "stopping"])
def test_every_stage_has_its_number(stage: str) -> None:
    message = preemption_message(view(plan(stage=stage, until_s=None)), NOW_S).plans[0]
    assert preemption_pb2.PreemptionStage.Name(message.stage) == f"PREEMPTION_STAGE_{stage.upper()}"
    assert not message.HasField("left_s")


def test_every_mode_comes_back_as_it_went() -> None:
    assert {PREEMPTION_MODES[PREEMPTION_MODE_NUMBERS[mode]] for mode in Mode} == set(Mode)


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    servers = tuple((f"{number:0256}", 1) for number in range(500))
    message = preemption_message(view(*(plan(job_id=f"job-{number}", servers=servers) for number in range(20))), NOW_S)
    assert message.ByteSize() <= MESSAGE_BYTES_MAX
    assert (len(message.plans) + message.plans_left_out, message.plans_left_out > 0, len(message.plans) > 0) == (
        20,
        True,
        True,
    )


def test_a_preview_is_a_plan_or_a_condition_with_printable_sentences() -> None:
    found = preview_message(views.PreemptionPreview(plan(until_s=None), hindrances=("it is\x1b[2J off",)), NOW_S)
    assert (found.plan.job_id, found.condition, list(found.hindrances)) == ("owner", "", ["it is [2J off"])
    none = preview_message(views.PreemptionPreview(condition="too_few", sentence="4 GPUs\nare free"), NOW_S)
    assert (none.HasField("plan"), none.condition, none.sentence) == (False, "too_few", "4 GPUs are free")


def test_the_protocol_names_every_condition() -> None:
    """Programs tell them apart by these words."""
    assert (
        *("not_waiting", "no_quotas", "forbidden", "fits", "over_quota", "under_threshold", "no_victim", "too_few"),
        "rate",
    ) == CONDITIONS


def told(**fields: object) -> job_pb2.JobView:
    job = Job("job-1", "root.a", "someone", "training", (), 1, 2, active=True)
    given = {"gang_containers": 1, "gpus_pending": 0, "used": Resource(0, 0, 0), "first_seen_s": NOW_S - 50} | fields
    shown = views.JobView(job=job, state=JobState.RUNNING, **given)  # type: ignore[arg-type] # fields come from the caller, by name
    return job_view_message(shown, NOW_S)


def test_a_job_tells_its_last_sixteen_preemptions_and_how_many_there_were() -> None:
    times = tuple(Preempted(NOW_S - 20 + number, f"owner-{number}", "root.b", 5.0) for number in range(20))
    message = told(preempted=times)
    assert (message.preempted_times, len(message.preempted)) == (20, 16)
    first, last = message.preempted[0], message.preempted[-1]
    assert (first.by_job_id, last.by_job_id, last.by_virtual_cluster) == ("owner-4", "owner-19", "root.b")
    assert (last.age_s, last.lost_gpu_s) == (1, 5)


def test_a_job_tells_when_it_is_stopped_as_long_as_it_is_only_warned() -> None:
    warned, stopping = (told(stopped_for="owner", stopped_at_s=at_s) for at_s in (NOW_S + 12, NOW_S - 1))
    assert (warned.stopped_for, warned.stops_in_s) == ("owner", 12)
    assert (stopping.stopped_for, stopping.HasField("stops_in_s")) == ("owner", False)
    assert (told().stopped_for, told().HasField("stops_in_s")) == ("", False)
