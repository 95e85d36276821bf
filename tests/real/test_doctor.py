"""`ygs doctor` on a real cluster: it finds nothing while all is well, and names what is then really broken."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from tests.real.joint import processes_of, serve
from tests.real.monitored import happens
from tests.real.waiting import wait_until
from yarn_gpu_sched.cli import ygs
from yarn_gpu_sched.client import Client
from yarn_gpu_sched.doctor import CHECKS, Finding, Installation, Places, Result, Verdict, examine
from yarn_gpu_sched.embedded import STOCK_SCHEDULER, ClusterSpec, EmbeddedCluster, free_port
from yarn_gpu_sched.protocol.v1 import gpu_pb2

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
CAPACITY = "yarn.scheduler.capacity."
SILENT_AFTER_S = 3
WAIT_S = 90.0
UNNAMED = "certificates"
"""The one check with nothing to look at: nobody has certificates on loopback."""


@dataclass
class Patient:
    """A cluster with its service."""

    cluster: EmbeddedCluster
    service: str

    @property
    def rm(self) -> str:
        return f"http://127.0.0.1:{self.cluster.ports['rm_web']}"

    @property
    def hdfs(self) -> str:
        return f"http://127.0.0.1:{self.cluster.ports['nn_web']}"

    def installation(self, folder: str = "/") -> Installation:
        return Installation(
            Places(rm=(self.rm,), conf=self.cluster.folder / "conf", hdfs=f"{self.hdfs}{folder}"),
            lambda timeout_s: Client(self.service, timeout_s=timeout_s, attempts_max=2),
            addresses={server.name: server.address for server in self.cluster.spec.server_list()},
        )

    def look(self, name: str, folder: str = "/") -> Result:
        (check,) = [one for one in CHECKS if one.name == name]
        return check.run(self.installation(folder))

    def await_found(self, name: str, verdict: Verdict, words: str = "") -> Finding:
        """Wait until a check says this."""

        def holds(result: Result) -> bool:
            return result.verdict == verdict and words in result.findings[0].sentence

        look = partial(self.look, name)
        return wait_until(look, holds, f"{name}: {verdict}, {words}", wait_s=WAIT_S, logs=self.cluster.folder).findings[
            0
        ]

    @contextmanager
    def configured(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Change the queues for a while, by refreshQueues."""
        before = dict(self.cluster.spec.settings)
        self._refresh(settings)
        try:
            yield
        finally:
            self._refresh({key: before.get(key) for key in settings})

    def _refresh(self, settings: Mapping[str, str | None]) -> None:
        self.cluster.configure(settings)
        done = self.cluster.yarn("rmadmin", "-refreshQueues")
        assert done.returncode == 0, done.stdout + done.stderr

    def post(self, path: str, document: Mapping[str, Any]) -> bytes:
        request = Request(  # noqa: S310 - the cluster's own http address
            f"{self.rm}{path}", data=json.dumps(document).encode(), headers={"Content-Type": "application/json"}
        )
        with urlopen(request, timeout=30) as answer:  # noqa: S310 - as it was made above
            found: bytes = answer.read()
        return found

    def submit(self) -> None:
        """Submit an application that goes on for a while, as programs do it over the web."""
        app_id = json.loads(self.post("/ws/v1/cluster/apps/new-application", {}))["application-id"]
        small = {"memory": 256, "vCores": 1}
        command = {"commands": {"command": "sleep 300"}}
        self.post(
            "/ws/v1/cluster/apps",
            {
                "application-id": app_id,
                "application-name": "sleeps",
                "application-type": "TEST",
                "queue": "default",
                "am-container-spec": command,
                "resource": small,
            },
        )


