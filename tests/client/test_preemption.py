"""Preemption as operators and jobs see it: the product's own service as a process, and a resource manager in memory."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.client.real_service import killed_service, real_service
from tests.client.scripted import await_condition
from yarn_gpu_sched.client import Client, FakeResourceManager, InvalidRequestError, NotFoundError, RejectedError
from yarn_gpu_sched.protocol.v1 import job_pb2, preemption_pb2

WAIT_S = 60.0
SHORT = ("--preempt-after-s", "0.2", "--preempt-min-run-s", "0", "--preempt-pause-s", "0")
OFF, OBSERVE, ON = (
    preemption_pb2.PREEMPTION_MODE_OFF,
    preemption_pb2.PREEMPTION_MODE_OBSERVE,
    preemption_pb2.PREEMPTION_MODE_ON,
)
WARNED, STOPPING = preemption_pb2.PREEMPTION_STAGE_WARNED, preemption_pb2.PREEMPTION_STAGE_STOPPING


@contextmanager
def cluster(folder: Path, *options: str) -> Iterator[tuple[FakeResourceManager, Client]]:
    """Run a service for two servers of 4 GPUs, of which queues a and b own 4 each."""
    with (
        real_service(folder, *SHORT, *options) as address,
        FakeResourceManager(address) as rm,
        Client(address, timeout_s=WAIT_S) as client,
    ):
        furnish(rm)
        yield rm, client


def furnish(rm: FakeResourceManager) -> None:
    for queue in ("a", "b"):
        rm.add_virtual_cluster(f"root.{queue}", quota_gpus=4)
    for host in ("gpu-a1", "gpu-a2"):
        rm.add_server(host)


def start_borrower(rm: FakeResourceManager, client: Client) -> None:
    """Let a job of queue a take all 8 GPUs: it borrows as a whole."""
    rm.submit("borrower", vc="root.a", tags=["gang:2x4"], unmanaged=False)
    rm.ask("borrower", 2, gpus=4)
    rm.wait(lambda: len(rm.containers("borrower")) == 2, timeout_s=WAIT_S)
    await_view(client, "borrower", lambda view: view.state == job_pb2.JOB_STATE_RUNNING)


def ask_owner(rm: FakeResourceManager) -> None:
    """Let a gang of queue b ask what its quota promises."""
    rm.submit("owner", vc="root.b", tags=["gang:1x4"])
    rm.ask("owner", 1, gpus=4)


def await_view(client: Client, job_id: str, holds: Callable[[job_pb2.JobView], bool]) -> job_pb2.JobView:
    for view in client.watch(job_id, for_s=WAIT_S):
        if holds(view):
            return view
    raise AssertionError(f"the service never said so of {job_id}")


def lines(folder: Path, event: str) -> list[dict[str, Any]]:
    """Read what the service logged of an event."""
    read = [json.loads(line) for line in (folder / "service.log").read_text().splitlines() if line.endswith("}")]
    return [line for line in read if line["event"] == event]


def metric(folder: Path, name: str) -> float:
    """Read a figure as Prometheus would."""
    (address,) = {line["address"] for line in lines(folder, "metrics_listening")}
    with urlopen(f"http://{address}/metrics", timeout=WAIT_S) as answer:
        text = answer.read().decode()
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"{name} "))


def test_a_borrowed_gang_is_warned_and_stopped_and_who_owns_the_gpus_is_placed(tmp_path: Path) -> None:
    on = ("--preemption", "on", "--preempt-grace-s", "2", "--metrics-listen", "127.0.0.1:0")
    with cluster(tmp_path, *on) as (rm, client):
        start_borrower(rm, client)
        assert client.report_checkpoint("borrower") == 1
        ask_owner(rm)
        warned = await_view(client, "borrower", lambda view: bool(view.stopped_for))
        assert (warned.stopped_for, warned.preempted_times, 0 < warned.stops_in_s <= 2) == ("owner", 0, True)
        (plan,) = client.preemption().plans
        assert (plan.job_id, plan.stage, [one.job_id for one in plan.victims]) == ("owner", WARNED, ["borrower"])
        assert client.preview_preemption("owner").plan.stage == WARNED
        assert "borrower" in client.why("owner").waiting.sentence
        rm.wait(lambda: len(rm.containers("owner")) == 1, timeout_s=WAIT_S)
        (told,) = rm.warnings("borrower")
        assert "owner" in told.diagnostics
        assert (rm.attempt("borrower"), rm.containers("borrower")) == (2, [])
        view = await_view(client, "borrower", lambda view: view.preempted_times == 1)
        (time,) = view.preempted
        assert (time.by_job_id, time.by_virtual_cluster, view.state) == ("owner", "root.b", job_pb2.JOB_STATE_PENDING)
        assert 0 < time.lost_gpu_s < 8 * WAIT_S
        await_condition(lambda: client.preemption().plans == [])
        assert (client.preemption().stopped, client.preemption().stopped_last_minute) == (1, 1)
        await_condition(lambda: metric(tmp_path, "ygs_preemptions_total") == 1)
        assert metric(tmp_path, 'ygs_preemption_mode{mode="on"}') == 1
        assert metric(tmp_path, "ygs_preemption_victims_late") == 0
    decided, stopping = lines(tmp_path, "preemption_decided"), lines(tmp_path, "preemption_stopping")
    assert [(line["job_id"], line["victims"], line["stage"]) for line in decided] == [("owner", ["borrower"], "warned")]
    assert [(line["job_id"], line["by_job_id"], line["containers"]) for line in stopping] == [("borrower", "owner", 2)]
    assert lines(tmp_path, "preemption_spared") == []


def test_observed_only_nobody_is_stopped_and_it_is_counted(tmp_path: Path) -> None:
    with cluster(tmp_path, "--metrics-listen", "127.0.0.1:0") as (rm, client):
        assert client.preemption().mode == OBSERVE, "the default"
        start_borrower(rm, client)
        ask_owner(rm)
        await_condition(lambda: client.preemption().observed > 0)
        await_condition(lambda: metric(tmp_path, "ygs_preemptions_observed_total") > 0)
        preview = client.preview_preemption("owner")
        assert [one.job_id for one in preview.plan.victims] == ["borrower"]
        assert any("preemption is observe" in sentence for sentence in preview.hindrances)
        assert client.preview_preemption("borrower").condition == "not_waiting"
        assert (len(rm.containers("borrower")), rm.warnings("borrower"), client.preemption().stopped) == (2, [], 0)
        assert client.set_preemption(ON, "", dry_run=True).before == OBSERVE
        assert client.preemption().mode == OBSERVE, "a dry run changes nothing"
        await_condition(lambda: lines(tmp_path, "preemption_observed") != [])
    assert lines(tmp_path, "preemption_observed")[0]["victims"] == ["borrower"]


def test_a_container_that_touches_its_checkpoint_file_loses_only_what_comes_after(tmp_path: Path) -> None:
    bindings = tmp_path / "bindings"
    with cluster(tmp_path, "--binding-dir", str(bindings), "--log-level", "debug") as (rm, client):
        start_borrower(rm, client)
        ask_owner(rm)
        await_view(client, "owner", lambda view: view.state == job_pb2.JOB_STATE_PENDING)
        container = rm.containers("borrower")[0].container_id
        await_condition((bindings / container).exists)
        await_condition(lambda: client.preview_preemption("owner").plan.victims[0].lost_gpu_s > 8)
        (bindings / "~checkpoints" / container).touch()
        await_condition(lambda: [line["job_id"] for line in lines(tmp_path, "checkpoint_reported")] == ["borrower"])
        (victim,) = client.preview_preemption("owner").plan.victims
        assert victim.lost_gpu_s < 8 * victim.ran_s - 8


def test_switched_off_who_is_warned_is_spared_at_once(tmp_path: Path) -> None:
    with cluster(tmp_path, "--preemption", "off", "--preempt-grace-s", "600") as (rm, client):
        start_borrower(rm, client)
        ask_owner(rm)
        answer = client.set_preemption(ON, "the demonstration", by="ada")
        assert (answer.before, answer.after, answer.kept, list(answer.spared)) == (OFF, ON, False, [])
        assert "state_dir" in answer.not_kept_because
        await_view(client, "borrower", lambda view: bool(view.stopped_for))
        foretold = client.set_preemption(OFF, "", dry_run=True)
        assert [one.job_id for one in foretold.spared] == ["borrower"]
        assert len(client.preemption().plans) == 1, "a dry run changes nothing"
        answer = client.set_preemption(OFF, "enough\nof it")
        assert ([one.job_id for one in answer.spared], answer.before, answer.after) == (["borrower"], ON, OFF)
        state = client.preemption()
        assert (state.mode, state.mode_of_settings, list(state.plans)) == (OFF, OFF, [])
        assert (state.switched.reason, state.switched.by) == ("enough of it", "")
        assert client.job("borrower").stopped_for == ""
        assert len(rm.containers("borrower")) == 2
        await_condition(lambda: [line["victims"] for line in lines(tmp_path, "preemption_spared")] == [["borrower"]])
    assert [line["mode"] for line in lines(tmp_path, "preemption_switched")] == ["on", "off"]


def test_the_switch_survives_a_kill_and_a_damaged_file_does_not_stop_the_service(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    options = ("--state-dir", str(state_dir), "--preemption", "observe")
    with killed_service(tmp_path, *options) as (address, pid), Client(address) as client:
        assert client.preemption().keeps_switch
        assert client.set_preemption(ON, "armed for good", by="ada").kept
        os.kill(pid, signal.SIGKILL)
    with real_service(tmp_path, *options) as address, Client(address) as client:
        state = client.preemption()
        assert (state.mode, state.mode_of_settings) == (ON, OBSERVE)
        assert (state.switched.reason, state.switched.by) == ("armed for good", "ada")
        assert client.set_preemption(OFF, "no more").kept
    (state_dir / "preemption.json").write_text('{"mode": "on", "why":')
    with real_service(tmp_path, *options) as address, Client(address) as client:
        state = client.preemption()
        assert (state.mode, state.HasField("switched")) == (OBSERVE, False)
    (warning,) = lines(tmp_path, "state_damaged")
    assert warning["level"] == "warning"
    assert (state_dir / "preemption.json.damaged").read_text() == '{"mode": "on", "why":'
    assert warning["kept"] == str(state_dir / "preemption.json.damaged")


def test_killed_in_the_middle_of_a_grace_the_victim_is_spared_and_it_stays_armed(tmp_path: Path) -> None:
    options = (*SHORT, "--state-dir", str(tmp_path / "state"), "--preempt-grace-s", "3")
    with ExitStack() as links:
        with killed_service(tmp_path, *options) as (address, pid), Client(address, timeout_s=WAIT_S) as client:
            rm = links.enter_context(FakeResourceManager(address))
            furnish(rm)
            start_borrower(rm, client)
            assert client.set_preemption(ON, "armed for good").kept
            ask_owner(rm)
            await_view(client, "borrower", lambda view: bool(view.stopped_for))
            os.kill(pid, signal.SIGKILL)
        again = (*options, "--listen", address, "--preempt-pause-s", "5", "--preempt-after-s", "0")
        with real_service(tmp_path, *again), Client(address, timeout_s=WAIT_S) as client:
            await_view(client, "borrower", lambda view: view.state == job_pb2.JOB_STATE_RUNNING)
            state = client.preemption()
            assert (state.mode, list(state.plans), state.quiet_for_s > 0) == (ON, [], True)
            assert (len(rm.containers("borrower")), len(rm.warnings("borrower"))) == (2, 1)
            rm.wait(
                lambda: len(rm.warnings("borrower")) == 2, timeout_s=WAIT_S
            )  # after the pause, and then it is warned anew
            assert len(rm.containers("borrower")) == 2
            rm.wait(lambda: len(rm.containers("owner")) == 1, timeout_s=WAIT_S)
            assert client.job("borrower").preempted_times == 1


def test_what_cannot_be_done_is_refused(tmp_path: Path) -> None:
    with cluster(tmp_path) as (rm, client):
        for ask in (client.preview_preemption, client.report_checkpoint):
            with pytest.raises(NotFoundError, match="nobody"):
                ask("nobody")
        ask_owner(rm)
        rm.wait(lambda: len(rm.containers("owner")) == 1, timeout_s=WAIT_S)
        await_view(client, "owner", lambda view: view.state == job_pb2.JOB_STATE_RUNNING)
        assert client.report_checkpoint("owner", 1) == 1
        with pytest.raises(RejectedError, match="attempt 1 of job 'owner' runs, not attempt 2") as refused:
            client.report_checkpoint("owner", 2)
        assert refused.value.reason == "NOT_RUNNING"
        rm.end("owner")
        await_view(client, "owner", lambda view: view.state == job_pb2.JOB_STATE_ENDED)
        with pytest.raises(RejectedError, match="does not run: it is ended"):
            client.report_checkpoint("owner")
        for mode, reason, field in (
            (preemption_pb2.PREEMPTION_MODE_UNSPECIFIED, "why", "mode"),
            (ON, " ", "reason"),
            (ON, "x" * 501, "reason"),
        ):
            with pytest.raises(InvalidRequestError) as caught:
                client.set_preemption(mode, reason)
            assert [violation.field for violation in caught.value.violations] == [field]
        assert client.preemption().mode == OBSERVE
