"""Where no container engine can be started, that and why is said in one line, and nothing is left."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLAIN_TOOLS = (
    "awk basename bash cat cut dirname env grep id mkdir mktemp mountpoint readlink rm rmdir sed sort tail tr umount"
)


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


def test_a_dry_run_starts_no_engine_and_writes_nothing(bare: dict[str, str], tmp_path: Path) -> None:
    state = tmp_path / "state"
    more = {"YGS_DOCKER_STATE": str(state), "YGS_ENGINE": str(tmp_path / "engine")}
    command = ["/bin/bash", str(ROOT / "docker" / "cluster"), "--dry-run", "up", "--ha"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=bare | more, timeout=60)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("would run: ")]
    assert "would run: engine_start" in told
    assert any("configuration.py" in line and line.endswith("--ha") for line in told), told
    assert any("compose up" in line for line in told), told
    assert not state.exists()
    assert not (tmp_path / "engine").exists()


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
