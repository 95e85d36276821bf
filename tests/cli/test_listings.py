import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.cli.canned import (
    APPLICATION,
    CONTAINER,
    Canned,
    delay_row,
    job_view,
    outlook,
    reservation,
    server_view,
    share,
    vc_use,
)
from tests.cli.canned_gpus import GPU_COMMANDS
from yarn_gpu_sched.cli import documents, ygs
from yarn_gpu_sched.cli.reservation_documents import ReservationDocument, ReservedServerDocument
from yarn_gpu_sched.protocol.v1 import cluster_pb2, job_pb2

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
    ("delays",),
    *GPU_COMMANDS,
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
    canned.outlooks = {APPLICATION: outlook(HOSTILE)}
    canned.delays = [delay_row(HOSTILE)]
    canned.cluster_id = HOSTILE
    canned.reservations = [reservation(HOSTILE)]
    canned.be_hostile(HOSTILE)


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
    canned.delays = [delay_row("[b]x[/b]")]
    canned.be_hostile("[b]x[/b]")
    assert "[b]x[/b]" in run(*command).output.replace("\n", "").replace(" ", "") or "[b]" in run(*command).output


def test_the_errors_of_a_hostile_id_are_clean_too(run: Run) -> None:
    result = run("job", "show", HOSTILE)
    assert result.exit_code == 3
    assert FORBIDDEN.findall(result.output) == []


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_it_fits_eighty_columns_without_colours(run: Run, command: tuple[str, ...]) -> None:
    result = run(*command)
    lines = result.output.splitlines()
    if command[0] == "why":  # what is read by programs too stays one line
        lines = lines[1:]
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in result.output


