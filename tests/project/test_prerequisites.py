"""What is missing on a machine is named in one sentence where it may not be installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
PLAIN_TOOLS = ("bash", "cat", "dirname", "env", "id", "readlink")


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """Return a folder of commands in which there is neither Python nor Java, Maven or npm."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PLAIN_TOOLS:
        found = shutil.which(name)
        assert found, name
        (folder / name).symlink_to(found)
    return folder


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/bash", str(TOOLS / script), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)


def jdk(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    for name in ("java", "javac"):
        program = folder / "bin" / name
        program.write_text(f"#!/bin/bash\necho {name} {version}\n")
        program.chmod(0o755)
    return folder


def test_missing_tools_are_named_in_one_sentence(bare_path: Path) -> None:
    refused = run("prerequisites.sh", "maven", "npm", PATH=str(bare_path), YGS_APT="0")
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert refused.stderr.count("\n") == 1
    assert "apt-get install maven npm (" in refused.stderr


def test_tools_that_are_there_are_not_spoken_of(bare_path: Path) -> None:
    for name in ("mvn", "npm"):
        (bare_path / name).symlink_to("/bin/true")
    done = run("prerequisites.sh", "maven", "npm", PATH=str(bare_path), YGS_APT="0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_any_c_compiler_will_do(bare_path: Path) -> None:
    refused = run("prerequisites.sh", "cc", PATH=str(bare_path), YGS_APT="0")
    assert "apt-get install tcc libc6-dev (" in refused.stderr
    (bare_path / "cc").symlink_to("/bin/true")
    assert run("prerequisites.sh", "cc", PATH=str(bare_path), YGS_APT="0").returncode == 0


def test_unknown_need_is_refused(bare_path: Path) -> None:
    refused = run("prerequisites.sh", "cobol", PATH=str(bare_path), YGS_APT="0")
    assert refused.returncode != 0
    assert 'unknown need "cobol"; known are venv, jdk, maven, npm, cc, engine, mmdebstrap\n' in refused.stderr


def test_java_home_is_taken_where_it_is_a_jdk_17(tmp_path: Path, bare_path: Path) -> None:
    home = jdk(tmp_path / "seventeen", "17.0.15")
    assert run("java_home.sh", PATH=str(bare_path), JAVA_HOME=str(home)).stdout.strip() == str(home)


def test_java_home_of_another_version_is_passed_over(tmp_path: Path, bare_path: Path) -> None:
    newer = jdk(tmp_path / "newer", "25.0.1")
    seventeen = jdk(tmp_path / "seventeen", "17.0.15")
    (bare_path / "javac").symlink_to(seventeen / "bin" / "javac")
    found = run("java_home.sh", PATH=str(bare_path), JAVA_HOME=str(newer)).stdout.strip()
    assert found
    assert found != str(newer)


def test_python_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("#!/bin/bash\nexit 1\n")
    old.chmod(0o755)
    found = run("python.sh", PATH="/usr/bin:/bin", PYTHON=str(old))
    assert found.returncode == 0
    assert found.stdout.strip() != str(old)


def test_progress_is_quiet_about_what_succeeds() -> None:
    done = run("progress.sh", "jars", "bash", "-c", "echo much; echo more >&2", PATH="/usr/bin:/bin")
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("==> jars ")
    assert "much" not in done.stdout


def test_progress_shows_what_failed_and_passes_its_code_on() -> None:
    failed = run("progress.sh", "jars", "bash", "-c", "seq 1000; echo no route; exit 7", PATH="/usr/bin:/bin")
    assert failed.returncode == 7
    assert "failed (exit code 7)" in failed.stdout
    assert failed.stderr.splitlines()[-1] == "no route"
    assert len(failed.stderr.splitlines()) == 40
