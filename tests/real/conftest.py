"""Real clusters for the tests of this folder: booted once a session, taken down whatever happens."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.generator import LOAD
from tests.real import certificates, shown, spells
from tests.real import lending as lending_queues
from tests.real import monitored as monitored_servers
from tests.real.apps import Apps
from tests.real.joint import NOTHING_HELD, ScriptedJoint, ServedJoint, processes_of
from tests.real.queues import QUEUES, as_they_were
from tests.real.scripted import ScriptedService, masters_on
from yarn_gpu_sched.embedded import DEFAULT_HADOOP, ClusterSpec, EmbeddedCluster, fetch_jars, free_port, java, shim_jar
from yarn_gpu_sched.identity import TlsFiles

JAVA = Path(__file__).parent / "java"
_JAVAC = ("--release", "17", "-nowarn", "-proc:none")
TEST_SCHEDULER = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.FailingCommits"
BOTH_LINES = [DEFAULT_HADOOP, "3.5.0"]
HEARTBEAT_MS = 200
SETTLE_S = 5
_FOLDERS = pytest.StashKey[list[Path]]()
_QUICK = {
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": str(HEARTBEAT_MS),
    "ygs.settle-s": str(SETTLE_S),
}
_SERVED = {
    "yarn.nodemanager.aux-services": "mapreduce_shuffle",
    "yarn.cluster.max-application-priority": "10",
    "yarn.scheduler.capacity.root.queues": "default,debounced,small",
    "yarn.scheduler.capacity.root.default.capacity": "98",
    "yarn.scheduler.capacity.root.small.capacity": "1",
    "yarn.scheduler.capacity.root.small.maximum-capacity": "100",
    "yarn.scheduler.capacity.root.small.user-limit-factor": "1",
    "yarn.scheduler.capacity.root.debounced.capacity": "1",
    "yarn.scheduler.capacity.root.debounced.maximum-capacity": "100",
    "yarn.scheduler.capacity.root.debounced.user-limit-factor": "-1",
    "yarn.scheduler.capacity.root.debounced.ygs.gang": "debounce",
    "yarn.resourcemanager.placement-constraints.handler": "scheduler",
    "yarn.resourcemanager.application-timeouts.monitor.interval-ms": "200",
    "yarn.node-labels.enabled": "true",
} | {
    f"yarn.scheduler.capacity.{queue}.accessible-node-labels{key}": value
    for queue in ("root", "root.default")
    for key, value in {"": "owned,lent", ".owned.capacity": "100", ".lent.capacity": "100"}.items()
}
NONE: Mapping[str, str] = {}
REPAIR_HOLD_S, REQUEUE_AFTER_S = 4, 8


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say in each failure where the clusters' logs are."""
    del call
    report = yield
    if report.failed:
        folders = item.config.stash.get(_FOLDERS, [])
        report.sections.append(("logs of the clusters", "\n".join(f"{f}/cluster/logs" for f in folders)))
    return report


def _shim(folder: Path) -> Path:
    """Copy the shim's jar: a ResourceManager must not find it built anew beneath itself."""
    return Path(shutil.copy(shim_jar(), folder / "shim.jar"))


