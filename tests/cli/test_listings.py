import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.cli.canned import APPLICATION, CONTAINER, Canned, job_view, server_view, vc_use
from yarn_gpu_sched.cli import documents, ygs
from yarn_gpu_sched.protocol.v1 import job_pb2

HOSTILE = (
    "\x1b[31mX\x1b]0;owned\x07\x1b[2J\x9b31m\x85\x7f\r\n\x00\b\u202eevil\u2066\u200b\u2028[bold]m[/bold][/] :boom: \\"
)
FORBIDDEN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
READS = (
    ("jobs",),
    ("job", "show", APPLICATION),
    ("why", APPLICATION),
    ("servers",),
    ("vcs",),
)
Run = Callable[..., Result]


@pytest.fixture
def canned() -> Canned:
    return Canned()


@pytest.fixture
def run(canned: Canned) -> Iterator[Run]:
    with canned.serve() as address:
        yield lambda *arguments: CliRunner().invoke(ygs, arguments, env={"YGS_SERVICE": address, "COLUMNS": "80"})


def hostile(canned: Canned) -> None:
    canned.jobs = [job_view(HOSTILE)]
    canned.servers = [server_view(HOSTILE)]
    canned.vcs = [vc_use(HOSTILE)]
    canned.cluster_id = HOSTILE


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_no_control_sequence_reaches_the_terminal(canned: Canned, run: Run, command: tuple[str, ...]) -> None:
    hostile(canned)
    plain, as_json = run(*command), run(*command, "--json")
    assert (plain.exit_code, as_json.exit_code) == (0, 0)
    assert FORBIDDEN.findall(plain.output) == []
    assert FORBIDDEN.findall(as_json.output) == []
    assert as_json.output.isascii()


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_markup_is_text(canned: Canned, run: Run, command: tuple[str, ...]) -> None:
    canned.jobs = [job_view("[b]x[/b]")]
    canned.servers = [server_view("[b]x[/b]")]
    canned.vcs = [vc_use("[b]x[/b]")]
    assert "[b]x[/b]" in run(*command).output.replace("\n", "").replace(" ", "") or "[b]" in run(*command).output


def test_the_errors_of_a_hostile_id_are_clean_too(run: Run) -> None:
    result = run("job", "show", HOSTILE)
    assert result.exit_code == 3
    assert FORBIDDEN.findall(result.output) == []


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_it_fits_eighty_columns_without_colours(run: Run, command: tuple[str, ...]) -> None:
    result = run(*command)
    if command[0] != "why":  # a sentence is left to the terminal to wrap
        assert max(map(len, result.output.splitlines())) <= 80
    assert "\x1b" not in result.output


@pytest.mark.parametrize(
    ("command", "document"),
    [
        (("jobs",), documents.JobsDocument),
        (("job", "show", APPLICATION), documents.JobWithContainersDocument),
        (("why", APPLICATION), documents.WhyDocument),
        (("servers",), documents.ServersDocument),
        (("vcs",), documents.VirtualClustersDocument),
    ],
)
def test_json_is_what_its_schema_says(run: Run, command: tuple[str, ...], document: type[Any]) -> None:
    result = run(*command, "--json")
    assert msgspec.json.decode(result.output, type=document)


def test_jobs_lists_identifiers_whole_and_says_why(canned: Canned, run: Run) -> None:
    canned.jobs = [job_view("n" * 200)]
    output = run("jobs").output
    header, row = (line.split() for line in output.splitlines()[:2])
    assert header == ["JOB", "STATE", "GPUS", "AGE", "WHY", "VC", "NAME"]
    assert row[:6] == [APPLICATION, "pending", "2+8", "12m", "cluster", "full"]
    assert row[-1].startswith("nn")
    assert row[-1].endswith("…")


def test_ended_jobs_are_listed_only_when_asked_for(canned: Canned, run: Run) -> None:
    ended = job_view(job_id="application_2_0002")
    ended.state = job_pb2.JOB_STATE_ENDED
    ended.end = job_pb2.JOB_END_KILLED
    ended.ClearField("waiting")
    canned.jobs.append(ended)

    def listed(*options: str) -> list[str]:
        return [job["job_id"] for job in json.loads(run("jobs", "--json", *options).output)["jobs"]]

    assert listed() == [APPLICATION]
    assert listed("--state", "any") == [APPLICATION, "application_2_0002"]
    assert listed("--state", "ended") == ["application_2_0002"]
    assert "killed" in run("jobs", "--state", "ended").output


