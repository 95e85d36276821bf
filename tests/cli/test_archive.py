"""`ygs usage` and `ygs export`, and that `ygs replay` reads back what was exported."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from tests.archive.filled import BEGIN, HOUR, fill, gpu, job, us, use
from tests.cli.test_listings import FORBIDDEN, HOSTILE
from yarn_gpu_sched.archive import Kind
from yarn_gpu_sched.cli import ygs
from yarn_gpu_sched.cli.usage_documents import UsageDocument, UsageRowDocument
from yarn_gpu_sched.replay import read_servers, read_trace

DAYS = ("--from", "2026-11-01", "--to", "2026-11-03")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(ygs, list(map(str, arguments)), env={"COLUMNS": "80"})


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    long = use(
        "application_1764450000000_0001", vc="root.research.vision.long-name-of-a-team", user=HOSTILE, gpu_s=3.6e9
    )
    fill(folder, Kind.USE, BEGIN, long, use("b", user="bob", lost_gpu_s=1_800.0, idle_gpu_s=900.0))
    first = job("b", attempt=1, final=False, outcome="preempted", gpus=2, ended=us(BEGIN + HOUR) + 90_500_000)
    last = job("b", attempt=2, outcome="failed", started=us(BEGIN + 3 * HOUR), ended=us(BEGIN + 4 * HOUR))
    wide = job(
        "a",
        gpus=3,
        vc="root.product",
        outcome="killed",
        places=[{"server": "gpu-1", "gpus": [2, 3]}, {"server": "gpu-3", "gpus": [0]}],
    )
    never = job("never", started=None, gpus=0, places=[], outcome="killed")
    fill(folder, Kind.JOBS, BEGIN, first, last, wide, never)
    fill(
        folder,
        Kind.GPUS,
        BEGIN,
        *(gpu(slot=slot, sm_percent=10.0 * slot) for slot in range(4)),
        gpu("gpu-2", sm_percent=None),
    )
    return folder


def test_usage_fits_eighty_columns_and_lets_nothing_through(archive: Path) -> None:
    result = run("usage", "--archive", archive, "--by", "vc,user,job", *DAYS)
    assert result.exit_code == 0, result.output
    assert FORBIDDEN.findall(result.output) == []
    assert max(map(cell_len, result.output.splitlines())) <= 80
    assert "1,000,000.0" in result.output


def test_usage_by_user_says_what_was_used_idle_and_lost(archive: Path) -> None:
    result = run("usage", "--archive", archive, "--by", "user", *DAYS)
    (bob,) = [line.split() for line in result.output.splitlines() if line.startswith("bob")]
    assert bob == ["bob", "2.0", "-", "0.2", "-", "0.5"]
    total = next(line.split() for line in result.output.splitlines() if line.startswith("total"))
    assert total == ["total", "1,000,002.0", "-", "0.2", "-", "0.5"]


def test_usage_as_json_names_only_what_was_asked_for(archive: Path) -> None:
    result = run("usage", "--archive", archive, "--by", "job", "--json", *DAYS)
    document = msgspec.json.decode(result.output, type=UsageDocument)
    assert (document.since, document.until) == ("2026-11-01T00:00:00Z", "2026-11-03T00:00:00Z")
    assert document.usage[1] == UsageRowDocument(
        None, None, "b", used=2.0, borrowed=0.0, idle=0.25, unread=0.0, lost=0.5
    )


def test_where_nothing_was_used_it_says_so(archive: Path) -> None:
    result = run("usage", "--archive", archive, "--from", "2027-01-01", "--to", "2027-01-02")
    assert (result.exit_code, result.output) == (0, "nothing was used\n")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("usage", "--by", "team", *DAYS), 2, "'team' is none of vc, user, job"),
        (("usage", "--from", "2026-11-02", "--to", "2026-11-01"), 2, "is not after --from"),
        (("usage", "--from", "yesterday"), 2, "does not match the formats"),
        (("usage", "--archive", "/there/is/none", *DAYS), 1, "http://NAMENODE:9870/PATH would be right"),
        (("usage", "--archive", "http://127.0.0.1:9/x", *DAYS), 1, "http://127.0.0.1:9 does not answer"),
        (("export", "--format", "philly", "/", *DAYS), 1, "/ is not empty"),
        (("export", "--format", "philly", "/dev/null/x", *DAYS), 1, "Not a directory"),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(
    archive: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    place = () if "--archive" in arguments else ("--archive", str(archive))
    result = run(*arguments, *place)
    assert (result.exit_code, says in " ".join(result.output.split())) == (code, True), result.output


def test_what_is_exported_is_read_back_as_the_same_jobs(archive: Path, tmp_path: Path) -> None:
    result = run("export", "--archive", archive, "--format", "philly", *DAYS, tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("3 jobs and 2 minutes of servers are in ")
    trace = read_trace(tmp_path / "out" / "cluster_job_log")
    read = {one.job_id: (one.gpus, one.duration_s, one.vc, one.submit_s) for one in trace.jobs}
    assert read == {"a": (3, 3_600, "root.product", 0), "b": (2, 90 + 3_600, "root.research", 0)}
    assert trace.states == {"Killed": 1, "Failed": 1}
    assert trace.skipped == {"never started": 1}
    listed = read_servers(tmp_path / "out" / "cluster_machine_list")
    assert {one.name: one.gpus for one in listed} == {"gpu-1": 4, "gpu-2": 1, "gpu-3": 1}


def test_a_dry_run_of_an_export_writes_nothing(archive: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = run("export", "--archive", archive, "--format", "philly", *DAYS, out, "--dry-run")
    assert told.exit_code == 0, told.output
    assert not out.exists()
    assert run("export", "--archive", archive, "--format", "philly", *DAYS, out).output.startswith("3 jobs ")
    files = [f"would write {out / name}" for name in ("cluster_job_log", "cluster_machine_list", "cluster_gpu_util")]
    assert told.output.splitlines() == [*files, "of 3 jobs"]
    assert sorted(map(str, out.iterdir())) == sorted(line.removeprefix("would write ") for line in files)


def test_the_exported_files_have_the_public_columns(archive: Path, tmp_path: Path) -> None:
    run("export", "--archive", archive, "--format", "philly", *DAYS, tmp_path / "out")
    jobs = json.loads((tmp_path / "out" / "cluster_job_log").read_text())
    assert jobs[0] == {
        "status": "Killed",
        "vc": "root.product",
        "jobid": "a",
        "attempts": [
            {
                "start_time": "2026-11-01 01:00:00",
                "end_time": "2026-11-01 02:00:00",
                "detail": [{"ip": "gpu-1", "gpus": ["gpu2", "gpu3"]}, {"ip": "gpu-3", "gpus": ["gpu0"]}],
            }
        ],
        "submitted_time": "2026-11-01 00:00:00",
        "user": "ada",
    }
    assert (tmp_path / "out" / "cluster_machine_list").read_text().splitlines() == [
        "machineId,number of GPUs,single GPU mem",
        "gpu-1,4,16GB",
        "gpu-2,1,16GB",
        "gpu-3,1,NA",
    ]
    assert (tmp_path / "out" / "cluster_gpu_util").read_text().splitlines() == [
        "time,machineId,gpu0_util,gpu1_util,gpu2_util,gpu3_util",
        "2026-11-01 00:00:00 UTC,gpu-1,0.0,10.0,20.0,30.0",
        "2026-11-01 00:00:00 UTC,gpu-2,NA,,,",
    ]


def test_ygs_replay_runs_what_was_exported(archive: Path, tmp_path: Path) -> None:
    run("export", "--archive", archive, "--format", "philly", *DAYS, tmp_path / "out")
    servers = ("--server-list", tmp_path / "out" / "cluster_machine_list")
    result = run("replay", tmp_path / "out" / "cluster_job_log", *servers, "--out", tmp_path / "replayed", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["jobs"] == 2
