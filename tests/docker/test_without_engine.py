"""Where no container engine can be started, that and why is said in one line, and nothing is left."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLAIN_TOOLS = (
    "awk basename bash cat cut dirname env grep id mkdir mktemp mountpoint readlink rm rmdir sed setsid sleep sort tail"
    " tr umount"
)
REFUSES = 'echo "failed to start daemon: not permitted" >&2; exit 1'


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """Return an environment with neither an engine nor leave to install one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PLAIN_TOOLS.split():
        found = shutil.which(name)
        if found:
            (folder / name).symlink_to(found)
    (tmp_path / "rooms").mkdir()
    return {"PATH": str(folder), "YGS_APT": "0", "HOME": str(tmp_path), "TMPDIR": str(tmp_path / "rooms")}


@pytest.mark.parametrize(("flags", "code"), [((), 1), (("--if-possible",), 0)])
def test_tests_say_why_they_did_not_run(
    bare: dict[str, str], tmp_path: Path, flags: tuple[str, ...], code: int
) -> None:
    command = ["/bin/bash", str(ROOT / "docker" / "test.sh"), *flags]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=bare, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.startswith("The tests of the cluster in containers did not run, because ")
    assert "docker.io" in done.stdout or "only root can start one" in done.stdout
    assert list((tmp_path / "rooms").iterdir()) == []


@pytest.mark.parametrize(("flags", "code"), [((), 1), (("--if-possible",), 0)])
def test_an_engine_that_is_installed_and_does_not_start_is_no_failure_of_the_tests(
    bare: dict[str, str], tmp_path: Path, flags: tuple[str, ...], code: int
) -> None:
    """As in a container that may not start containers."""
    for name, does in {"docker": "exit 1", "docker-compose": "exit 0", "dockerd": REFUSES}.items():
        tool = tmp_path / "bin" / name
        tool.write_text(f"#!/bin/bash\n{does}\n")
        tool.chmod(0o755)
    command = ["/bin/bash", str(ROOT / "docker" / "test.sh"), *flags]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=bare, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    assert "failed to start daemon: not permitted" in done.stdout or "only root can start one" in done.stdout
    assert list((tmp_path / "rooms").iterdir()) == []


@pytest.mark.parametrize("kind", ["", "ps", "volume", "network", "image"])
def test_what_remove_leaves_is_a_failure_of_the_tests(bare: dict[str, str], tmp_path: Path, kind: str) -> None:
    """With an engine that is played: a real one would have to fail to remove something."""
    lists = f'case "$1 $2" in "{kind} -aq"|"{kind} ls") echo 0123abcd ;; esac' if kind else "true"
    for name, does in {"docker": lists, "tests": "exit 0"}.items():
        tool = tmp_path / "bin" / name
        tool.write_text(f"#!/bin/bash\n{does}\n")
        tool.chmod(0o755)
    more = {"PYTHON": str(tmp_path / "bin" / "tests"), "DOCKER_HOST": "unix:///played"}
    command = ["/bin/bash", str(ROOT / "docker" / "test.sh")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=bare | more, timeout=60)
    assert (done.returncode, done.stdout) == ((1, "docker/cluster remove left: 0123abcd\n") if kind else (0, "")), (
        done.stderr
    )
    assert list((tmp_path / "rooms").iterdir()) == []


def dry(bare: dict[str, str], tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a dry run of `docker/cluster`; afterwards nothing may be there."""
    state, engine = tmp_path / "state", tmp_path / "engine"
    more = {"YGS_DOCKER_STATE": str(state), "YGS_ENGINE": str(engine)}
    command = ["/bin/bash", str(ROOT / "docker" / "cluster"), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=bare | more, timeout=60)
    assert not state.exists()
    assert not engine.exists()
    return done


@pytest.mark.parametrize("words", ["--dry-run up --ha", "up --ha --dry-run", "up --dry-run --ha"])
def test_a_dry_run_starts_no_engine_and_writes_nothing(bare: dict[str, str], tmp_path: Path, words: str) -> None:
    done = dry(bare, tmp_path, *words.split())
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("would run: ")]
    assert "would run: engine_start" in told
    assert any("configuration.py" in line and line.endswith("--ha") for line in told), told
    assert any("compose up" in line for line in told), told


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("build", "would run: docker build|would run: quietly docker build"),
        ("submit", "would run: inside client yarn jar "),
        ("submit -shell_command date", "would run: inside client yarn jar distributedshell.jar -shell_command date"),
        ("down", "nothing runs"),
        ("remove", "would run: docker image rm -f "),
    ],
)
def test_each_command_that_changes_something_says_what_it_would_do(
    bare: dict[str, str], tmp_path: Path, command: str, told: str
) -> None:
    done = dry(bare, tmp_path, *command.split(), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert re.search(told, done.stdout), done.stdout


@pytest.mark.parametrize("command", ["yarn", "hdfs", "ygs", "logs", "status"])
def test_a_command_without_a_dry_run_is_not_done(bare: dict[str, str], tmp_path: Path, command: str) -> None:
    done = dry(bare, tmp_path, "--dry-run", command)
    assert (done.returncode, done.stderr) == (1, f"docker/cluster: {command} has no dry run\n")


def test_a_folder_that_holds_something_else_is_not_removed(bare: dict[str, str], tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "conf").mkdir(parents=True)
    (state / "thesis.tex").write_text("years of work")
    (tmp_path / "bin" / "find").symlink_to(shutil.which("find") or "")
    more = {"YGS_DOCKER_STATE": str(state), "YGS_ENGINE": str(tmp_path / "engine")}
    command = ["/bin/bash", str(ROOT / "docker" / "cluster"), "remove"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=bare | more, timeout=60)
    assert done.returncode == 1
    assert f"{state}/thesis.tex is there" in done.stderr
    assert sorted(path.name for path in state.iterdir()) == ["conf", "thesis.tex"]


def test_who_comes_second_waits_for_the_first(bare: dict[str, str], tmp_path: Path) -> None:
    state = tmp_path / "a state"
    state.mkdir()
    for name in ("find", "flock"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "")
    more = {"YGS_DOCKER_STATE": str(state), "YGS_ENGINE": str(tmp_path / "engine"), "YGS_LOCK_S": "0.3"}
    command = ["/bin/bash", str(ROOT / "docker" / "cluster"), "remove"]
    with (state / "lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=bare | more, timeout=60)
        assert done.returncode == 1
        assert f"another docker/cluster works with {state}" in done.stderr
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=bare | more, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not state.exists()
