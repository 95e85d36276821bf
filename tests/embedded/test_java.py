"""The command lines of the cluster's processes: which Java, which flags, which jars, in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from yarn_gpu_sched.embedded import STOCK_SCHEDULER, ClusterError, ClusterSpec, HadoopJars, java
from yarn_gpu_sched.embedded.cache import cache_folder
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.spec import GANG_SCHEDULER

ROLES = ("rm", "nm", "nn", "dn")
STOCK = ClusterSpec(scheduler_class=STOCK_SCHEDULER)


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def jars(tmp_path: Path) -> HadoopJars:
    folder = tmp_path / "hadoop"
    for name in ("lib/b.jar", "lib/a.jar", "webapps/w.jar"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    return HadoopJars("3.4.2", folder)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "c")
    made.make()
    return made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a Java of which nothing is run."""
    program(tmp_path / "jdk" / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    return tmp_path / "jdk"


def test_java_is_that_of_java_home(home: Path) -> None:
    assert java.java_command() == str(home / "bin" / "java")


@pytest.mark.parametrize("value", [None, ""])
def test_without_java_home_it_is_the_one_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv("JAVA_HOME", raising=False)
    else:
        monkeypatch.setenv("JAVA_HOME", value)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="no java in the PATH; install Java 17"):
        java.java_command()
    there = program(tmp_path / "java")
    assert java.java_command() == str(there)


def test_a_java_home_without_java_is_not_made_up_for_by_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "java")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(ClusterError, match=r"no java in \$JAVA_HOME, which is .*/gone; install Java 17"):
        java.java_command()


@pytest.mark.parametrize(("role", "heap"), [("rm", 768), ("nm", 192), ("nn", 192), ("dn", 192), ("client", 256)])
def test_flags_of_each_role(layout: Layout, role: str, heap: int) -> None:
    spec = ClusterSpec(jvm_flags={"rm": ("-Dours=1",), "nm": ("-Dtheirs=2",)})
    found = java.flags(spec, layout, role)
    assert found[0] == f"-Xmx{heap}m"
    assert found[-1] == {"rm": "-Dours=1", "nm": "-Dtheirs=2"}.get(role, f"-Dyarn.log.dir={layout.root}/logs")
    assert ("-XX:-BytecodeVerificationRemote" in found) is (role != "rm"), "the shim must stand the proof"
    assert f"-Djdk.net.hosts.file={layout.root}/hosts" in found
    assert f"-Djava.io.tmpdir={layout / 'tmp'}" in found
    assert f"-Duser.home={layout.root}/home" in found
    assert f"-Dhadoop.log.dir={layout.root}/logs" in found
    assert "--add-opens=java.base/java.lang=ALL-UNNAMED" in found


def test_what_starts_in_a_container_writes_into_the_clusters_folder(layout: Layout) -> None:
    found = java.container_flags(layout)
    assert f"-Djava.io.tmpdir={layout / 'tmp'}" in found
    assert "-XX:-UsePerfData" in found
    assert not any(flag.startswith("-Xmx") for flag in found), "how much it may take is for whoever starts it"


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("role", ROLES)
def test_a_daemon_is_java_with_its_jars_then_its_configuration(layout: Layout, jars: HadoopJars, role: str) -> None:
    command = java.daemon(STOCK, layout, jars, role, Path("/conf"))
    webapps = [str(jars.folder / "webapps" / "w.jar")] if role in ("nn", "dn") else []
    lib = [str(jars.folder / "lib" / name) for name in ("a.jar", "b.jar")]
    assert command[0].endswith("/jdk/bin/java")
    assert command[1:-3] == list(java.flags(STOCK, layout, role))
    assert command[-3:] == ["-cp", ":".join([*lib, *webapps, "/conf"]), java.MAIN_CLASSES[role]]
    assert java.MAIN_CLASSES[role].endswith(
        {"rm": "Manager", "nm": "NodeManager", "nn": "NameNode", "dn": "DataNode"}[role]
    )


@pytest.mark.usefixtures("home")
def test_the_resource_manager_runs_on_copies_of_what_was_given(
    tmp_path: Path, layout: Layout, jars: HadoopJars
) -> None:
    (tmp_path / "extra.jar").write_bytes(b"first")
    (tmp_path / "classes").mkdir()
    spec = ClusterSpec(extra_classpath=(tmp_path / "extra.jar", tmp_path / "classes"))
    path = java.daemon(spec, layout, jars, "rm", Path("/conf"))[-2].split(":")
    assert path[2:] == [str(layout / "lib" / "extra.jar"), str(tmp_path / "classes"), "/conf"]
    assert (layout / "lib" / "extra.jar").read_bytes() == b"first"
    (tmp_path / "extra.jar").write_bytes(b"second")
    java.daemon(spec, layout, jars, "nm", Path("/conf"))
    assert (layout / "lib" / "extra.jar").read_bytes() == b"first", "a NodeManager needs none of it"
    before = (layout / "lib" / "extra.jar").stat().st_ino
    java.daemon(spec, layout, jars, "rm", Path("/conf"))
    after = layout / "lib" / "extra.jar"
    assert (after.read_bytes(), after.stat().st_ino != before) == (b"second", True), "never written in place"
    assert [one.name for one in (layout / "lib").iterdir()] == ["extra.jar"]


def test_the_shim_is_added_where_nothing_else_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim, other = tmp_path / "shim.jar", tmp_path / "other.jar"
    for jar in (shim, other):
        jar.write_bytes(b"")
    monkeypatch.setenv("YGS_SHIM_JAR", str(shim))
    assert ClusterSpec().scheduler_class == GANG_SCHEDULER
    assert java.scheduler_jars(ClusterSpec()) == (shim,)
    assert java.scheduler_jars(ClusterSpec(extra_classpath=(other,))) == (other,)
    assert java.scheduler_jars(STOCK) == ()
    monkeypatch.chdir(tmp_path)
    assert java.scheduler_jars(ClusterSpec(extra_classpath=(Path("other.jar"),))) == (other,)
    with pytest.raises(ClusterError, match=r"extra_classpath gone\.jar does not exist"):
        java.scheduler_jars(ClusterSpec(extra_classpath=(Path("gone.jar"),)))


def test_a_shim_that_is_named_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YGS_SHIM_JAR", str(tmp_path))
    with pytest.raises(ClusterError, match=r"no shim at .*; build it with `make setup`, or name it in \$YGS_SHIM_JAR"):
        java.shim_jar()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("YGS_SHIM_JAR", "~/s.jar")
    (tmp_path / "s.jar").write_bytes(b"")
    assert java.shim_jar() == tmp_path / "s.jar"


@pytest.mark.parametrize(
    ("value", "expected"), [("", "~/.cache/yarn-gpu-sched"), ("~/elsewhere", "~/elsewhere"), ("/x", "/x")]
)
def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, value: str, expected: str) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("YGS_CACHE", value)
    assert cache_folder() == Path(expected.replace("~", "/home/somebody"))
