"""A cluster's folder: what may be used, what is made and removed, the record in it, and the commands."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from yarn_gpu_sched.embedded import STOCK_SCHEDULER, ClusterError, ClusterSpec, HadoopJars
from yarn_gpu_sched.embedded.commands import write_commands
from yarn_gpu_sched.embedded.control import SupervisorId
from yarn_gpu_sched.embedded.errors import plain_path
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.record import Record, read, write

SUPERVISOR = SupervisorId(1_234, 56_789, "a-boot", "0123456789abcdef")
FULL = ClusterSpec(
    servers=((2, 4), (1, 0)),
    racks=3,
    cpu_servers=2,
    memory_mb=2_048,
    vcores=7,
    hdfs=False,
    scheduler_class=STOCK_SCHEDULER,
    service_address="127.0.0.1:7777",
    binding_dir=Path("/b"),
    extra_classpath=(Path("/x/a.jar"), Path("/x/classes")),
    settings={"dfs.replication": "2"},
    monitor_settings={"read_every_s": "0.5"},
    changed={"gpu-a1": (2, "/rack-z")},
    jvm_flags={"rm": ("-Da=b", "-Dc=d")},
)


def entries(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_folder_that_is_new_empty_or_a_clusters_may_be_used(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "c")
    assert layout.is_ours()
    layout.root.mkdir()
    assert layout.is_ours()
    (layout.root / "mine").touch()
    assert not layout.is_ours()
    layout.record.touch()
    assert layout.is_ours()
    assert not Layout(layout.record).is_ours(), "a file is no folder"
    layout.record.unlink()
    layout.record.mkdir()
    assert not layout.is_ours(), "nor is a folder a record"


def test_it_is_made_as_new_for_this_user_alone_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "deep" / "c")
    layout.make()
    made = {"bin", "conf", "data", "home", "lib", "logs", "servers", "tmp"}
    assert entries(layout.root) == made
    assert layout.root.stat().st_mode & 0o777 == 0o700
    for left in ("conf/old", "cluster.json", "control", "mine"):
        (layout / left).write_text("old")
    layout.make()
    assert entries(layout.root) == made | {"mine"}
    assert entries(layout.conf) == set()


def test_what_a_cluster_made_is_removed_and_the_folder_if_nothing_else_is_in_it(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "c")
    layout.make()
    names = (
        "cluster.env",
        "cluster.json",
        "control",
        "distributedshell.jar",
        "hosts",
        "mapreduce-examples.jar",
        "topology",
    )
    for name in names:
        (layout / name).touch()
    (layout / "mine").touch()
    layout.remove()
    assert entries(layout.root) == {"mine"}
    (layout / "mine").unlink()
    layout.remove()
    assert not layout.root.exists()
    layout.remove()


def test_places_in_the_folder() -> None:
    layout = Layout(Path("/c"))
    assert (layout.conf, layout.record) == (Path("/c/conf"), Path("/c/cluster.json"))
    assert (layout.server("gpu-a1"), layout.log("rm")) == (Path("/c/servers/gpu-a1"), Path("/c/logs/rm.log"))


@pytest.mark.parametrize("spec", [ClusterSpec(), FULL], ids=["default", "full"])
def test_a_record_is_read_as_it_was_written(tmp_path: Path, spec: ClusterSpec) -> None:
    layout = Layout(tmp_path)
    record = Record(spec, {"rm_web": 8_088}, SUPERVISOR)
    write(layout, record)
    assert read(layout) == record
    assert read(layout).cluster_id == "embedded-01234567"
    assert entries(tmp_path) == {"cluster.json"}, "no part of it is left"


def test_paths_are_recorded_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = ClusterSpec(binding_dir=Path("b"), extra_classpath=(Path("a.jar"),))
    write(Layout(tmp_path), Record(spec, {}, SUPERVISOR))
    found = read(Layout(tmp_path)).spec
    assert (found.binding_dir, found.extra_classpath) == (tmp_path / "b", (tmp_path / "a.jar",))


def test_no_record_is_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=rf"no cluster in {tmp_path}; `ygs cluster up` makes one"):
        read(Layout(tmp_path))


@pytest.mark.parametrize("damage", ["", "[]", "{}", "no json", '{"spec": 7, "ports": {}, "supervisor": {}}'])
def test_a_damaged_record_is_named(tmp_path: Path, damage: str) -> None:
    (tmp_path / "cluster.json").write_text(damage)
    with pytest.raises(ClusterError, match=r"cluster\.json is not the record of a cluster"):
        read(Layout(tmp_path))


@pytest.mark.parametrize("missing", ["spec", "ports", "supervisor"])
def test_a_record_that_lacks_something_is_none(tmp_path: Path, missing: str) -> None:
    write(Layout(tmp_path), Record(ClusterSpec(), {}, SUPERVISOR))
    found = json.loads((tmp_path / "cluster.json").read_text())
    del found[missing]
    (tmp_path / "cluster.json").write_text(json.dumps(found))
    with pytest.raises(ClusterError, match="is not the record of a cluster"):
        read(Layout(tmp_path))


@pytest.mark.parametrize("path", ["/a/b-c_d.e+f@1", "/", "relative"])
def test_a_plain_path_is_given_back(path: str) -> None:
    assert plain_path("folder", Path(path)) == Path(path)


@pytest.mark.parametrize(
    ("path", "named"),
    [("/a b", "' '"), ("/a:b,c:d", "',' ':'"), ("/a'b", '"\'"'), ("/$x;", "'$' ';'"), ("/a\nb", r"'\n'")],
)
def test_a_path_that_hadoop_could_not_spell_is_refused_with_what_is_strange(path: str, named: str) -> None:
    with pytest.raises(ClusterError) as refused:
        plain_path("binding_dir", Path(path))
    assert str(refused.value) == f"binding_dir {path!r} should be without {named}"


def test_the_commands_run_java_with_the_clusters_configuration_and_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Java that prints what it is given stands in the real one's place."""
    home = tmp_path / "jdk with a space"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    layout = Layout(tmp_path / "c")
    layout.make()
    jars = HadoopJars("3.4.2", tmp_path / "jars")
    write_commands(ClusterSpec(jvm_flags={"client": ("-Dname=two words",)}), layout, jars)
    environment = {"PATH": "/usr/bin:/bin", "HADOOP_CLASSPATH": "/mine.jar", "HADOOP_CLIENT_OPTS": "-Dmore=1 -Dyet=2"}
    done = subprocess.run(
        [layout / "bin" / "yarn", "application", "-list"], env=environment, capture_output=True, text=True, check=True
    )
    said = done.stdout.splitlines()
    assert "-Dname=two words" in said
    assert said[said.index("-Dmore=1") + 1] == "-Dyet=2"
    assert said[said.index("-cp") + 1] == f"{layout.conf}:{jars.folder}/lib/*:/mine.jar"
    assert said[-1] == "-list"
    assert (layout / "distributedshell.jar").readlink() == jars.distributed_shell
    assert (layout / "mapreduce-examples.jar").readlink() == jars.mapreduce_examples
