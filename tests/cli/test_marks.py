"""`ygs drain`, `ygs undrain`, `ygs quarantine` and `ygs ack`: what they ask of the service, and what they say."""

import getpass
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cli.canned import Canned
from yarn_gpu_sched.cli import ygs
from yarn_gpu_sched.protocol.v1 import gpu_pb2

Run = Callable[..., Result]
COMMANDS = {
    ("drain", "gpu-a1"): (gpu_pb2.MARK_ACTION_DRAIN, ""),
    ("undrain", "gpu-a1"): (gpu_pb2.MARK_ACTION_UNDRAIN, ""),
    ("quarantine", "gpu-a1", "3"): (gpu_pb2.MARK_ACTION_QUARANTINE, "3"),
    ("ack", "gpu-a1", "GPU-77"): (gpu_pb2.MARK_ACTION_ACK, "GPU-77"),
    ("ack", "gpu-a1"): (gpu_pb2.MARK_ACTION_ACK, ""),
}
WHY = ("--reason", "new fan")


@pytest.fixture
def canned() -> Canned:
    return Canned()


@pytest.fixture
def run(canned: Canned) -> Iterator[Run]:
    with canned.serve() as address:
        yield lambda *arguments: CliRunner().invoke(ygs, arguments, env={"YGS_SERVICE": address, "COLUMNS": "80"})


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_says_what_why_and_who_by_default_the_login_name(
    canned: Canned, run: Run, command: tuple[str, ...]
) -> None:
    assert run(*command, *WHY).exit_code == 0
    assert run(*command, *WHY, "--by", "ada").exit_code == 0
    action, gpu = COMMANDS[command]
    first, second = canned.marks
    assert (first.action, first.server, first.gpu, first.reason) == (action, "gpu-a1", gpu, "new fan")
    assert (first.by, second.by, first.dry_run) == (getpass.getuser(), "ada", False)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_reason_is_required_but_in_a_dry_run(canned: Canned, run: Run, command: tuple[str, ...]) -> None:
    for wrong in ((), ("--reason", "  ")):
        result = run(*command, *wrong)
        assert (result.exit_code, "--reason is missing" in result.output) == (2, True), result.output
    assert canned.marks == []
    assert run(*command, "--dry-run").exit_code == 0
    assert [one.dry_run for one in canned.marks] == [True]


def test_who_has_no_login_name_must_say_who(canned: Canned, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    result = run("drain", "gpu-a1", *WHY)
    assert (result.exit_code, "--by is missing" in result.output) == (2, True)
    assert run("drain", "gpu-a1", *WHY, "--by", "ada").exit_code == 0
    assert [one.by for one in canned.marks] == ["ada"]


def test_it_says_what_changed_what_goes_on_and_whether_it_lasts(canned: Canned, run: Run) -> None:
    canned.marked = gpu_pb2.MarkResponse(changes=["nothing new is placed on gpu-a1"], kept=True, job_ids=["j1", "j2"])
    assert run("drain", "gpu-a1", *WHY).output.splitlines() == [
        "nothing new is placed on gpu-a1",
        "runs there, and goes on: j1 j2",
        "it survives a restart of the service",
    ]
    canned.marked = gpu_pb2.MarkResponse(not_kept_because="the service has no state_dir")
    assert run("drain", "gpu-a1", *WHY).output.splitlines() == [
        "it is so already; what is kept now is your reason",
        "it does not survive a restart of the service: the service has no state_dir",
    ]


def test_a_dry_run_says_what_would_change_and_that_nothing_did(canned: Canned, run: Run) -> None:
    canned.marked = gpu_pb2.MarkResponse(changes=["GPU 3 of gpu-a1 is given to nobody"], job_ids=["j1"])
    assert run("quarantine", "gpu-a1", "3", "--dry-run").output.splitlines() == [
        "would change: GPU 3 of gpu-a1 is given to nobody",
        "runs there, and goes on: j1",
        "nothing was changed",
    ]
    canned.marked = gpu_pb2.MarkResponse()
    assert run("ack", "gpu-a1", "--dry-run").output.splitlines() == ["nothing waits for that", "nothing was changed"]
    assert run("undrain", "gpu-a1", "--dry-run").output.splitlines() == ["it is so already", "nothing was changed"]


def test_of_many_jobs_some_are_named(canned: Canned, run: Run) -> None:
    canned.marked = gpu_pb2.MarkResponse(kept=True, job_ids=[f"job-{number:03}" for number in range(50)])
    output = run("drain", "gpu-a1", *WHY).output
    assert max(map(len, output.splitlines())) <= 80
    assert "job-019 and 30 more" in " ".join(output.split())
    assert len(read(run("drain", "gpu-a1", *WHY, "--json"))["job_ids"]) == 50


def test_as_json_it_says_the_same(canned: Canned, run: Run) -> None:
    canned.marked = gpu_pb2.MarkResponse(changes=["c"], not_kept_because="no", job_ids=["j"])
    assert read(run("quarantine", "gpu-a1", "3", *WHY, "--json")) == {
        "action": "quarantine",
        "server": "gpu-a1",
        "gpu": "3",
        "dry_run": False,
        "changes": ["c"],
        "kept": False,
        "not_kept_because": "no",
        "job_ids": ["j"],
    }
    assert read(run("drain", "gpu-a1", "--dry-run", "--json"))["gpu"] is None


def read(result: Result) -> Any:  # noqa: ANN401 - whatever the document holds
    assert result.exit_code == 0, result.output
    return json.loads(result.output)
