from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from yarn_gpu_sched.embedded import ClusterError, fetch_jars
from yarn_gpu_sched.embedded.cache import cache_folder
from yarn_gpu_sched.embedded.jars import EXAMPLES_VERSION, PACKAGE, _folder, hadoop_jars, known_versions, verify


def run(cache: Path, *arguments: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "yarn_gpu_sched.embedded.fetch", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"YGS_CACHE": str(cache)} | more,
    )


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_at_once_fetch_once_and_both_succeed(tmp_path: Path) -> None:
    both = [run(tmp_path), run(tmp_path)]
    said = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert all("jars of Hadoop 3.4.2 in" in out for out, _ in said)
    folder = tmp_path / fetch_jars().folder.name
    assert sorted(path.name for path in tmp_path.iterdir()) == [folder.name, f"{folder.name}.lock"]
    verify(folder, "3.4.2")


@pytest.mark.real
def test_second_time_asks_nobody(tmp_path: Path) -> None:
    fetch_jars()
    with run(cache_folder(), "3.4.2", PATH=str(tmp_path)) as process:  # no Maven to be found there
        out, error = process.communicate()
    assert (process.returncode, error) == (0, "")
    assert str(cache_folder() / "hadoop-3.4.2-") in out


def test_missing_maven_is_told_with_what_to_install(tmp_path: Path) -> None:
    with run(tmp_path / "cache", PATH=str(tmp_path)) as process:
        out, error = process.communicate()
    assert (process.returncode, out) == (1, "")
    assert error == "mvn is not on the PATH; install Maven (Debian: apt-get install maven)\n"


def test_failing_maven_leaves_nothing_and_shows_its_words(tmp_path: Path) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho 'no such artifact'; exit 3\n")
    maven.chmod(0o755)
    with run(tmp_path / "cache", PATH=str(tmp_path)) as process:
        _, error = process.communicate()
    assert process.returncode == 1
    assert "could not fetch Hadoop 3.4.2 (exit code 3)" in error
    assert "no such artifact" in error
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


@pytest.mark.real
def test_jar_that_is_not_the_pinned_one_is_named(tmp_path: Path) -> None:
    jars = fetch_jars()
    for part in ("lib", "webapps"):
        (tmp_path / part).mkdir()
        for jar in (jars.folder / part).iterdir():
            (tmp_path / part / jar.name).symlink_to(jar)
    verify(tmp_path, "3.4.2")
    first, second, *_ = sorted((tmp_path / "lib").iterdir())
    first.unlink()
    shutil.copy(jars.lib[5], tmp_path / "lib" / "stranger.jar")
    second.unlink()
    second.write_bytes(b"other")
    with pytest.raises(ClusterError) as refused:
        verify(tmp_path, "3.4.2")
    expected = ", ".join(sorted(f"lib/{name}" for name in (first.name, second.name, "stranger.jar")))
    assert str(refused.value) == f"jars of Hadoop 3.4.2 differ from hadoop-3.4.2.sha256: {expected}"


@pytest.mark.parametrize("version", ["3.4", "../3.4.2", "", "latest"])
def test_unknown_version_is_refused_with_those_that_are_known(version: str) -> None:
    with pytest.raises(ClusterError, match=r"is not one that is pinned here; use 3\.4\.2, 3\.4\.3, 3\.5\.0"):
        fetch_jars(version)


@pytest.mark.parametrize("version", known_versions())
def test_a_list_pins_one_version_of_each_part_of_hadoop(version: str) -> None:
    """But for the examples: versions after 3.4.2 have none of their own."""
    names = (PACKAGE / f"hadoop-{version}.sha256").read_text().split()[1::2]
    parts = {name for name in names if name.startswith("lib/hadoop-") and "shaded" not in name}
    examples = {f"lib/hadoop-yarn-applications-distributedshell-{EXAMPLES_VERSION}.jar"}
    examples |= {f"lib/hadoop-mapreduce-examples-{EXAMPLES_VERSION}.jar"}
    assert examples < parts
    assert all(name.endswith(f"-{version}.jar") for name in parts - examples)


def test_another_list_is_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Jars that were fetched by an older list are not taken for those of a newer one."""
    shutil.copy(PACKAGE / "hadoop-3.4.2.sha256", tmp_path)
    monkeypatch.setattr("yarn_gpu_sched.embedded.jars.PACKAGE", tmp_path)
    before = _folder("3.4.2")
    with (tmp_path / "hadoop-3.4.2.sha256").open("a") as pinned:
        pinned.write(f"{'0' * 64}  lib/more.jar\n")
    assert before.parent == _folder("3.4.2").parent
    assert before != _folder("3.4.2")


def test_jars_that_were_not_fetched_are_told_with_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("YGS_CACHE", str(tmp_path))
    with pytest.raises(ClusterError, match="run `make setup` or"):
        hadoop_jars()
