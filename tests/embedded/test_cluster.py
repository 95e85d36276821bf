"""What a cluster of real Hadoop processes shows once it is up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.embedded.jobs import Delivery, application_id, submit, worker_lines
from tests.embedded.waiting import until
from yarn_gpu_sched.embedded import ClusterError, ClusterSpec, EmbeddedCluster

pytestmark = [pytest.mark.real, pytest.mark.timeout(420)]


def test_status_tells_daemons_servers_and_where_to_look(cluster: EmbeddedCluster) -> None:
    status = cluster.status()
    assert status.running
    assert status.ready
    assert {daemon.name for daemon in status.daemons} == set(cluster.names)
    assert all(psutil.pid_exists(daemon.pid) and daemon.running for daemon in status.daemons)
    shown = [(server.name, server.rack, server.state, server.gpus, server.gpus_used) for server in status.servers]
    assert shown == [
        ("gpu-a1", "/rack-a", "RUNNING", 2, 0),
        ("gpu-b1", "/rack-b", "RUNNING", 2, 0),
        ("cpu-1", "/rack-a", "RUNNING", 0, 0),
    ]
    assert os.access(status.yarn, os.X_OK)
    assert Path(status.distributed_shell_jar).is_file()


def test_resource_manager_sees_racks_gpus_memory_and_vcores(cluster: EmbeddedCluster) -> None:
    nodes = {node["nodeHostName"]: node for node in cluster.rm_rest("/ws/v1/cluster/nodes")["nodes"]["node"]}
    assert {name: node["rack"] for name, node in nodes.items()} == {
        "gpu-a1": "/rack-a",
        "gpu-b1": "/rack-b",
        "cpu-1": "/rack-a",
    }
    for name, node in nodes.items():
        total = {
            kind["name"]: kind["value"] for kind in node["totalResource"]["resourceInformations"]["resourceInformation"]
        }
        gpus = 0 if name == "cpu-1" else 2
        assert total == {"memory-mb": 65_536, "vcores": 32, "yarn.io/gpu": gpus}


def test_daemons_listen_on_loopback_alone(cluster: EmbeddedCluster) -> None:
    for daemon in cluster.status().daemons:
        listening = [c for c in psutil.Process(daemon.pid).net_connections("inet") if c.status == psutil.CONN_LISTEN]
        assert listening, daemon.name
        for connection in listening:
            address = connection.laddr.ip.removeprefix("::ffff:")
            assert address.startswith("127."), f"{daemon.name} listens on {address}"


def test_page_that_is_not_there_is_an_error_with_its_address(cluster: EmbeddedCluster) -> None:
    with pytest.raises(ClusterError, match=r"/ws/v1/nothing: HTTP 404"):
        cluster.rm_rest("/ws/v1/nothing")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("version",), 0, "Hadoop 3.4.2"),
        (("node", "-list", "-all"), 0, "Total Nodes:3"),
        (("queue", "-status", "default"), 0, "Queue Path : root.default"),
        (("queue", "-list", "all"), 0, "root.default"),
        (("queue", "-dance"), 1, "Unrecognized option: -dance"),
        (("app", "-list"), 0, "Total number of applications"),
        (("application", "-status", "application_1_0001"), 255, "doesn't exist in RM"),
        (("applicationattempt", "-list", "application_1_0001"), 1, "doesn't exist in RM"),
        (("container", "-list", "appattempt_1_0001_000001"), 1, "doesn't exist in RM"),
        (("logs", "-applicationId", "nonsense"), 255, "Invalid ApplicationId"),
        (("rmadmin", "-refreshQueues"), 0, ""),
        (("rmadmin", "-nonsense"), 255, "Unknown command"),
        (("cluster", "-lnl"), 0, "Node Labels"),
        (("top", "-help"), 0, "usage: yarn top"),
        (("jar",), 255, "RunJar jarFile"),
        (("classpath",), 0, "hadoop-3.4.2-"),
        (("org.apache.hadoop.util.VersionInfo",), 0, "Hadoop 3.4.2"),
        ((), 1, "Usage: yarn"),
        (("--help",), 0, "Usage: yarn"),
        (("dance",), 1, "dance is not COMMAND nor fully qualified CLASSNAME"),
        (("resourcemanager",), 1, "is a daemon"),
        (("org.example.Nothing",), 1, "org.example.Nothing"),
    ],
    ids=lambda value: " ".join(value) or "none" if isinstance(value, tuple) else None,
)
def test_yarn_answers_as_the_stock_command_does(
    cluster: EmbeddedCluster, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = cluster.yarn(*arguments)
    assert done.returncode == code, done.stderr
    assert says in done.stdout + done.stderr


def test_yarn_is_found_on_the_path_of_the_environment(cluster: EmbeddedCluster) -> None:
    environment = os.environ | cluster.environment
    done = subprocess.run(
        [str(shutil.which("yarn", path=environment["PATH"])), "--loglevel", "ERROR", "version"],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stdout.startswith("Hadoop 3.4.2\n")
    assert Path(environment["YGS_DISTRIBUTED_SHELL_JAR"]).is_file()


def test_hdfs_command_writes_lists_and_reads(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept\n")
    hdfs = str(cluster.folder / "bin" / "hdfs")

    def dfs(*arguments: str) -> str:
        return subprocess.run([hdfs, "dfs", *arguments], check=True, capture_output=True, text=True).stdout

    dfs("-mkdir", "-p", "/kept")
    dfs("-put", str(tmp_path / "file"), "/kept/file")
    assert "/kept/file" in dfs("-ls", "/kept")
    assert dfs("-cat", "/kept/file") == "kept\n"
    assert subprocess.run([hdfs, "dfs", "-cat", "/nothing"], check=False, capture_output=True).returncode == 1


def test_command_that_takes_too_long_is_ended(cluster: EmbeddedCluster) -> None:
    with pytest.raises(ClusterError, match=r"yarn version: no end after 0\.01 s"):
        cluster.yarn("version", timeout_s=0.01)


def test_second_cluster_in_the_same_folder_is_refused(cluster: EmbeddedCluster) -> None:
    with pytest.raises(ClusterError, match=r"a cluster runs in .* already"):
        EmbeddedCluster(cluster.folder, ClusterSpec(scheduler_class=cluster.spec.scheduler_class)).up()
    assert cluster.status().ready


def test_job_runs_through_yarn_jar_and_its_containers_wait_for_their_binding(
    cluster: EmbeddedCluster, bindings: Path, tmp_path: Path
) -> None:
    # The binding comes when the container is seen to run, as the service's would: never before.
    script = tmp_path / "worker.sh"
    script.write_text('echo "worker ${CONTAINER_ID} sees [${CUDA_VISIBLE_DEVICES}]"\n')
    with Delivery(cluster, bindings):
        asks = ("-num_containers", "2", "-container_resources", "memory-mb=128,vcores=1,yarn.io/gpu=1")
        done = submit(cluster, script, *asks)
    assert done.returncode == 0, done.stderr
    application = application_id(done.stderr)
    logs = cluster.yarn("logs", "-applicationId", application).stdout
    seen = [line.split(" sees ") for line in worker_lines(logs, "worker")]
    assert len(seen) == 2, logs
    for worker, gpus in seen:
        container = worker.split()[1]
        assert gpus == f"[{(bindings / container).read_text().strip()}]"


def test_container_that_comes_by_the_script_sees_no_gpu(
    cluster: EmbeddedCluster, bindings: Path, tmp_path: Path
) -> None:
    script = tmp_path / "worker.sh"
    script.write_text('echo "worker sees [${CUDA_VISIBLE_DEVICES}]"\n')
    with Delivery(cluster, bindings):
        asks = ("-container_resources", "memory-mb=128,vcores=1,yarn.io/gpu=1", "-shell_env", "BASH_ENV=/dev/null")
        done = submit(cluster, script, *asks)
    assert done.returncode == 0, done.stderr
    logs = cluster.yarn("logs", "-applicationId", application_id(done.stderr)).stdout
    assert worker_lines(logs, "worker") == ["worker sees [-1]"]


def test_job_that_fails_has_a_failing_exit_code(cluster: EmbeddedCluster, bindings: Path, tmp_path: Path) -> None:
    script = tmp_path / "worker.sh"
    script.write_text("exit 9\n")
    with Delivery(cluster, bindings):
        done = submit(cluster, script, "-container_resources", "memory-mb=128,vcores=1")
    assert done.returncode == 2, done.stderr


def test_queue_added_by_configure_is_there_after_refresh(cluster: EmbeddedCluster) -> None:
    queues = "yarn.scheduler.capacity.root"
    cluster.configure(
        {
            f"{queues}.queues": "default,research",
            f"{queues}.default.capacity": "50",
            f"{queues}.research.capacity": "50",
        }
    )
    assert cluster.yarn("rmadmin", "-refreshQueues").returncode == 0
    assert "Queue Path : root.research" in cluster.yarn("queue", "-status", "research").stdout


def test_what_is_changed_stands_in_the_files_and_can_be_taken_back(cluster: EmbeddedCluster) -> None:
    before, site = cluster.spec, cluster.folder / "conf" / "yarn-site.xml"
    cluster.configure({"ygs.settle-s": "7"})
    assert "<value>7</value>" in site.read_text()
    cluster.configure({"ygs.settle-s": None})
    assert "<value>7</value>" not in site.read_text()
    cluster.change_server("gpu-a1", gpus=1)
    cluster.change_server("gpu-a1", rack="/rack-z")
    changed = cluster.spec.server_list()[0]
    assert (changed.name, changed.gpus, changed.rack) == ("gpu-a1", 1, "/rack-z")
    assert "gpu-a1\t/rack-z" in (cluster.folder / "topology").read_text()
    with pytest.raises(ClusterError, match="there is no server gpu-z9"):
        cluster.change_server("gpu-z9", gpus=1)
    cluster.change_server("gpu-a1", gpus=2, rack="/rack-a")
    assert cluster.spec.server_list() == before.server_list()


def test_killed_daemons_come_back_at_the_same_ports(cluster: EmbeddedCluster) -> None:
    before = {daemon.name: daemon.pid for daemon in cluster.status().daemons}
    for name in ("rm", "gpu-a1"):
        cluster.kill(name)
    with pytest.raises(ClusterError, match="rm is not running"):
        cluster.kill("rm")
    for name in ("rm", "gpu-a1"):
        cluster.start(name)
    cluster.await_servers(wait_s=120)
    after = {daemon.name: daemon.pid for daemon in cluster.status().daemons}
    assert {name for name, pid in before.items() if after[name] != pid} == {"rm", "gpu-a1"}
    with pytest.raises(ClusterError, match="rm is running"):
        cluster.start("rm")


def test_frozen_daemon_is_thawed(cluster: EmbeddedCluster) -> None:
    cluster.kill("gpu-b1", signal.SIGSTOP)
    pid = next(daemon.pid for daemon in cluster.status().daemons if daemon.name == "gpu-b1")
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "it is frozen")
    cluster.kill("gpu-b1", signal.SIGCONT)
    cluster.await_servers()


def test_unknown_name_is_refused(cluster: EmbeddedCluster) -> None:
    with pytest.raises(ClusterError, match="gpu-z9 is not running"):
        cluster.kill("gpu-z9")
    with pytest.raises(ClusterError, match="gpu-z9 was never started"):
        cluster.start("gpu-z9")


def test_process_beside_the_daemons_is_one_of_the_cluster(cluster: EmbeddedCluster) -> None:
    cluster.run("companion", ["/bin/bash", "-c", "echo here; exec sleep 1000"])
    until(lambda: "companion" in cluster.logs() and cluster.logs()["companion"].read_text() == "here\n", "it speaks")
    cluster.kill("companion")
    companion = next(daemon for daemon in cluster.status().daemons if daemon.name == "companion")
    assert companion.exit_code == -signal.SIGKILL


def test_nothing_is_written_outside_of_the_folder(cluster: EmbeddedCluster) -> None:
    for daemon in cluster.status().daemons:
        if daemon.running:
            opened = [Path(file.path) for file in psutil.Process(daemon.pid).open_files() if "r" not in file.mode[:1]]
            assert [path for path in opened if not path.is_relative_to(cluster.folder)] == []