def _metrics_at_once(folder: Path) -> Path:
    """Let /jmx be a second old at most; Hadoop's default is ten."""
    (folder / "metrics").mkdir()
    (folder / "metrics" / "hadoop-metrics2.properties").write_text("*.period=1\n")
    return folder / "metrics"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the versions of Hadoop that a test of a real cluster runs on; those of one version run together."""
    if "hadoop" in metafunc.fixturenames:
        marked = any(mark.name == "both" for mark in metafunc.definition.iter_markers())
        asked = metafunc.config.getoption("--hadoop") or ("both" if marked else DEFAULT_HADOOP)
        metafunc.parametrize("hadoop", BOTH_LINES if asked == "both" else [asked], scope="session", indirect=True)


@pytest.fixture(scope="session")
def hadoop(request: pytest.FixtureRequest) -> str:
    """Return the version of Hadoop of the clusters that a test uses."""
    return str(request.param)


@pytest.fixture(scope="session")
def classes(hadoop: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the tests' compiled Java."""
    folder = tmp_path_factory.mktemp("classes")
    compiler = Path(java.java_command()).resolve().with_name("javac")
    path = java.class_path(folder, fetch_jars(hadoop).lib, [shim_jar()])
    sources = [str(source) for source in sorted(JAVA.glob("*.java"))]
    done = subprocess.run(
        [str(compiler), *_JAVAC, "-sourcepath", str(LOAD / "src"), "-cp", path, "-d", str(folder), *sources],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{compiler} says:\n{done.stderr}"
    return folder


@contextmanager
def _folder(name: str, factory: pytest.TempPathFactory, config: pytest.Config) -> Iterator[Path]:
    folder = factory.mktemp(name)
    config.stash.setdefault(_FOLDERS, []).append(folder)
    yield folder
    left = processes_of(folder)
    assert not left, f"still running after the cluster in {folder} was taken down: {left}"


@contextmanager
def _served(
    spec: ClusterSpec, classes: Path, folder: Path, settings: Mapping[str, str] = NONE, tls: TlsFiles | None = None
) -> Iterator[ServedJoint]:
    """Boot a cluster, and the product's own service with its settings beside it."""
    address = f"127.0.0.1:{free_port()}"
    spec = replace(
        spec,
        memory_mb=8192,  # what YARN gives a container at most
        vcores=24,
        hdfs=False,
        service_address=address,
        binding_dir=None if spec.gpu_model else folder / "bindings",
        extra_classpath=(_metrics_at_once(folder), _shim(folder)),
    )
    with EmbeddedCluster(folder / "cluster", spec) as cluster, Apps(cluster, classes, folder / "apps") as apps:
        environment = _service_environment(address, folder) | dict(settings)
        joint = ServedJoint(cluster, apps, folder, address=address, environment=environment, tls=tls)
        joint.serve()
        joint.await_connected()
        yield joint
        joint.client.close()


@pytest.fixture(scope="session")
def served_joint(
    hadoop: str, classes: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ServedJoint]:
    """Boot 4 servers of 4 GPUs on two racks, a server without GPUs, and the product's own service."""
    with _folder("served", tmp_path_factory, pytestconfig) as folder:
        settings = _QUICK | _SERVED | {"yarn.node-labels.fs-store.root-dir": f"file://{folder}/labels"}
        spec = ClusterSpec(hadoop=hadoop, servers=((4, 4),), racks=2, cpu_servers=1, settings=settings)
        with _served(spec, classes, folder) as joint:
            yield joint


@pytest.fixture(scope="module")
def tenants_joint(
    hadoop: str, classes: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ServedJoint]:
    """Boot 4 servers of 4 GPUs on two racks, whose queues have quotas in GPUs, and the product's own service."""
    with _folder("tenants", tmp_path_factory, pytestconfig) as folder:
        spec = ClusterSpec(hadoop=hadoop, servers=((4, 4),), racks=2, settings=_QUICK | QUEUES)
        with _served(spec, classes, folder) as joint:
            yield joint


@pytest.fixture(scope="module")
def tls_joint(
    hadoop: str, classes: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ServedJoint]:
    """Boot 2 servers of 2 GPUs, and the product's own service behind mutual TLS."""
    with _folder("tls", tmp_path_factory, pytestconfig) as folder:
        certificates.make(folder)
        spec = ClusterSpec(
            hadoop=hadoop, servers=((2, 2),), racks=1, settings=_QUICK | certificates.resource_manager_settings(folder)
        )
        settings, operator = certificates.service_settings(folder), certificates.of(folder, "operator")
        with _served(spec, classes, folder, settings, operator) as joint:
            yield joint


@pytest.fixture
def tenants(tenants_joint: ServedJoint) -> Iterator[ServedJoint]:
    """Give a test the cluster of virtual clusters, with nothing on it and the queues as they were."""
    with _used_by_a_test(tenants_joint), as_they_were(tenants_joint):
        yield tenants_joint


@pytest.fixture(scope="module")
def lending_joint(
    hadoop: str, classes: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ServedJoint]:
    """Boot 4 servers of 4 GPUs whose queues lend to each other, and the product's own service, which soon takes back."""
    with _folder("lending", tmp_path_factory, pytestconfig) as folder:
        spec = ClusterSpec(hadoop=hadoop, servers=((4, 4),), racks=2, settings=_QUICK | lending_queues.QUEUES)
        with _served(spec, classes, folder, lending_queues.service_settings(folder)) as joint:
            yield joint


@pytest.fixture
def lending(lending_joint: ServedJoint) -> Iterator[ServedJoint]:
    """Give a test the cluster whose queues lend, with nothing on it."""
    with _used_by_a_test(lending_joint):
        yield lending_joint


@pytest.fixture(scope="module")
def monitored_joint(
    hadoop: str, classes: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ServedJoint]:
    """Boot 2 servers of 8 simulated GPUs with a monitor each, one without GPUs, and the product's own service."""
    with _folder("monitored", tmp_path_factory, pytestconfig) as folder:
        spec = ClusterSpec(
            hadoop=hadoop,
            servers=((2, monitored_servers.GPUS),),
            racks=2,
            cpu_servers=1,
            gpu_model="V100",
            monitor_settings=monitored_servers.MONITOR,
            settings=_QUICK,
        )
        with _served(spec, classes, folder, monitored_servers.service_settings(folder)) as joint:
            yield joint


@pytest.fixture
def monitored(monitored_joint: ServedJoint) -> Iterator[ServedJoint]:
    """Give a test the cluster with monitors, with nothing on it and all its GPUs well."""
    with _used_by_a_test(monitored_joint):
        monitored_servers.await_well(monitored_joint)
        yield monitored_joint
    twice = shown.held_twice(shown.read(monitored_joint.folder / "shown"))
    assert not twice, f"{twice}\nlogs: {monitored_joint.folder / 'shown'}"


def _service_environment(address: str, folder: Path) -> dict[str, str]:
    return {
        "YGS_LISTEN": address,
        "YGS_BINDING_DIR": str(folder / "bindings"),
        "YGS_RECORDER_DIR": str(folder / "record"),
        "YGS_AUDIT_EVERY_EVENTS": "1",
        "YGS_REPAIR_HOLD_S": str(REPAIR_HOLD_S),
        "YGS_REQUEUE_AFTER_S": str(REQUEUE_AFTER_S),
    }


def _errors_of_the_service(joint: ServedJoint) -> list[str]:
    lines = joint.cluster.logs()["service"].read_text().splitlines()
    return [line for line in lines if '"level": "error"' in line or not line.startswith("{")]


@contextmanager
def _used_by_a_test(joint: ServedJoint) -> Iterator[None]:
    """Begin with nothing on the cluster; afterwards all laws must have held, and no GPU twice."""
    joint.clear()
    joint.await_connected()
    joint.await_whole()
    joint.await_idle()
    yield
    joint.clear()
    joint.await_idle()
    assert not _errors_of_the_service(joint), "the service logged errors, or its audit found a broken law"
    twice = spells.held_twice(spells.read(joint.folder / "workers"))
    assert not twice, f"{twice}\nlogs: {joint.folder / 'workers'}"


@pytest.fixture
def joint(served_joint: ServedJoint) -> Iterator[ServedJoint]:
    """Give a test the cluster with nothing on it."""
    with _used_by_a_test(served_joint):
        yield served_joint


@pytest.fixture
def workers(joint: ServedJoint, request: pytest.FixtureRequest) -> Path:
    """Return the folder for the logs of a test's workers."""
    folder = joint.folder / "workers" / str(request.node.name)
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(scope="session")
def scripted_joint(
    hadoop: str, classes: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ScriptedJoint]:
    """Boot a server of 4 GPUs whose ResourceManager listens to a test, and whose commits a test can make fail."""
    with _folder("scripted", tmp_path_factory, pytestconfig) as folder, ScriptedService() as service:
        queues = {
            "root.queues": "default,small",
            "root.default.capacity": "90",
            "root.small.capacity": "10",
            "root.small.maximum-capacity": "10",
            "root.small.user-limit-factor": "-1",
        }
        labels = {
            "yarn.node-labels.enabled": "true",
            "yarn.node-labels.fs-store.root-dir": f"file://{folder}/labels",
        }
        spec = ClusterSpec(
            hadoop=hadoop,
            servers=((1, 4),),
            racks=1,
            hdfs=False,
            service_address=service.address,
            scheduler_class=TEST_SCHEDULER,
            extra_classpath=(_metrics_at_once(folder), classes, _shim(folder)),
            settings=_QUICK | labels | {f"yarn.scheduler.capacity.{key}": value for key, value in queues.items()},
            jvm_flags={"rm": (f"-Dtest.commits={folder / 'commits'}",)},
        )
        with EmbeddedCluster(folder / "cluster", spec) as cluster, Apps(cluster, classes, folder / "apps") as apps:
            yield ScriptedJoint(cluster, apps, folder, service=service)


@pytest.fixture
def scripted(scripted_joint: ScriptedJoint) -> Iterator[ScriptedJoint]:
    """Give a test the ResourceManager with nothing on it, and an honest service that places masters only."""
    service = scripted_joint.service
    service.greets = service.beats = True
    service.rules = [masters_on(scripted_joint.real_server)]
    yield scripted_joint
    (scripted_joint.folder / "commits").unlink(missing_ok=True)
    service.greets = service.beats = True
    service.session()
    scripted_joint.clear()
    assert scripted_joint.held() == NOTHING_HELD
    assert not service.problems
