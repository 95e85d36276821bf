import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result

from yarn_gpu_sched.cli import ygs


def run(*arguments: str) -> Result:
    return CliRunner().invoke(ygs, ["cluster", *arguments])


def living(folder: Path) -> list[str]:
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(folder) in line]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (("up", "--servers", "four"), 1, "COUNTxGPUS"),
        (("up", "--racks", "0"), 1, "racks"),
        (("up", "--hadoop", "1.0"), 2, "1.0"),
        (("up", "--set", "nonsense"), 2, "KEY=VALUE"),
        (("up", "--service", "nonsense"), 2, "HOST:PORT"),
        (("fetch", "1.0"), 2, "1.0"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    tmp_path: Path, arguments: tuple[str, ...], exit_code: int, says: str
) -> None:
    folder = tmp_path / "cluster"
    options = ("--folder", str(folder)) if arguments[0] == "up" else ()
    result = run(*arguments, *options)
    assert (result.exit_code, says in result.output) == (exit_code, True), result.output
    assert not folder.exists()


def test_no_cluster_is_not_found(tmp_path: Path) -> None:
    folder = str(tmp_path / "none")
    assert run("status", "--folder", folder).exit_code == 3
    assert run("logs", "rm", "--folder", folder).exit_code == 3
    down = run("down", "--folder", folder)
    assert (down.exit_code, down.output) == (0, "no cluster was running\n")
    dry = run("down", "--dry-run", "--remove", "--folder", folder)
    assert (dry.exit_code, dry.output) == (0, "would end 0 processes\n")


def test_a_dry_run_says_what_would_start_and_makes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    dry = run("up", "--dry-run", "--folder", str(folder), "--servers", "2x4", "--racks", "2", "--cpu-servers", "1")
    assert dry.exit_code == 0, dry.output
    assert dry.output == f"would start in {folder}: rm, nn, dn, gpu-a1, gpu-b1, cpu-1\n"
    assert not folder.exists()


def test_servers_with_simulated_gpus_have_a_monitor_each(tmp_path: Path) -> None:
    where = ("--folder", str(tmp_path / "cluster"), "--servers", "1x4", "--racks", "1", "--no-hdfs", "--dry-run")
    dry = run("up", *where, "--gpu-model", "V100")
    assert (dry.exit_code, dry.output.partition(": ")[2]) == (0, "rm, gpu-a1, gpu-a1-monitor\n")
    wrong = run("up", *where, "--gpu-model", "V1000")
    assert (wrong.exit_code, "models: " in wrong.output) == (1, True), wrong.output
    both = run("up", *where, "--gpu-model", "V100", "--binding-dir", str(tmp_path))
    assert (both.exit_code, "left out with gpu_model" in both.output) == (1, True), both.output


def test_a_dry_run_refuses_what_a_real_one_would(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    dry = run("up", "--dry-run", "--folder", str(tmp_path))
    assert (dry.exit_code, "holds other things" in dry.output) == (1, True), dry.output
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.real
@pytest.mark.timeout(400)
def test_a_cluster_comes_up_is_shown_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    where = ("--folder", str(folder))
    try:
        up = run("up", *where, "--hadoop", "3.5.0", "--servers", "1x2", "--racks", "1")
        assert up.exit_code == 0, up.output
        assert max(map(len, up.stdout.splitlines()[-3:])) <= 80
        status = run("status", *where, "--json")
        found = json.loads(status.output)
        assert (status.exit_code, found["ready"], found["servers"][0]["gpus"]) == (0, True, 2)
        assert found["hadoop"] == "3.5.0"
        assert "gpu-a1" in run("status", *where).output
        assert "GangCapacityScheduler" in run("logs", "rm", *where, "--lines", "100000").output
        assert "rm" in run("logs", *where).output
        for again in (run("up", *where), run("up", "--dry-run", *where)):
            assert again.exit_code == 1
            assert "runs" in again.output
        dry = run("down", "--dry-run", "--remove", *where)
        assert (dry.exit_code, dry.output) == (0, f"would end 4 processes and remove {folder}\n")
        assert run("status", *where).exit_code == 0
    finally:
        down = run("down", *where)
    assert down.exit_code == 0, down.output
    assert living(folder) == []
    assert run("status", *where).exit_code == 3


def child(*arguments: str) -> "subprocess.Popen[str]":
    """Start `ygs cluster` as a shell would: in a process of its own."""
    command = [sys.executable, "-c", "from yarn_gpu_sched.cli import ygs; ygs()", "cluster", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.real
@pytest.mark.timeout(400)
def test_a_cluster_in_the_foreground_ends_at_ctrl_c(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    where = ("--folder", str(folder), "--servers", "1x2", "--racks", "1", "--stock", "--no-hdfs", "--foreground")
    up = child("up", *where)
    try:
        assert up.stderr is not None
        said = next((line for line in up.stderr if "Ctrl-C" in line), "")
        assert "takes it down" in said
        assert run("status", "--folder", str(folder)).exit_code == 0
        up.send_signal(signal.SIGINT)
        assert up.wait(60) == 0
        assert living(folder) == []
    finally:
        up.kill()
        up.communicate()
        run("down", "--folder", str(folder))