def test_job_show_lists_containers_with_server_and_gpus(canned: Canned, run: Run) -> None:
    canned.jobs[0].containers[0].server_id = "gpu-a1.example.org:45454"
    output = run("job", "show", APPLICATION).output
    row = output.splitlines()[-2:]
    assert row[0].split()[0] == CONTAINER
    assert "".join(line[len(CONTAINER) : 58].strip() for line in row).startswith("gpu-a1.example")
    assert re.search(r" 0-1 +256M +1", row[0])
    assert "gang:4x2" in output
    assert "4 containers, not placed" in output


def test_why_is_one_sentence_with_the_numbers(run: Run) -> None:
    result = run("why", APPLICATION)
    assert result.output.count("\n") == 1
    assert "8 GPUs in 4 containers are asked, 6 are free on 2 servers" in result.output


def test_why_of_a_job_that_waits_for_nothing(canned: Canned, run: Run) -> None:
    view = canned.jobs[0]
    view.ClearField("waiting")
    view.state = job_pb2.JOB_STATE_RUNNING
    assert run("why", APPLICATION).output == (
        f"{APPLICATION} waits for nothing: it is running with 1 containers and 2 GPUs on 1 servers\n"
    )
    view.state, view.end, view.diagnostics = job_pb2.JOB_STATE_ENDED, job_pb2.JOB_END_FAILED, "too\nbad"
    assert run("why", APPLICATION).output == f"{APPLICATION} has ended (failed): too bad\n"


def test_why_says_what_is_left_of_an_applications_lifetime(canned: Canned, run: Run) -> None:
    """Waiting counts: YARN ends the application when its lifetime is over, whether it ran or not."""
    view = canned.jobs[0]
    view.job.expire_time.FromSeconds(int(time.time()) + 3_605)
    assert re.search(r"; its lifetime ends in 1h00m, and it with it\n$", run("why", APPLICATION).output)
    assert "lifetime  " in run("job", "show", APPLICATION).output
    document = msgspec.json.decode(run("why", APPLICATION, "--json").output, type=documents.WhyDocument)
    assert document.expire_time == view.job.expire_time.ToJsonString()
    view.job.expire_time.FromSeconds(1)
    assert run("why", APPLICATION).output.endswith("; its lifetime is over\n")
    view.state = job_pb2.JOB_STATE_ENDED
    view.ClearField("waiting")
    assert "lifetime" not in run("why", APPLICATION).output


def test_servers_show_which_gpus_are_free(run: Run) -> None:
    output = run("servers").output
    assert output.splitlines()[1].split()[:5] == ["gpu-a1:45454", "/rack-a", "running", "1/4", "1-3"]
    assert "c1: 1 servers" in output


def test_vcs_show_quota_and_use(run: Run) -> None:
    assert run("vcs").output.splitlines()[1].split() == ["root.research", "open", "8", "-", "1", "1G", "1", "1", "2"]


def test_empty_listings_say_so(canned: Canned, run: Run) -> None:
    canned.jobs, canned.servers, canned.vcs = [], [], []
    assert run("jobs").output == "no jobs\n"
    assert run("servers").output.startswith("no servers\n")
    assert run("vcs").output == "no virtual clusters\n"
    assert json.loads(run("jobs", "--json").output) == {"jobs": []}


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (("job", "show", "nobody"), 3, "job nobody is not known"),
        (("why", "nobody"), 3, "job nobody is not known"),
        (("jobs", "--service", "127.0.0.1:1"), 4, "no service answers at 127.0.0.1:1"),
        (("--service", "127.0.0.1:1", "jobs"), 4, "no service answers at 127.0.0.1:1"),
        (("jobs", "--service", "nonsense"), 2, "'nonsense' is not HOST:PORT"),
        (("jobs", "--state", "sleeping"), 2, "sleeping"),
        (("nonsense",), 2, "nonsense"),
    ],
)
def test_exit_codes(run: Run, arguments: tuple[str, ...], exit_code: int, says: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, says in result.output) == (exit_code, True), result.output
