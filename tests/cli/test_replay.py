"""`ygs replay`: what it prints and writes, its errors and exit codes."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from tests.cli.terminal import run_in_terminal
from tests.replay.traces import (
    HELIOS_HEADER,
    ITP,
    JOBS_HEADER,
    OPENB_NODES,
    OPENB_PODS,
    PHILLY_QUOTAS,
    PHILLY_WEEK,
    philly_job,
    philly_log,
    written,
)
from yarn_gpu_sched.cli import ygs
from yarn_gpu_sched.cli.documents import ReplayDocument

SMALL = str(ITP / "cluster10.csv.gz")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(ygs, ["replay", *map(str, arguments)], env={"COLUMNS": "80"})


def flat(text: str) -> str:
    """Return a text without the breaks of its lines."""
    return " ".join(text.split())


def test_a_terminal_of_eighty_columns_shows_progress_and_a_table_that_fits(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    quotas = str(PHILLY_QUOTAS)
    ended = run_in_terminal("replay", SMALL, "--servers", "2x8", "--out", out, "--vcs", "16", "--quotas", quotas)
    assert ended.exit_code == 0, ended.shown
    shown = ESCAPES.sub("", ended.shown)
    assert "jobs ended" in shown
    lines = shown[shown.index("cluster10.csv.gz, fifo") :].splitlines()
    assert max(map(cell_len, lines[:-1])) <= 80  # the last one ends with the folder, to be copied
    assert f"results: {out}" in lines[-1]
    assert re.search(r"completion time, mean +70,101\.\d s, 19h", shown)
    assert len(re.findall(r"^[0-9a-f]+ +\d+ +\d+ +[\d,.]+ +[\d,.]+ +[\d,.]+ +[\d,.]+$", shown, re.MULTILINE)) >= 16


def test_output_says_what_was_assumed_and_that_quotas_are_not_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(OPENB_PODS, "--server-list", OPENB_NODES, "--domains", 4, "--quotas", PHILLY_QUOTAS, "--out", out)
    assert result.exit_code == 0, result.output
    said = flat(result.output)
    for sentence in (
        "31 servers, 147 GPUs (--server-list)",
        "RDMA domains of up to 8 servers each, in the servers' order: 4 (--domains)",
        "a gang waits 150 s at a level of locality before the next (--relax-after)",
        "quotas are those of the file (--quotas)",
        "quotas are NOT kept: policy fifo knows none",
        "93 jobs asked a part of a GPU: it was rounded up to a whole one",
        "21 jobs skipped: never started",
        "ended in the trace as Running 147, Succeeded 10, Failed 103",
    ):
        assert f"- {sentence}" in said
    assert result.stderr == ""  # no progress where nobody looks
    summary = json.loads((out / "summary.json").read_bytes())
    assert "quotas are those of the file (--quotas)" in summary["assumptions"]
    assert "quotas are NOT kept: policy fifo knows none" in summary["warnings"]


def test_json_is_the_summary_that_is_written(tmp_path: Path) -> None:
    result = run(
        SMALL, "--servers", "2x8", "--policy", "srtf", "--restart-cost", 30, "--out", tmp_path / "out", "--json"
    )
    assert result.exit_code == 0, result.output
    printed = json.loads(result.output)
    assert printed == json.loads((tmp_path / "out" / "summary.json").read_bytes())
    document = msgspec.convert(printed, ReplayDocument)
    assert (document.policy, document.restart_cost_s, document.preemptions > 0) == ("srtf", 30.0, True)


def test_philly_and_helios_are_known_by_their_content(tmp_path: Path) -> None:
    log = philly_log(tmp_path, philly_job())
    machines = written(
        tmp_path, "machineId,number of GPUs,single GPU mem", "m47,8, 24GB", "m412,8, 24GB", name="machines"
    )
    result = run(log, "--server-list", machines, "--out", tmp_path / "philly", "--audit")
    assert result.exit_code == 0, result.output
    assert "1 job on 2 servers with 16 GPUs" in result.output
    row = "1,u,vcA,n,1,1,1,FAILED,2020-06-09 10:00:00,2020-06-09 10:00:05,2020-06-09 10:00:15,10,5"
    log = written(tmp_path, HELIOS_HEADER, row)
    assert "ended in the trace as FAILED 1" in run(log, "--servers", "1x8", "--out", tmp_path / "helios").output


def test_bad_row_ends_it_or_is_listed(tmp_path: Path) -> None:
    path = written(tmp_path, JOBS_HEADER, "a,0,1,5,x", "b,0,1,-5,x", "c\x1b[31m,0,1,5,x")
    result = run(path, "--servers", "1x8", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert f"ygs: {path}, line 3: duration '-5': a number from 0 to 1,000,000,000,000 would be right" in result.output
    assert not (tmp_path / "out").exists()
    result = run(path, "--servers", "1x8", "--out", tmp_path / "out", "--skip-bad-rows")
    assert result.exit_code == 0
    assert "2 bad rows skipped" in result.output
    assert "line 3: duration '-5'" in flat(result.output)
    assert "\x1b" not in result.output


def test_empty_names_and_dashes_are_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(SMALL, "--servers", "2x8", "--out", "")
    assert result.exit_code == 2
    assert "the name of a folder would be right, '.' for the current one" in flat(result.output)
    result = run("-", "--servers", "2x8", "--out", "out")
    assert result.exit_code == 2
    assert "for standard input /dev/stdin would be right" in flat(result.output)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--servers", "2x8", "--policy", "luck"],
            "'luck' is not one of 'fifo', 'fifo_strict', 'las', 'philly', 'sjf',",
        ),
        ([], "a trace does not say on which servers to replay it: give --servers or --server-list"),
        (["--servers", "2x8", "--server-list", OPENB_NODES], "both say on which servers to replay: give one, not both"),
        (["--servers", "two"], "SERVERSxGPUS with 1 to 100000 servers of 1 to 1024 GPUs would be right"),
        (["--servers", "2x8", "--domains", "3"], "domains 3: 1 to 2, the number of servers, would be right"),
        (["--servers", "2x8", "--relax-after", "-1"], "-1.0 is not in the range"),
        (["--servers", "2x8", "--relax-after", "nan"], "relax_after_s nan is out of range"),
        (["--servers", "2x8", "--restart-cost", "nan"], "restart_cost_s nan: 0, or 0.001 to 10000000, would be right"),
        (["--servers", "2x8", "--vcs", "17"], "17 is not in the range 1<=x<=16"),
        (["--servers", "2x8", "--quotas", "nowhere"], "File 'nowhere' does not exist"),
    ],
)
def test_wrong_usage_says_what_would_be_right(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = run(SMALL, "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert message in flat(result.output)
    assert not (tmp_path / "out").exists()


def test_wrong_usage_is_told_before_a_folder_that_holds_results(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("{}")
    assert "holds results already" in run(SMALL, "--servers", "2x8", "--out", tmp_path).output
    result = run(SMALL, "--servers", "2x8", "--domains", "3", "--out", tmp_path)
    assert (result.exit_code, "domains 3: 1 to 2" in result.output) == (2, True)


def test_results_are_not_replaced_without_force(tmp_path: Path) -> None:
    first = run(SMALL, "--servers", "2x8", "--out", tmp_path)
    assert first.exit_code == 0, first.output
    again = run(SMALL, "--servers", "2x8", "--policy", "sjf", "--out", tmp_path)
    assert again.exit_code == 1
    assert re.search(
        r"^ygs: .* holds results already \(.*\); another folder, or --force, would be right$", again.output
    )
    assert json.loads((tmp_path / "summary.json").read_bytes())["policy"] == "fifo"
    before_reading = run(PHILLY_QUOTAS, "--servers", "2x8", "--out", tmp_path)
    assert before_reading.output == again.output
    assert run(SMALL, "--servers", "2x8", "--policy", "sjf", "--out", tmp_path, "--force").exit_code == 0
    assert json.loads((tmp_path / "summary.json").read_bytes())["policy"] == "sjf"


@pytest.mark.parametrize(
    ("trace", "arguments", "message"),
    [
        (PHILLY_WEEK, ["--vcs", "4"], "philly_week.csv.gz: every job names its virtual cluster"),
        (PHILLY_QUOTAS, [], "the columns of a known format"),
        (OPENB_NODES, [], "a list of servers, which --server-list takes"),
        (PHILLY_WEEK, ["--quotas", OPENB_NODES], "columns vc and quota_gpus"),
    ],
)
def test_wrong_files_are_one_sentence(tmp_path: Path, trace: Path, arguments: list[str], message: str) -> None:
    result = run(trace, "--servers", "2x8", "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 1
    assert message in result.output
    assert result.output.startswith("ygs: ")
    assert result.output.count("\n") == 1


def test_processes_with_other_hash_seeds_write_the_same_bytes_but_for_the_clocks(tmp_path: Path) -> None:
    written_by = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        options = ["--servers", "2x8", "--policy", "tiresias", "--vcs", "4", "--quotas", str(PHILLY_QUOTAS)]
        ended = run_in_terminal("replay", SMALL, "--out", str(out), *options, environment={"PYTHONHASHSEED": seed})
        assert ended.exit_code == 0, ended.shown
        files = {path.name: path.read_bytes() for path in out.iterdir()}
        files["summary.json"] = re.sub(rb'"(wall_s|cpu_s)": [\d.e-]+', b"", files["summary.json"])
        written_by.append(files)
    assert written_by[0] == written_by[1]


def test_interrupted_replay_leaves_nothing(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    ended = run_in_terminal("replay", str(PHILLY_WEEK), "--servers", "60x8", "--out", out, interrupt_at="jobs ended")
    assert ended.exit_code == 130, ended.shown
    assert ended.shown.endswith("ygs: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_interrupted_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("yarn_gpu_sched.replay.results.write_delays", interrupted)
    result = run(SMALL, "--servers", "2x8", "--out", tmp_path / "out")
    assert isinstance(result.exception, (KeyboardInterrupt, SystemExit))
    assert list(tmp_path.iterdir()) == []


def test_broken_law_is_told_as_the_bug_that_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.engine.Engine.audit", lambda _: ["GPU 0 is held twice"])
    result = run(SMALL, "--servers", "2x8", "--out", tmp_path / "out", "--audit")
    assert result.exit_code == 1
    assert "the engine broke its own laws, which is a bug: after" in result.output
    assert not (tmp_path / "out").exists()
