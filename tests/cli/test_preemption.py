"""`ygs preemption`, `ygs preempt`, `ygs checkpoint` and what `ygs job show` tells a victim's owner."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from tests.cli.canned import APPLICATION, CONTAINER, Canned, job_view, preempted, preemption_plan
from tests.cli.test_listings import FORBIDDEN, HOSTILE
from tests.client.test_preemption import ask_owner, await_view, cluster, start_borrower
from yarn_gpu_sched.cli import documents, ygs
from yarn_gpu_sched.cli.preemption_documents import CheckpointDocument, PreemptionDocument, PreviewDocument
from yarn_gpu_sched.protocol.v1 import job_pb2, preemption_pb2

Run = Callable[..., Result]
ON = ("preemption", "on", "--reason", "agreed")


@pytest.fixture
def canned() -> Canned:
    return Canned()


@pytest.fixture
def run(canned: Canned) -> Iterator[Run]:
    with canned.serve() as address:
        yield lambda *arguments: CliRunner().invoke(ygs, arguments, env={"YGS_SERVICE": address, "COLUMNS": "80"})


def words(result: Result) -> str:
    assert result.exit_code == 0, result.output
    assert max(map(cell_len, result.output.splitlines())) <= 80
    return " ".join(result.output.split())


def read(result: Result, kind: type[msgspec.Struct]) -> Any:  # noqa: ANN401 - whatever the document holds
    """Read a document, which must be of this kind."""
    msgspec.convert(json.loads(result.output), kind, strict=True)
    return json.loads(result.output)


def test_it_shows_the_mode_why_and_what_is_under_way(run: Run) -> None:
    shown = words(run("preemption"))
    assert "preemption observe: it is decided, shown and counted who would be stopped" in shown
    assert "why the demonstration (switched by ada, 2026-09-22T10:00:00Z; after a restart" in shown
    assert "its settings hold again: off)" in shown
    assert "for another 1m40s: a resource manager has just registered" in shown
    assert "2 stopped, at most 16 are" in shown
    assert "7 stopped, 3 times observed" in shown
    assert f"for {APPLICATION} of root.research" in shown
    assert "4 GPUs at level 0 (fewest servers in one RDMA domain): 4 on gpu-a1:45454" in shown
    assert "stands warned, stopped in 12s" in shown
    assert "4 1h00m 2.0 GPU-h 1 speech ada" in shown
    assert "lost 2.0 GPU-h in all" in shown


def test_a_switch_needs_a_mode_and_a_reason(run: Run, canned: Canned) -> None:
    for wrong, said in (
        (("preemption", "on"), "--reason is missing"),
        (("preemption", "on", "--reason", " "), "--reason is missing"),
        (("preemption", "--reason", "why"), "go with a mode"),
        (("preemption", "perhaps"), "'off', 'observe', 'on'"),
    ):
        result = run(*wrong)
        assert (result.exit_code, said in result.output) == (2, True), result.output
    assert canned.switches == []


def test_a_switch_says_what_it_changed_and_whether_it_lasts(run: Run, canned: Canned) -> None:
    shown = words(run(*ON))
    assert "preemption changed from observe to on" in shown
    assert "does not survive a restart of the service: the service has no state_dir" in shown
    (asked,) = canned.switches
    assert (asked.mode, asked.reason, asked.dry_run) == (preemption_pb2.PREEMPTION_MODE_ON, "agreed", False)
    foretold = words(run("preemption", "off", "--dry-run"))
    assert "preemption would change from observe to off would spare, because they are only warned:" in foretold
    assert "nothing was changed" in foretold
    assert canned.switches[-1].dry_run
    turned = read(run("preemption", "off", "--dry-run", "--json"), PreemptionDocument)["turned"]
    assert (turned["dry_run"], turned["before"], turned["after"], turned["kept"]) == (True, "observe", "off", False)
    assert [victim["job_id"] for victim in turned["spared"]] == ["victim-1"]


def test_who_would_go_or_which_condition_fails(run: Run, canned: Canned) -> None:
    shown = words(run("preempt", "--dry-run", APPLICATION))
    assert "victim-1" in shown
    assert "what keeps it from being done now: - preemption is observe" in shown
    document = read(run("preempt", "--dry-run", APPLICATION, "--json"), PreviewDocument)
    assert document["plan"]["servers"] == [{"server_id": "gpu-a1:45454", "gpus": 4}]
    canned.preview = preemption_pb2.PreviewPreemptionResponse(
        condition="under_threshold", sentence="3 of 8 GPUs are in use"
    )
    assert words(run("preempt", "--dry-run", APPLICATION)).endswith(": 3 of 8 GPUs are in use")
    assert read(run("preempt", "--dry-run", APPLICATION, "--json"), PreviewDocument)["plan"] is None


def test_nobody_is_preempted_by_hand(run: Run) -> None:
    result = run("preempt", APPLICATION)
    assert result.exit_code == 2
    assert "decided by the scheduler, not by hand" in " ".join(result.output.split())


def test_a_checkpoint_is_reported(run: Run, canned: Canned) -> None:
    assert words(run("checkpoint", APPLICATION, "--attempt", "2")).startswith(f"noted for attempt 2 of {APPLICATION}")
    assert read(run("checkpoint", APPLICATION, "--json"), CheckpointDocument)["attempt"] == 1
    assert [report.attempt for report in canned.checkpoints] == [2, 0]


@pytest.mark.parametrize(
    ("fields", "now"),
    [
        (
            {"stopped_for": "owner", "stops_in_s": 12.0, "state": job_pb2.JOB_STATE_RUNNING},
            "warned: stopped in 12s for owner",
        ),
        ({"stopped_for": "owner", "state": job_pb2.JOB_STATE_RUNNING}, "being stopped for owner"),
        ({"state": job_pb2.JOB_STATE_RUNNING}, "runs again, attempt 1"),
        ({"state": job_pb2.JOB_STATE_PENDING}, "comes back by itself in its old place of the order: attempt 1 waits"),
    ],
)
def test_a_victims_owner_is_told_by_whom_when_why_and_where_it_stands(
    run: Run, canned: Canned, fields: dict[str, Any], now: str
) -> None:
    view = job_view()
    view.preempted.extend([preempted("first", 7_200.0), preempted("second", 60.0)])
    view.preempted_times = 5
    view.MergeFrom(job_pb2.JobView(**fields))
    canned.jobs = [view]
    shown = words(run("job", "show", APPLICATION))
    assert (
        "stopped 1m00s ago for second of root.speech, which was within its quota; lost 2.0 GPU-h. 2h00m ago for first"
        in shown
    )
    assert "3 times before" in shown
    assert now in shown
    document = read(run("job", "show", APPLICATION, "--json"), documents.JobWithContainersDocument)
    assert [time["by_job_id"] for time in document["preempted"]] == ["first", "second"]
    assert (document["preempted_times"], document["stopped_for"]) == (5, fields.get("stopped_for"))
    assert document["stops_in_s"] == fields.get("stops_in_s")


@pytest.mark.parametrize(
    "command", [("preemption",), ("preempt", "--dry-run", APPLICATION), ON, ("job", "show", APPLICATION)]
)
def test_no_control_sequence_reaches_the_terminal(canned: Canned, run: Run, command: tuple[str, ...]) -> None:
    canned.plan = preemption_plan(HOSTILE)
    canned.reason = canned.not_kept = HOSTILE
    view = job_view()
    view.preempted.append(preempted(HOSTILE, 1.0))
    view.stopped_for = HOSTILE
    canned.jobs = [view]
    canned.preview = preemption_pb2.PreviewPreemptionResponse(plan=canned.plan, hindrances=[HOSTILE])
    plain, as_json = run(*command), run(*command, "--json")
    assert (plain.exit_code, as_json.exit_code) == (0, 0), plain.output
    assert FORBIDDEN.findall(plain.output) == []
    assert as_json.output.isascii()


def test_single_containers_are_named(run: Run, canned: Canned) -> None:
    canned.plan.victims[0].container_ids.append(CONTAINER)
    assert CONTAINER in re.sub(r"\s", "", run("preemption").output)


def test_with_the_service_itself(tmp_path: Path) -> None:
    with cluster(tmp_path, "--preempt-grace-s", "600") as (rm, client):

        def ygs_says(*arguments: str) -> str:
            service = ["--service", client.target]
            return words(CliRunner().invoke(ygs, [*arguments, *service], env={"COLUMNS": "80"}))

        start_borrower(rm, client)
        ask_owner(rm)
        await_view(client, "owner", lambda view: view.state == job_pb2.JOB_STATE_PENDING)
        assert "borrower 8" in ygs_says("preempt", "--dry-run", "owner")
        assert "preemption is observe" in ygs_says("preempt", "--dry-run", "owner")
        assert "changed from observe to on" in ygs_says(*ON)
        await_view(client, "borrower", lambda view: bool(view.stopped_for))
        assert "stands warned, stopped in" in ygs_says("preemption")
        assert "warned: stopped in" in ygs_says("job", "show", "borrower")
        assert "for the rest borrower is warned, and stopped in" in client.why("owner").waiting.sentence
        outlook = client.why("owner").outlook
        assert outlook.changes[0].startswith("the end of borrower, stopped for it in ")
        assert outlook.when.endswith("and what they take to end, or as soon as it finds room before")
        assert (list(outlook.job_ids), 0 < outlook.starts_in_s <= 600) == (["borrower"], True)
        assert "noted for attempt 1" in ygs_says("checkpoint", "borrower")
        assert "spared, because they are only warned: VICTIM" in ygs_says("preemption", "off", "--reason", "enough")
