"""A cluster's beginning and end: who may start it, what ends it, and that nothing stays."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.embedded.conftest import OfFolder
from tests.embedded.waiting import until
from yarn_gpu_sched.embedded import DISTRIBUTED_SHELL, STOCK_SCHEDULER, ClusterError, ClusterSpec, EmbeddedCluster

pytestmark = [pytest.mark.real, pytest.mark.timeout(420)]
SMALL = ClusterSpec(servers=((1, 2),), racks=1, scheduler_class=STOCK_SCHEDULER, hdfs=False)

STARTER = """
import sys, time
from yarn_gpu_sched.embedded import STOCK_SCHEDULER, ClusterSpec, EmbeddedCluster

spec = ClusterSpec(servers=((1, 2),), racks=1, scheduler_class=STOCK_SCHEDULER, hdfs=False)
with EmbeddedCluster(sys.argv[1], spec) as cluster:
    print("up", flush=True)
    time.sleep(1000)
"""
INTERRUPTED = """
import sys
from yarn_gpu_sched.embedded import STOCK_SCHEDULER, ClusterSpec, EmbeddedCluster

spec = ClusterSpec(servers=((1, 2),), racks=1, scheduler_class=STOCK_SCHEDULER, hdfs=False)
EmbeddedCluster(sys.argv[1], spec).up(lambda step: print(step, flush=True), detach=True)
"""


def run_python(code: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)


def test_starter_killed_beside_another_cluster_leaves_nothing_of_its_own(
    cluster: EmbeddedCluster, tmp_path: Path, of_folder: OfFolder
) -> None:
    folder = tmp_path / "second"
    with run_python(STARTER, folder) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "up\n"
        second = EmbeddedCluster(folder)
        assert second.status().ready
        assert cluster.status().ready
        assert not set(second.ports.values()) & set(cluster.ports.values())
        # A container whose process has left its parents, and a client that waits for the job.
        stray = tmp_path / "stray.sh"
        stray.write_text(f"(setsid sleep 1000 & )\ntouch {tmp_path}/ran\nsleep 1000\n")
        jar = second.distributed_shell_jar
        arguments = ("jar", jar, DISTRIBUTED_SHELL, "-jar", jar, "-shell_script", str(stray), "-master_memory", "256")
        client = threading.Thread(target=second.yarn, args=arguments)
        client.start()
        until((tmp_path / "ran").exists, "the container runs", wait_s=120)
        starter.send_signal(signal.SIGKILL)
    until(lambda: of_folder(folder) == [], "all of the second cluster ends")
    client.join(timeout=30)
    assert not client.is_alive()
    assert not second.status().running
    assert cluster.status().ready


def test_interrupt_while_coming_up_leaves_nothing(tmp_path: Path, of_folder: OfFolder) -> None:
    folder = tmp_path / "c"
    with run_python(INTERRUPTED, folder) as starter:
        assert starter.stdout is not None
        while "NodeManagers" not in starter.stdout.readline():
            pass
        starter.send_signal(signal.SIGINT)
    assert starter.returncode != 0
    assert of_folder(folder) == []


def test_detached_cluster_is_taken_down_by_another_process(tmp_path: Path, of_folder: OfFolder) -> None:
    folder = tmp_path / "c"
    with run_python(INTERRUPTED, folder) as starter:
        assert starter.stdout is not None
        said = starter.stdout.read()
    assert starter.returncode == 0, said
    cluster = EmbeddedCluster(folder)
    assert cluster.status().ready
    assert cluster.spec == SMALL
    assert cluster.down() == 2
    assert of_folder(folder) == []
    status = cluster.status()
    assert (status.running, status.ready, status.daemons, status.servers) == (False, False, (), ())
    assert cluster.logs()["rm"].stat().st_size > 0
    assert cluster.down() == 0
    cluster.down(remove=True)
    assert not folder.exists()


def test_daemon_that_ends_fails_the_start_with_its_last_words(tmp_path: Path, of_folder: OfFolder) -> None:
    wrong = ClusterSpec(servers=((1, 2),), racks=1, scheduler_class="org.example.NoSuchScheduler", hdfs=False)
    with pytest.raises(ClusterError, match=r"(?s)rm ended with exit code .*NoSuchScheduler"):
        EmbeddedCluster(tmp_path / "c", wrong).up()
    assert of_folder(tmp_path) == []


def test_start_that_takes_too_long_is_given_up(tmp_path: Path, of_folder: OfFolder) -> None:
    with pytest.raises(ClusterError, match=r"after 0 s 0 of 1 servers are up; see .*/logs"):
        EmbeddedCluster(tmp_path / "c", SMALL).up(ready_s_max=0.0)
    assert of_folder(tmp_path) == []


def test_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "mine").write_text("mine")
    with pytest.raises(ClusterError, match="holds other things; name a new or an empty folder"):
        EmbeddedCluster(tmp_path, SMALL).up()
    assert (tmp_path / "conf" / "mine").read_text() == "mine"
    EmbeddedCluster(tmp_path, SMALL).down(remove=True)
    assert (tmp_path / "conf" / "mine").read_text() == "mine"


def test_missing_shim_is_told_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YGS_SHIM_JAR", str(tmp_path / "nothing.jar"))
    with pytest.raises(ClusterError, match=r"no shim at .*nothing\.jar; build it with `make setup`"):
        EmbeddedCluster(tmp_path / "c", ClusterSpec()).up()
    assert not (tmp_path / "c").exists()


def test_missing_java_is_told_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ClusterError, match="install Java 17"):
        EmbeddedCluster(tmp_path / "c", SMALL).up()
    assert not (tmp_path / "c").exists()


def test_folder_that_hadoop_could_not_spell_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"folder .* should be without ' ' ','"):
        EmbeddedCluster(tmp_path / "my cluster, new", SMALL).up()


def test_folder_without_a_cluster_says_so(tmp_path: Path) -> None:
    nothing = EmbeddedCluster(tmp_path / "c")
    for ask in (nothing.status, nothing.up, lambda: nothing.kill("rm"), lambda: nothing.rm_rest("/")):
        with pytest.raises(ClusterError, match=r"no cluster in .*; `ygs cluster up` makes one"):
            ask()
    assert nothing.down() == 0
    assert nothing.logs() == {}


def test_record_that_is_damaged_says_so(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"spec": {}}')
    with pytest.raises(ClusterError, match="is not the record of a cluster"):
        EmbeddedCluster(tmp_path).status()
