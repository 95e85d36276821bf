"""`ygs top`, `ygs idle`, the health in `ygs servers`: what is not available is a dash, what is old or simulated is said to be."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.cli.canned import Canned, server_view
from tests.cli.canned_gpus import idle_job, mark, server_health
from tests.cli.terminal import run_in_terminal
from yarn_gpu_sched.cli import documents, ygs
from yarn_gpu_sched.cli.gpu_convert import server_health_document
from yarn_gpu_sched.cli.gpu_documents import IdleDocument, MarkDocument, TopDocument
from yarn_gpu_sched.cli.health import health_in_short
from yarn_gpu_sched.cli.output import console
from yarn_gpu_sched.cli.top_views import by_job, by_server
from yarn_gpu_sched.protocol.v1 import gpu_pb2, monitor_pb2

Run = Callable[..., Result]
DASH = "\N{EN DASH}"


@pytest.fixture
def canned() -> Canned:
    one = Canned()
    one.health, one.idle_jobs = [server_health()], [idle_job()]
    return one


@pytest.fixture
def run(canned: Canned) -> Iterator[Run]:
    def at(*arguments: str, columns: int = 80) -> Result:
        result = CliRunner().invoke(ygs, arguments, env={"YGS_SERVICE": address, "COLUMNS": str(columns)})
        assert result.exit_code == 0, result.output
        assert max(map(len, result.output.splitlines())) <= columns
        return result

    with canned.serve() as address:
        yield at


def lines(result: Result) -> list[list[str]]:
    return [line.split() for line in result.output.splitlines()]


def test_top_has_a_line_a_gpu_and_a_dash_for_what_is_not_available(run: Run) -> None:
    head, title, names, used, broken, unread = lines(run("top"))
    assert " ".join(head) == "1 servers, 3 GPUs: 1 held, 1 not healthy"
    assert " ".join(title) == "gpu-a1: 2 of 3 GPUs healthy"
    assert names == ["GPU", "UTIL", "MEMORY", "IDLE", "HEALTH", "JOB", "VC"]
    assert used == ["0", "97%", "12G/16G", "used", "ok", "job", "research"]
    assert broken == ["1", DASH, DASH, "quarantined", "xid_79", "operator", "-", "-"]
    assert unread == ["2", DASH, DASH, "ok", "-", "-"]


def test_top_shows_temperature_and_power_where_there_is_room(run: Run) -> None:
    rows = lines(run("top", columns=100))
    assert rows[2] == ["GPU", "UTIL", "MEMORY", "TEMP", "POWER", "IDLE", "HEALTH", "JOB", "VC"]
    assert rows[3] == ["0", "97%", "12G/16G", "64C", "250W", "used", "ok", "job", "research"]
    assert rows[5][:4] == ["2", DASH, DASH, DASH]


def test_top_never_shows_zero_for_what_was_not_read(canned: Canned, run: Run) -> None:
    gpu = canned.health[0].gpus[0]
    gpu.sample.CopyFrom(monitor_pb2.GpuSample())
    assert lines(run("top", columns=100))[3] == ["0", DASH, DASH, DASH, DASH, DASH, "ok", "job", "research"]
    gpu.sample.memory_used_mb = 0
    gpu.sample.sm_percent = 0
    gpu.idle_s = 125.0
    assert lines(run("top"))[3] == ["0", "0%", f"0M/{DASH}", "2m05s", "ok", "job", "research"]
    reading = json.loads(run("top", "--json").output)["servers"][0]["gpus"][0]["reading"]
    assert (reading["sm_percent"], reading["memory_total_mb"], reading["power_w"]) == (0, None, None)


def test_top_says_how_old_readings_are_when_they_are_old(canned: Canned, run: Run) -> None:
    assert "read" not in run("top").output
    canned.health[0].gpus[0].sample_age_s = 95.0
    assert "; read 1m35s ago" in run("top").output
    assert "read 1m35s ago" in " ".join(run("top", "--by", "job").output.split())


def test_top_names_simulated_gpus_and_what_is_wrong_with_a_server(canned: Canned, run: Run) -> None:
    canned.health[0].simulated = True
    shown = run("top").output
    assert "3 simulated" in shown
    assert "gpu-a1 (simulated GPUs): " in shown
    silent = server_health(telemetry=gpu_pb2.TELEMETRY_STATE_SILENT, age_s=90.0, drained=mark())
    canned.health = [silent, server_health(telemetry=gpu_pb2.TELEMETRY_STATE_UNREADABLE, failure="timed_out")]
    canned.health.append(server_health(telemetry=gpu_pb2.TELEMETRY_STATE_NONE, gpus_over_committed=2))
    canned.health[2].ClearField("server_id")
    shown = run("top", columns=160).output
    assert "its monitor is silent, last heard 1m30s ago; drained" in shown
    assert "its GPUs cannot be read (timed_out)" in shown
    assert "no monitor; 2 held beyond the healthy; not known to the resource manager" in shown
    assert lines(run("top"))[-1] == ["2", DASH, DASH, DASH, "-", "-"], "nobody has seen how it is"


def test_top_says_why_a_server_cannot_be_read_also_where_a_line_is_too_short_and_claims_no_use(
    canned: Canned, run: Run
) -> None:
    server = server_health(telemetry=gpu_pb2.TELEMETRY_STATE_UNREADABLE, failure="timed_out: no answer", simulated=True)
    server.gpus[0].sample_age_s = 95.0
    canned.health = [server]
    shown = run("top").output
    assert "its GPUs cannot be read (timed_out: no answer)" in shown
    assert "read 1m35s ago" in shown
    assert lines(run("top"))[4][:4] == ["0", "97%", "12G/16G", DASH]


def test_top_by_job_adds_up_what_is_known_and_says_what_is_not(canned: Canned, run: Run) -> None:
    for _ in range(2):
        canned.health[0].gpus.add().CopyFrom(canned.health[0].gpus[0])
    second, third = canned.health[0].gpus[3:]
    second.sample.sm_percent, second.idle_s, second.health = 1, 61.0, gpu_pb2.GPU_HEALTH_SUSPECT
    third.ClearField("sample")
    _, names, row, *more = lines(run("top", "--by", "job"))
    assert names == ["JOB", "GPUS", "UTIL", "MEMORY", "IDLE", "FOR", "VC", "NOTE"]
    assert row[:7] == ["job", "3", "49%", "24G/32G", "1", "1m01s", "research"]
    assert " ".join([*row[7:], *chain(*more)]) == "1 unread, 1 not healthy"
    assert lines(run("top", "--by", "job", columns=120))[2][-1] == "gpu-a1"
    canned.health[0].gpus[0].ClearField("sample")
    del canned.health[0].gpus[3]
    row = lines(run("top", "--by", "job"))[2]
    assert row[:6] == ["job", "2", DASH, DASH, DASH, "-"]
    del canned.health[0].gpus[:]
    assert lines(run("top", "--by", "job"))[1] == ["no", "job", "holds", "GPUs"]


def test_as_many_servers_and_jobs_are_shown_as_fit() -> None:
    servers = [server_health_document(server_health(str(number))) for number in range(9)]

    def shown(view: Any, lines_max: int) -> list[str]:  # noqa: ANN401 - a view of the module
        out = console()
        with out.capture() as capture:
            out.print(view(servers, lines_max))
        return capture.get().splitlines()

    few = shown(by_server, 12)
    assert few[0].endswith("; 2 servers shown")
    assert [line.split()[0] for line in few if "healthy" in line][1:] == ["gpu-a10:", "gpu-a11:"]
    assert "shown" not in shown(by_server, 1_000)[0]
    assert len(shown(by_server, 1)) > 4, "one server is always shown"
    assert "3 of 9 jobs shown" in shown(by_job, 5)[0]
    assert len(shown(by_job, 5)) == 5


def test_top_goes_on_with_what_it_saw_last_while_the_service_is_away(canned: Canned) -> None:
    canned.looks_left = 1
    with canned.serve() as address:
        arguments = ("top", "--every", "0.5", "--service", address)
        ended = run_in_terminal(*arguments, interrupt_at="what it said last")
    assert ended.exit_code == 0
    _, said, last = ended.shown.partition("the service does not answer (going down); what it said last:")
    assert (bool(said), "gpu-a1: 2 of 3 GPUs healthy" in last) == (True, True)


@pytest.mark.parametrize(
    ("command", "document"),
    [
        (("top",), TopDocument),
        (("idle",), IdleDocument),
        (("servers",), documents.ServersDocument),
        (("drain", "gpu-a1", "--dry-run"), MarkDocument),
        (("ack", "gpu-a1", "--reason", "why"), MarkDocument),
    ],
)
def test_json_is_what_its_schema_says(
    canned: Canned, run: Run, command: tuple[str, ...], document: type[msgspec.Struct]
) -> None:
    canned.be_hostile("x")
    read = msgspec.json.decode(run(*command, "--json").output, type=document)
    assert "x'" in str(read), "what the service said is there"


@pytest.mark.parametrize("columns", [80, 100, 132])
def test_the_width_is_that_of_the_terminal(canned: Canned, columns: int) -> None:
    canned.health[0].host = "h" * 200
    with canned.serve() as address:
        shown = run_in_terminal("top", "--once", "--service", address, columns=columns).shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(map(len, plain)) == columns
    assert ("POWER" in shown) == (columns >= 100)


def test_idle_lists_who_holds_what_for_how_long(canned: Canned, run: Run) -> None:
    canned.idle_left_out = 7
    names, row, more, last = lines(run("idle"))
    assert names == ["JOB", "GPUS", "IDLE", "UNREAD", "FOR", "VC", "USER", "HOSTS"]
    assert row == ["application_1764450000000_0001", "4", "3", "1", "2h05m", "research", "ada", "gpu-a1"]
    assert more == ["gpu-a2"]
    assert " ".join(last) == "and 7 more jobs; idle: used less than 5 % for 30m"
    canned.idle_jobs = [idle_job(warned=True, preemptable=True)]
    assert "NOTE" in run("idle").output
    assert "warned preemptable" in " ".join(run("idle", columns=120).output.split())
    canned.idle_jobs = []
    assert run("idle").output == "no job holds GPUs without using them (used less than 5 % for 30m)\n"


def test_servers_show_health_where_anything_is_not_well(canned: Canned, run: Run) -> None:
    canned.health = [server_health(drained=mark())]
    header, row, *below = run("servers").output.splitlines()
    assert header.split() == ["SERVER", "RACK", "STATE", "GPUS", "FREE", "HEALTH", "MEMORY", "VCORES", "RUNS"]
    assert row.split()[:7] == ["gpu-a1:45454", "/rack-a", "running", "1/4", "2", "drained,", "1"], row
    text = " ".join(" ".join(below).split())
    assert "not given out: gpu-a1 drained by ada, 2026-09-22T10:00:00Z: new fan" in text
    assert (
        "gpu-a1 1 quarantined for 2m00s: xid_79, operator by ada, 2026-09-22T10:00:00Z: new fan, waits for ygs ack"
        in text
    )
    (document,) = json.loads(run("servers", "--json").output)["health"]
    assert (document["gpus_out"], document["gpus_healthy"], document["drained"]["by"]) == (1, 2, "ada")
    canned.health = [server_health()]
    del canned.health[0].gpus[1]
    canned.health[0].gpus_healthy = 3
    canned.health[0].gpus_counted = 2
    assert "HEALTH" not in run("servers").output


def test_of_much_that_is_wrong_some_is_named(canned: Canned, run: Run) -> None:
    canned.health = [server_health(str(number)) for number in range(30)]
    canned.servers = [server_view(str(number)) for number in range(30)]
    assert "and 10 more: ygs top --once" in run("servers").output


@pytest.mark.parametrize(
    ("fields", "out", "says"),
    [
        ({}, 0, ""),
        ({"telemetry": gpu_pb2.TELEMETRY_STATE_SILENT}, 0, "silent"),
        ({"telemetry": gpu_pb2.TELEMETRY_STATE_UNREADABLE}, 2, "unreadable, 2 out"),
        ({"gpus_over_committed": 3}, 4, "4 out, 3 over"),
        ({"telemetry": gpu_pb2.TELEMETRY_STATE_NONE}, 0, ""),
    ],
)
def test_health_in_short(fields: dict[str, Any], out: int, says: str) -> None:
    assert health_in_short(server_health_document(server_health(**fields)), out) == says
