"""Jars of a Hadoop version: a list of hashes, a cache, and a Maven that may fail half-way."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from yarn_gpu_sched.embedded import ClusterError, HadoopJars, fetch, fetch_jars
from yarn_gpu_sched.embedded import jars as jars_module
from yarn_gpu_sched.embedded.jars import DEFAULT_HADOOP, hadoop_jars, known_versions, verify

VERSION = "9.9.9"
CONTENT = {"lib/b.jar": b"b", "lib/a.jar": b"a", "webapps/w.jar": b"w"}


def listed(content: dict[str, bytes]) -> str:
    return "".join(f"{hashlib.sha256(one).hexdigest()}  {name}\n" for name, one in content.items())


def lay_out(folder: Path, content: dict[str, bytes]) -> Path:
    for name, one in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(one)
    return folder


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pin one version of our own, of three jars, and let the cache be empty."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / f"hadoop-{VERSION}.sha256").write_text(listed(CONTENT))
    (folder / "pom.xml").write_text("<project/>")
    monkeypatch.setattr(jars_module, "PACKAGE", folder)
    monkeypatch.setenv("YGS_CACHE", str(tmp_path / "cache"))
    return folder


def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Put a Maven on the PATH that logs its arguments and does this; $LIB and $WEBAPPS are where jars should go."""
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir(exist_ok=True)
    log = tmp_path / "mvn.log"
    program.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {log}\n'
        'for one in "$@"; do case "$one" in\n'
        '-Dlib=*) LIB="${one#-Dlib=}";; -Dwebapps=*) WEBAPPS="${one#-Dwebapps=}";; esac; done\n'
        f"{script}\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return log


GOOD = 'mkdir -p "$LIB" "$WEBAPPS"; printf a > "$LIB/a.jar"; printf b > "$LIB/b.jar"; printf w > "$WEBAPPS/w.jar"'


def test_jars_are_given_in_a_fixed_order(tmp_path: Path) -> None:
    jars = HadoopJars(VERSION, lay_out(tmp_path / "jars", CONTENT | {"lib/notes.txt": b""}))
    assert [path.name for path in jars.lib] == ["a.jar", "b.jar"]
    assert [path.name for path in jars.webapps] == ["w.jar"]
    assert jars.distributed_shell.parent == jars.mapreduce_examples.parent == jars.folder / "lib"


def test_versions_are_those_with_a_list(package: Path) -> None:
    (package / "hadoop-10.0.0.sha256").write_text("")
    assert known_versions() == ("10.0.0", VERSION)


def test_what_is_pinned_is_right(tmp_path: Path) -> None:
    verify(lay_out(tmp_path / "jars", CONTENT), VERSION)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"lib/a.jar": b"other"}, "lib/a.jar"),
        ({"lib/more.jar": b""}, "lib/more.jar"),
        ({"other/more.jar": b""}, "other/more.jar"),
        ({"webapps/w.jar": b"x", "lib/b.jar": b"x"}, "lib/b.jar, webapps/w.jar"),
    ],
)
def test_what_differs_from_the_list_is_named(tmp_path: Path, changed: dict[str, bytes], named: str) -> None:
    folder = lay_out(tmp_path / "jars", CONTENT | changed)
    with pytest.raises(ClusterError) as refused:
        verify(folder, VERSION)
    assert str(refused.value) == f"jars of Hadoop {VERSION} differ from hadoop-{VERSION}.sha256: {named}"


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "jars", CONTENT)
    (folder / "lib" / "a.jar").unlink()
    with pytest.raises(ClusterError, match=r"differ .*: lib/a\.jar$"):
        verify(folder, VERSION)


def test_jars_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = maven(tmp_path, monkeypatch, GOOD)
    first = fetch_jars(VERSION)
    assert [path.name for path in first.lib] == ["a.jar", "b.jar"]
    assert fetch_jars(VERSION) == first == hadoop_jars(VERSION)
    (said,) = log.read_text().splitlines()
    assert f"-Dhadoop.version={VERSION}" in said.split()
    assert said.split()[-1] == "package"
    cache = tmp_path / "cache"
    assert sorted(path.name for path in cache.iterdir()) == [first.folder.name, f"{first.folder.name}.lock"]


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (f"{GOOD}; printf x > $LIB/stranger.jar", r"differ from hadoop-9\.9\.9\.sha256: lib/stranger\.jar"),
        (f"{GOOD}; echo 'the disk is full'; exit 1", r"(?s)\(exit code 1\):.*the disk is full"),
        ("true", r"differ .*: lib/a\.jar, lib/b\.jar, webapps/w\.jar"),
        ("echo 'no such artifact' >&2; exit 7", r"(?s)\(exit code 7\):.*no such artifact"),
    ],
)
def test_a_fetch_that_went_wrong_leaves_nothing_and_is_tried_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, says: str
) -> None:
    maven(tmp_path, monkeypatch, script)
    with pytest.raises(ClusterError, match=says):
        fetch_jars(VERSION)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]
    with pytest.raises(ClusterError, match=f"no Hadoop {VERSION} jars in .*; run `make setup`"):
        hadoop_jars(VERSION)
    maven(tmp_path, monkeypatch, GOOD)
    assert len(fetch_jars(VERSION).lib) == 2


def test_maven_works_on_a_copy_of_the_pom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: Path) -> None:
    """It writes beside the pom, and an installed package may not be written to."""
    maven(tmp_path, monkeypatch, f'{GOOD}; test -s "$5" && touch "$(dirname "$5")/target"')
    fetch_jars(VERSION)
    assert sorted(path.name for path in package.iterdir()) == [f"hadoop-{VERSION}.sha256", "pom.xml"]


def test_the_command_tells_how_many_jars_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    maven(tmp_path, monkeypatch, GOOD)
    monkeypatch.setattr(sys, "argv", ["fetch", VERSION])
    assert fetch.main() == 0
    assert capsys.readouterr().out == f"2 jars of Hadoop {VERSION} in {hadoop_jars(VERSION).folder}\n"


def test_the_command_fails_with_one_sentence_and_fetches_the_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fetch"])
    assert fetch.main() == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"hadoop {DEFAULT_HADOOP!r} is not one that is pinned here; use {VERSION}\n"