@pytest.fixture(scope="module")
def patient(hadoop: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    """Boot 2 servers of 4 simulated GPUs with monitors, one without GPUs, HDFS, and the service."""
    folder = tmp_path_factory.mktemp("doctor")
    (folder / "metrics").mkdir()
    (folder / "metrics" / "hadoop-metrics2.properties").write_text("*.period=1\n")
    address = f"127.0.0.1:{free_port()}"
    spec = ClusterSpec(
        hadoop=hadoop,
        servers=((2, 4),),
        racks=2,
        cpu_servers=1,
        gpu_model="V100",
        service_address=address,
        monitor_settings={"read_every_s": "0.5", "push_every_s": "0.5"},
        settings={"yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200"},
    )
    with EmbeddedCluster(folder / "cluster", spec) as cluster:
        serve(
            cluster,
            YGS_LISTEN=address,
            YGS_LOCAL_MONITORS="true",
            YGS_MONITOR_SILENT_AFTER_S=str(SILENT_AFTER_S),
            YGS_GPU_OK_AFTER_S="1",
        )
        found = Patient(cluster, address)
        found.await_found("stream", Verdict.OK)
        found.await_found("monitors", Verdict.OK)
        yield found
    left = processes_of(folder)
    assert not left


@pytest.mark.both
def test_a_healthy_cluster_has_no_findings(patient: Patient) -> None:
    found = list(examine(patient.installation()))
    assert [one.check for one in found] == [check.name for check in CHECKS]
    odd = [one for one in found if one.verdict != Verdict.OK and one.check != UNNAMED]
    assert odd == []
    assert all(each.verdict == Verdict.OK for one in found if one.check != UNNAMED for each in one.findings)
    typed = ["doctor", "--rm", patient.rm, "--conf", str(patient.cluster.folder / "conf"), "--service", patient.service]
    done = CliRunner().invoke(ygs, [*typed, "--hdfs", f"{patient.hdfs}/"], standalone_mode=False)
    assert done.return_value == 0, done.output
    assert " fault" not in done.output
    assert not [line for line in done.output.splitlines() if line.startswith(("fault", "warning"))]


def test_c29_masters_that_wait_for_ever_are_named_with_other_limits(patient: Patient) -> None:
    with patient.configured({f"{CAPACITY}root.default.max-parallel-apps": "1"}):
        patient.submit()
        patient.submit()
        patient.await_found("applications", Verdict.WARNING, "1 application held back: at most 1 run at once")
    limits = {
        f"{CAPACITY}maximum-am-resource-percent": "0.0001",
        f"{CAPACITY}root.default.user-limit-factor": "1",
    }
    with patient.configured(limits):
        assert patient.look("user-limit").verdict == Verdict.WARNING
        patient.submit()
        said = patient.await_found("am-limit", Verdict.FAULT, "1 application kept ACCEPTED")
        assert f"{CAPACITY}maximum-am-resource-percent" in said.do
    patient.await_found("am-limit", Verdict.OK)
    with patient.configured({f"{CAPACITY}root.default.maximum-applications": "1"}):
        assert "of at most 1: further ones are refused" in patient.look("applications").findings[0].sentence


def test_quotas_beyond_the_cluster_are_named(patient: Patient) -> None:
    queues = {
        f"{CAPACITY}root.queues": "default,more,none",
        f"{CAPACITY}root.default.capacity": "[memory=65536,vcores=32,yarn.io/gpu=6]",
        f"{CAPACITY}root.default.maximum-capacity": "[memory=196608,vcores=96,yarn.io/gpu=8]",
        f"{CAPACITY}root.more.capacity": "[memory=65536,vcores=32,yarn.io/gpu=6]",
        f"{CAPACITY}root.more.user-limit-factor": "-1",
        f"{CAPACITY}root.none.capacity": "[memory=0,vcores=0,yarn.io/gpu=0]",
        f"{CAPACITY}root.none.user-limit-factor": "-1",
    }
    back = {f"{CAPACITY}root.{queue}.state": "STOPPED" for queue in ("more", "none")}
    with patient.configured(queues):
        patient.await_found("queues", Verdict.WARNING, "")
        assert any("promise 12 GPUs, the cluster has 8" in each.sentence for each in patient.look("queues").findings)
        said = patient.look("applications").findings[0].sentence
        assert said == "root.none: 0 applications of at most 0: further ones are refused"
        patient.cluster.configure(back)
        assert patient.cluster.yarn("rmadmin", "-refreshQueues").returncode == 0
        patient.await_found("queues", Verdict.WARNING)
    patient.cluster.configure(dict.fromkeys(back))
    patient.await_found("queues", Verdict.OK)


def test_settings_that_the_shim_would_refuse_at_its_next_start(patient: Patient) -> None:
    key = f"{CAPACITY}lazy-preemption-enabled"
    patient.cluster.configure({key: "true"})
    try:
        assert patient.look("settings").verdict == Verdict.FAULT
    finally:
        patient.cluster.configure({key: None})
    assert patient.look("settings").verdict == Verdict.OK


def test_a_monitor_that_is_stopped(patient: Patient) -> None:
    patient.cluster.kill("gpu-a1-monitor")
    said = patient.await_found("monitors", Verdict.FAULT, "gpu-a1 (")
    assert "ygs monitor" in said.do
    patient.cluster.start("gpu-a1-monitor")
    patient.await_found("monitors", Verdict.OK)


def test_a_card_that_vanished_is_counted_by_yarn_alone(patient: Patient) -> None:
    happens(patient, "gpu-b1", {"what": "vanish", "gpu": 1})  # type: ignore[arg-type] # it looks at the cluster alone
    patient.await_found("gpus", Verdict.FAULT, "gpu-b1: GPUs by YARN 4, the service 4, its monitor 3")
    happens(patient, "gpu-b1")  # type: ignore[arg-type] # as above, of the cluster alone
    patient.await_found("gpus", Verdict.WARNING, "gpu-b1: 1 of 4 GPUs are not given out")
    with Client(patient.service) as client:
        client.mark(gpu_pb2.MARK_ACTION_ACK, "gpu-b1", "it is back", by="a test")
    patient.await_found("gpus", Verdict.OK)


def test_hdfs_without_the_folder_and_in_safe_mode(patient: Patient) -> None:
    assert "/none is not there" in patient.look("hdfs", "/none").findings[0].sentence
    hdfs = partial(
        subprocess.run, check=True, capture_output=True, timeout=120, env=patient.cluster.environment | {"HOME": "/"}
    )
    command = str(patient.cluster.folder / "bin" / "hdfs")
    hdfs([command, "dfsadmin", "-safemode", "enter"])
    try:
        said = patient.look("hdfs").findings[0]
    finally:
        hdfs([command, "dfsadmin", "-safemode", "leave"])
    assert "HDFS is in safe mode" in said.sentence
    assert "dfsadmin -safemode" in said.do
    assert patient.look("hdfs").verdict == Verdict.OK
    left = subprocess.run([command, "dfs", "-ls", "/"], check=True, capture_output=True, text=True, timeout=120)
    assert ".ygs-doctor" not in left.stdout


def test_a_service_that_is_stopped(patient: Patient) -> None:
    patient.cluster.kill("service")
    assert patient.look("service").verdict == Verdict.FAULT
    assert patient.look("stream").verdict == Verdict.UNSEEN
    assert patient.look("scheduler").verdict == Verdict.OK
    patient.cluster.start("service")
    patient.await_found("stream", Verdict.OK)


def test_no_racks_and_stock_placement(patient: Patient) -> None:
    """The last test: the ResourceManager is started again, as one that somebody has set up wrongly."""
    for host in ("gpu-a1", "gpu-b1"):
        patient.cluster.change_server(host, rack="/default-rack")
    patient.cluster.configure(
        {"yarn.resourcemanager.scheduler.class": STOCK_SCHEDULER, "yarn.scheduler.maximum-allocation-vcores": "4"}
    )
    patient.cluster.kill("rm")
    assert patient.look("rm").verdict == Verdict.FAULT
    patient.cluster.start("rm")
    patient.cluster.await_servers(wait_s=WAIT_S)
    found = {one.check: one for one in examine(patient.installation())}
    assert found["rm"].verdict == Verdict.OK
    assert "locality means nothing" in found["racks"].findings[0].sentence
    assert "stock placement" in found["scheduler"].findings[0].sentence
    assert "stock placement writes no bindings, and gpu-a1, gpu-b1" in found["binding"].findings[0].sentence
    assert "no ResourceManager is connected" in found["stream"].findings[0].sentence
    assert found["largest-ask"].verdict == Verdict.WARNING
    assert [found[name].verdict for name in ("scheduler", "racks", "stream", "binding")] == [Verdict.FAULT] * 4