@pytest.mark.parametrize(
    ("command", "document"),
    [
        (("jobs",), documents.JobsDocument),
        (("job", "show", APPLICATION), documents.JobWithContainersDocument),
        (("why", APPLICATION), documents.WhyDocument),
        (("servers",), documents.ServersDocument),
        (("vcs",), documents.VirtualClustersDocument),
        (("delays",), documents.ListedDelaysDocument),
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


def test_why_says_the_reason_in_one_line_then_what_would_change_it_and_when(run: Run) -> None:
    lines = [line.rstrip() for line in run("why", APPLICATION).output.splitlines()]
    assert lines[0].startswith(f"{APPLICATION} waits: 8 GPUs in 4 containers are asked, 6 are free on 2 servers")
    assert lines[1] == "what would change it:"
    assert lines[2] == "  - in 45 s it may go to level 1 (one RDMA domain), where it would not fit now"
    assert lines[3].strip() == "either"
    assert lines[4] == f"  - the end of {APPLICATION}, which holds 2 GPUs, expected in"
    assert lines[6] == f"when: in about 12 min, if {APPLICATION} ends when it said; jobs"
    assert lines[7] == "      before it in order are not counted"


def test_why_of_a_service_that_tells_no_outlook_is_one_line(canned: Canned, run: Run) -> None:
    canned.outlooks = {}
    assert run("why", APPLICATION).output.count("\n") == 1
    document = msgspec.json.decode(run("why", APPLICATION, "--json").output, type=documents.WhyDocument)
    assert document.outlook is None


def test_why_json_tells_what_nobody_knows_by_null(canned: Canned, run: Run) -> None:
    def told() -> documents.OutlookDocument:
        document = msgspec.json.decode(run("why", APPLICATION, "--json").output, type=documents.WhyDocument)
        assert document.outlook is not None
        return document.outlook

    assert (told().starts_in_s, told().next_level, told().relaxes_in_s) == (720.5, 1, 45.0)
    assert (told().gpus_lacking, told().job_ids, told().server_ids) == (2, (APPLICATION,), ("gpu-a1",))
    for name in ("starts_in_s", "next_level", "relaxes_in_s"):
        canned.outlooks[APPLICATION].ClearField(name)
    assert (told().starts_in_s, told().next_level, told().relaxes_in_s) == (None, None, None)


def test_job_show_tells_how_long_it_waited_and_for_what_in_turn(canned: Canned, run: Run) -> None:
    output = run("job", "show", APPLICATION).output
    assert "waited        12m in this attempt: fair share 10m, fragmentation 2m34s" in output
    assert "reasons       vc quota (12m ago), fragmented (2m34s ago)" in output
    canned.jobs[0].ClearField("delays")
    canned.jobs[0].ClearField("history")
    assert "waited" not in run("job", "show", APPLICATION).output


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
    canned.outlooks = {}
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


def test_servers_show_what_is_kept_for_whom(canned: Canned, run: Run) -> None:
    canned.servers.append(server_view())
    canned.servers[1].server.server_id = "gpu-a2:45454"
    canned.reservations = [reservation(), reservation(job_id="second", over_quota=True, kept_gpus=1)]
    canned.reservations_left_out = 2
    header, first, second, *below = run("servers").output.splitlines()
    assert header.split() == ["SERVER", "RACK", "STATE", "GPUS", "FREE", "KEPT", "MEMORY", "VCORES", "RUNS"]
    assert (first.split()[5:9], second.split()[5:9]) == (["3/4", "#1", "3/4", "#2"], ["0/4", "#1", "0/4", "#2"])
    text = re.sub(r"\s+", " ", " ".join(below))
    assert text.startswith(
        f"kept for gangs that have waited too long: #1 {APPLICATION} of root.research: 3 of its 8 GPUs, since 2m05s; 3 of 4 on "
        "gpu-a1:45454, 0 of 4 on gpu-a2:45454; the rest when application_1764450000000_0002 and application_1764450000000_0003 "
        "end, expected in 12m #2 second of root.research: 1 of its 8 GPUs, since 2m05s;"
    )
    assert (
        "expected in 12m; it would borrow, so jobs within their quotas may take them and 2 more c1: 2 servers" in text
    )
    assert text.endswith("6 of 8 GPUs in use, 4 of them kept, 0 jobs running, 0 pending; resource manager connected")
    assert max(map(len, run("servers").output.splitlines())) <= 80


def test_what_is_kept_on_a_server_is_never_cut(canned: Canned, run: Run) -> None:
    canned.servers[0].server.rack = f"/rack-{'a' * 40}"
    canned.reservations = [reservation(job_id=f"job-{number}") for number in range(4)]
    row = run("servers").output.splitlines()[1]
    assert "3/4 #1 3/4 #2 3/4 #3 3/4 #4" in row
    assert len(row) <= 80


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"ready_in_s": None}, "; the rest when a and b end, nobody knows when"),
        ({"ready_in_s": 0.4}, "; the rest when a and b end, expected by now"),
        ({"awaited_job_ids": ["a"]}, "; the rest when a ends, expected in 5m00s"),
        ({"awaited_job_ids": list("abcd")}, "; the rest when a, b, c and others end, expected in 5m00s"),
        ({"awaited_job_ids": []}, "; the rest, expected in 5m00s"),
        ({"kept_gpus": 8}, "8 of its 8 GPUs, since 2m05s; 4 of 4 on s0"),
        ({"partition": "fast"}, 'of root.a in partition "fast": 4 of'),
        ({"servers": 10}, "4 of 4 on s7 and on 2 servers more; the rest"),
    ],
)
def test_each_reservation_is_a_sentence(canned: Canned, run: Run, changed: dict[str, Any], says: str) -> None:
    given: dict[str, Any] = {
        "gpus": 8,
        "kept_gpus": 4,
        "ready_in_s": 300.0,
        "awaited_job_ids": ["a", "b"],
        "servers": 1,
    }
    given |= changed
    names = [f"s{number}" for number in range(given.pop("servers"))]
    servers = [cluster_pb2.ReservedServer(server_id=name, gpus=4, kept_gpus=4) for name in names]
    canned.reservations = [
        cluster_pb2.Reservation(job_id="j", virtual_cluster="root.a", servers=servers, age_s=125, **given)
    ]
    text = re.sub(r"\s+", " ", run("servers").output)
    assert says in text
    assert ("the rest" in text) == ("kept_gpus" not in changed)


