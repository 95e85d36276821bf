"""Standard output and error that cannot be written to: one sentence, no traceback."""

import subprocess
import sys

import pytest

YGS = f"{sys.executable} -c 'from yarn_gpu_sched.cli import main; main()'"
REPLAY = "replay tests/data/traces/itp/cluster10.csv.gz --servers 2x8"


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", command], check=False, capture_output=True, text=True, timeout=60)  # noqa: S607 - the shell of the machine


@pytest.mark.parametrize("arguments", ["--version", "replay --help", "config --help"])
def test_closed_standard_output_is_said(arguments: str) -> None:
    ended = shell(f"{YGS} {arguments} >&-")
    assert ended.returncode == 1
    assert ended.stderr == "ygs: standard output is closed; an open one, such as >/dev/null, would be right\n"


@pytest.mark.parametrize("arguments", ["--version", "replay --help", f"{REPLAY} --json", REPLAY])
def test_full_standard_output_is_said(tmp_path: object, arguments: str) -> None:
    out = f" --out {tmp_path}/out" if "gz" in arguments else ""
    ended = shell(f"{YGS} {arguments}{out} >/dev/full")
    assert ended.returncode == 1
    right = "one that can be written to would be right"
    assert ended.stderr == f"ygs: standard output: No space left on device; {right}\n"


def test_closed_standard_error_is_done_without() -> None:
    ended = shell(f"{YGS} --version 2>&-")
    assert (ended.returncode, ended.stdout.startswith("ygs, version")) == (0, True)
    assert shell(f"{YGS} --nonsense 2>&-").returncode == 2


def test_other_errors_of_the_system_are_not_taken_for_those_of_the_output() -> None:
    code = "import yarn_gpu_sched.cli.command_line as c; c.ygs.main = lambda **_: open('nowhere'); c.main()"
    ended = shell(f'{sys.executable} -c "{code}"')
    assert ended.returncode == 1
    assert "FileNotFoundError: [Errno 2] No such file or directory: 'nowhere'" in ended.stderr
