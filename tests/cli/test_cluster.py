import json
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


@pytest.mark.real
@pytest.mark.timeout(400)
def test_a_cluster_comes_up_is_shown_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    where = ("--folder", str(folder))
    try:
        up = run("up", *where, "--servers", "1x2", "--racks", "1", "--stock", "--no-hdfs")
        assert up.exit_code == 0, up.output
        assert max(map(len, up.stdout.splitlines()[-3:])) <= 80
        status = run("status", *where, "--json")
        found = json.loads(status.output)
        assert (status.exit_code, found["ready"], found["servers"][0]["gpus"]) == (0, True, 2)
        assert "gpu-a1" in run("status", *where).output
        assert "ResourceManager" in run("logs", "rm", *where, "--lines", "100000").output
        assert "rm" in run("logs", *where).output
        again = run("up", *where)
        assert again.exit_code == 1
        assert "runs" in again.output
    finally:
        down = run("down", *where)
    assert down.exit_code == 0, down.output
    assert living(folder) == []
    assert run("status", *where).exit_code == 3