def test_reservations_as_json_have_every_field(canned: Canned, run: Run) -> None:
    canned.reservations = [reservation("x", over_quota=True), reservation()]
    canned.reservations[1].ClearField("ready_in_s")
    canned.reservations_left_out = 3
    document = msgspec.json.decode(run("servers", "--json").output, type=documents.ServersDocument)
    assert document.reservations_left_out == 3
    first, second = document.reservations
    assert first == ReservationDocument(
        job_id=f"{APPLICATION}x",
        virtual_cluster="root.researchx",
        partition="x",
        gpus=8,
        kept_gpus=3,
        level=1,
        servers=(ReservedServerDocument("gpu-a1:45454x", 4, 3), ReservedServerDocument("gpu-a2:45454x", 4, 0)),
        age_s=125.0,
        ready_in_s=725.0,
        awaited_job_ids=("application_1764450000000_0002x", "application_1764450000000_0003x"),
        over_quota=True,
    )
    assert (second.ready_in_s, second.over_quota) == (None, False)


def test_vcs_show_quota_and_use(run: Run) -> None:
    header, row = run("vcs").output.splitlines()
    assert header.split() == ["VC", "QUOTA", "MAX", "USED", "BORROWED", "MEMORY", "VCORES", "RUN", "WAIT"]
    assert row.split() == ["root.research", "8", "-", "9", "2", "1G", "1", "1", "2"]


def test_vcs_show_each_partition_where_there_are_several(canned: Canned, run: Run) -> None:
    canned.vcs[0].shares.append(share("fast", quota_gpus=2, maximum_gpus=4, used_gpus=2))
    _, first, second = run("vcs").output.splitlines()
    assert first.split() == ["root.research", "default", "8", "-", "9", "2", "1G", "1", "1", "2"]
    assert second.split() == ["fast", "2", "4", "2", "-"]


def test_vcs_mark_quotas_that_were_translated_and_stopped_queues(canned: Canned, run: Run) -> None:
    canned.vcs[0].shares[0].translated = True
    canned.vcs[0].virtual_cluster.running = False
    _, row, legend = run("vcs").output.splitlines()
    assert row.split()[:3] == ["root.research", "(stopped)", "8*"]
    assert legend == "* set in percent or as a weight: of the most GPUs that the partition ever had"


def test_vcs_list_what_is_wrong_below_the_table(canned: Canned, run: Run) -> None:
    canned.vcs[0].warnings.append("quota 8 GPUs is over its maximum, 4")
    assert run("vcs").output.splitlines()[-2:] == [
        "warnings:",
        "  - root.research: quota 8 GPUs is over its maximum, 4",
    ]


def test_vcs_of_a_service_that_tells_no_shares_show_what_is_configured(canned: Canned, run: Run) -> None:
    canned.vcs[0].ClearField("shares")
    assert run("vcs").output.splitlines()[1].split()[:5] == ["root.research", "8", "-", "9", "-"]


def test_a_queue_above_others_counts_no_jobs_of_its_own(canned: Canned, run: Run) -> None:
    canned.vcs[0].virtual_cluster.parent = True
    assert run("vcs").output.splitlines()[1].split()[-2:] == ["-", "-"]


def test_delays_show_each_cause_by_time_and_by_waits(canned: Canned, run: Run) -> None:
    header, row = run("delays").output.splitlines()[:2]
    assert header.split()[:5] == ["VC", "GPUS", "WAITS", "NOW", "WAITED"]
    assert row.split() == ["root.research", "2-4", "12", "1", "20m", "50%", "6", "5%", "2", "42%", "3", "3%", "0"]
    canned.delays.append(delay_row("root.b"))
    assert "root.b" not in run("delays", "--vc", "root.research").output
    canned.delays = []
    assert run("delays").output == "nobody has waited\n"


def test_delays_set_fair_share_against_fragmentation_as_the_paper_does(canned: Canned, run: Run) -> None:
    """Capacity counts as fair share there, what is nobody's doing nowhere, and single GPUs are not listed."""
    canned.delays = [
        delay_row("root.a", "1", fair_share=100),
        delay_row("root.a", "2-4", fair_share=5, capacity=1, fragmentation=2, other=50),
        delay_row("root.b", "2-4", fair_share=3, fragmentation=1),
        delay_row("root.b", ">8", fragmentation=4),
    ]
    rows = [line.split() for line in run("delays").output.splitlines()[-3:]]
    assert rows == [
        ["2-4", "9", "75%", "3", "25%"],
        ["5-8", "0", "-", "0", "-"],
        [">8", "0", "0%", "4", "100%"],
    ]


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
