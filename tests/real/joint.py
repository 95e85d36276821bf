"""The joint under test: a real ResourceManager with the shim, and whatever speaks the service's side."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psutil

from tests.real import spells
from tests.real.apps import Apps
from tests.real.scripted import ScriptedService, Session
from tests.real.waiting import wait_until
from yarn_gpu_sched.client import Client, NotFoundError
from yarn_gpu_sched.embedded import DISTRIBUTED_SHELL, EmbeddedCluster
from yarn_gpu_sched.identity import TlsFiles
from yarn_gpu_sched.protocol.v1 import cluster_pb2, job_pb2, reason_pb2

T = TypeVar("T")
Placed = dict[str, tuple[str, tuple[int, ...]]]
"""Server and GPU indices of each container."""
_HERE = Path(__file__).parent
WORKER = _HERE / "worker.sh"
# Too few GPUs are free, whoever holds them: the job's own virtual cluster, beyond whose quota it would be, or others.
FULL = (reason_pb2.WAITING_REASON_CODE_CLUSTER_FULL, reason_pb2.WAITING_REASON_CODE_VC_QUOTA)
_JMX = "/jmx?qry=Hadoop:service=ResourceManager,name=YarnGpuSched"


class Held(NamedTuple):
    """What the ResourceManager itself says is allocated and reserved."""

    containers: int
    reserved: int
    memory_mb: int
    gpus: int
    gpus_reserved: int


NOTHING_HELD = Held(0, 0, 0, 0, 0)


@dataclass
class Joint:
    """One cluster and the tests' applications on it."""

    cluster: EmbeddedCluster
    apps: Apps
    folder: Path
    yarn_runs: list[YarnRun] = field(default_factory=list)

    def until(self, look: Callable[[], T], holds: Callable[[T], bool], what: str, wait_s: float = 60.0) -> T:
        """Wait for a condition; the failure shows where this cluster's logs are."""
        return wait_until(look, holds, what, wait_s=wait_s, logs=self.folder)

    # What the ResourceManager says

    def held(self) -> Held:
        """Return what is allocated and reserved by the ResourceManager's REST, over all servers and queues."""
        metrics = self.cluster.rm_rest("/ws/v1/cluster/metrics")["clusterMetrics"]
        used, reserved = metrics["totalUsedResourcesAcrossPartition"], metrics["totalReservedResourcesAcrossPartition"]
        return Held(
            metrics["totalAllocatedContainersAcrossPartition"],
            metrics["containersReserved"],
            used["memory"],
            _gpus(used),
            _gpus(reserved),
        )

    def await_held(self, expected: Held, wait_s: float = 60.0) -> None:
        """Wait until the ResourceManager holds just that."""
        self.until(self.held, lambda held: held == expected, f"the RM holds {expected}", wait_s)

    def node(self, host: str) -> dict[str, Any]:
        """Return one server by the ResourceManager's REST."""
        nodes = self.cluster.rm_rest("/ws/v1/cluster/nodes")["nodes"]["node"]
        return next(node for node in nodes if node["nodeHostName"] == host)

    def gpu_tags(self, host: str) -> dict[str, int]:
        """Return how many live containers of a server carry each GPU's allocation tag, by the ResourceManager."""
        tags = self.node(host).get("allocationTags") or {}
        found = {tag["allocationTag"]: tag["allocationsCount"] for tag in tags.get("allocationTagInfo", [])}
        return {tag: count for tag, count in found.items() if tag.startswith("gpu_")}

    def app(self, app_id: str) -> dict[str, Any]:
        """Return one application by the ResourceManager's REST."""
        return dict(self.cluster.rm_rest(f"/ws/v1/cluster/apps/{app_id}")["app"])

    def counters(self) -> dict[str, Any]:
        """Return the shim's counters at the ResourceManager's /jmx; empty while there are none."""
        beans = self.cluster.rm_rest(_JMX)["beans"]
        return dict(beans[0]) if beans else {}

    def rm_log(self) -> Path:
        """Return the ResourceManager's log."""
        return self.cluster.logs()["rm"]

    # The stock command line

    def yarn(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `yarn rmadmin` or `yarn application` as it is, but without a JVM of its own; whatever its exit code."""
        done = self.apps.ask("yarn", arguments=arguments)
        return subprocess.CompletedProcess(["yarn", *arguments], int(done["code"]), str(done["output"]), "")

    def distributed_shell(self, workers: Path, until: str, *options: str) -> YarnRun:
        """Submit workers by the stock `yarn jar`; goes on while the client waits for the application's end."""
        jar = self.cluster.distributed_shell_jar
        # Not -shell_script: its master renames the script once for each container, and without HDFS that fails for all
        # but the first of a gang.
        shell = ["-shell_command", "bash", "-shell_args", f"{WORKER} {workers} {until}"]
        small = ["-master_memory", "256", "-master_vcores", "1"]
        run = YarnRun(self.cluster.folder, ["jar", jar, DISTRIBUTED_SHELL, "-jar", jar, *small, *shell, *options])
        self.yarn_runs.append(run)
        return run

    def worker(self, folder: Path, until: str) -> str:
        """Return the command line of a worker that logs its GPUs."""
        folder.mkdir(parents=True, exist_ok=True)
        return f"bash {WORKER} {folder} {until}"

    def await_started(self, folder: Path, workers: int, wait_s: float = 60.0) -> dict[str, spells.Spell]:
        """Wait until so many workers that log in a folder have started; return what they have logged."""
        read = lambda: spells.read(folder)  # noqa: E731 - one line, used once
        return self.until(read, lambda seen: len(seen) == workers, f"{workers} workers have started", wait_s)

    # Between tests

    def clear(self) -> None:
        """End every application that a test has left, and wait until nothing is held."""
        for app in self._live_apps():
            self.apps.ask("kill", app=app["id"])
        self.until(self._live_apps, lambda apps: not apps, "no application is left")
        self.await_held(NOTHING_HELD)
        for run in self.yarn_runs:
            run.thread.join(timeout=60)
        self.yarn_runs.clear()

    def _live_apps(self) -> list[dict[str, Any]]:
        states = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
        return list((self.cluster.rm_rest(f"/ws/v1/cluster/apps?states={states}")["apps"] or {}).get("app", []))


@dataclass
class ServedJoint(Joint):
    """A cluster beside the product's own service, a process of its own.

    A master and the ResourceManager know of what happens before the service does: a test that has seen something of them waits
    until the service says so too, before it takes the service at its word.
    """

    address: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    tls: TlsFiles | None = None
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        """Connect to the service."""
        self.client = Client(self.address, timeout_s=20.0, tls=self.tls)

    def serve(self, **other: str) -> None:
        """Start the service with the settings of this joint, or with others."""
        serve(self.cluster, **(self.environment | other))

    def await_connected(self, wait_s: float = 60.0) -> None:
        """Wait until the service has a whole snapshot of the ResourceManager."""
        self.until(self._connected, bool, "the service is connected to the RM", wait_s)

    def await_idle(self, wait_s: float = 60.0) -> None:
        """Wait until the service, too, counts nothing as in use: it hears of a container's end from its server."""
        self.until(self._used, lambda used: used == 0, "the service counts all GPUs as free", wait_s)

    def await_whole(self, wait_s: float = 60.0) -> None:
        """Wait until the service, too, knows all servers, and no others."""
        servers = self.cluster.spec.server_list()
        expected = (len(servers), sum(server.gpus for server in servers))
        self.until(self._capacity, expected.__eq__, f"the service knows {expected[0]} servers", wait_s)

    def _used(self) -> int:
        return self.client.cluster().used.gpus

    def _capacity(self) -> tuple[int, int]:
        cluster: cluster_pb2.GetClusterResponse = self.client.cluster()
        return cluster.servers, cluster.capacity.gpus

    def gpus_used(self) -> dict[str, int]:
        """Return what each queue uses that holds jobs, by the service."""
        uses = [use for use in self.client.virtual_clusters() if not use.virtual_cluster.parent]
        return {use.virtual_cluster.path: use.used.gpus for use in uses}

    def await_state(self, app_id: str, waiting: int | tuple[int, ...], wait_s: float = 60.0) -> str:
        """Wait until the service gives this reason, or one of these, for a job's waiting; return the sentence."""
        expected = (waiting,) if isinstance(waiting, int) else waiting

        def look() -> tuple[int, str]:
            reason = self.client.why(app_id).waiting
            return reason.code, reason.sentence

        self.until(lambda: self.view(app_id).job.job_id, bool, f"the service knows {app_id}", wait_s)
        return self.until(look, lambda seen: seen[0] in expected, f"{app_id} waits as {expected}", wait_s)[1]

    def view(self, app_id: str) -> job_pb2.JobView:
        """Return what the service says of a job; nothing while it knows no such job."""
        try:
            return self.client.job(app_id)
        except NotFoundError:
            return job_pb2.JobView()

    def placed_now(self, app_id: str) -> Placed:
        """Return where a job's containers are, by the service, which may yet hear of some that its master has."""
        return {c.container_id: (c.server_id, tuple(c.gpu_indices)) for c in self.view(app_id).containers}

    def placed(self, app_id: str, containers: int) -> Placed:
        """Wait until a job has so many containers by the service, masters included, and return where they are."""
        look = lambda: self.placed_now(app_id)  # noqa: E731 - one line, used once
        return self.until(look, lambda now: len(now) == containers, f"{containers} containers of {app_id}")

    def on_gpus_now(self, app_id: str) -> Placed:
        """Return where a job's containers with GPUs are, by the service, which may yet hear of some."""
        return {name: where for name, where in self.placed_now(app_id).items() if where[1]}

    def on_gpus(self, app_id: str, containers: int) -> Placed:
        """Wait until a job has so many containers with GPUs by the service, and return where they are."""
        look = lambda: self.on_gpus_now(app_id)  # noqa: E731 - one line, used once
        return self.until(look, lambda now: len(now) == containers, f"{containers} containers of {app_id} with GPUs")

    def hosts(self, app_id: str, containers: int) -> list[str]:
        """Wait until a job has so many containers by the service, and return the host of each."""
        return sorted(server.split(":")[0] for server, _ in self.placed(app_id, containers).values())

    def _connected(self) -> bool:
        try:
            return self.client.cluster().connected
        except Exception:  # noqa: BLE001 - whatever it is, it is not connected
            return False


@dataclass
class ScriptedJoint(Joint):
    """A cluster whose service is the test; servers that nothing runs on come and go with `ghost`."""

    service: ScriptedService = field(kw_only=True)
    ghosts_made: int = 0

    def session(self) -> Session:
        """Return the session that goes on."""
        return self.service.session()

    @staticmethod
    def real_server(session: Session) -> str:
        """Return the one server on which processes really run."""
        return next(server_id for server_id in session.servers if server_id.startswith("gpu-a1:"))

    @contextmanager
    def ghosts(self, count: int, gpus: int = 4) -> Iterator[list[str]]:
        """Let servers appear, and vanish again; yields their ids once the session knows them."""
        self.ghosts_made += count  # addresses of their own: nobody remembers what was on them
        names = [f"127.3.{n // 250}.{n % 250 + 1}:45454" for n in range(self.ghosts_made - count, self.ghosts_made)]
        for name in names:
            self.apps.ask("ghost", server=name, gpus=gpus)
        session = self.session()
        self.until(lambda: set(names) <= session.servers.keys(), bool, f"the shim tells of {names}")
        try:
            yield names
        finally:
            for name in names:
                self.apps.ask("ghost_gone", server=name)
            known = lambda: set(names) & self.session().servers.keys()  # noqa: E731 - one line, used once
            self.until(known, lambda left: not left, f"the shim tells that {names} are gone")

    def fail_commit(self, how: str, number: int, take_back: str = "") -> None:
        """Let a commit of a container with GPUs fail, and the taking back of the gang; number counts from 1.

        how and take_back: see FailingCommits.java.
        """
        (self.folder / "commits.new").write_text(f"{how} {number} {take_back}\n")
        (self.folder / "commits.new").rename(self.folder / "commits")


class YarnRun:
    """A stock `yarn` command that goes on."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self.exit_code: int | None = None
        self.output = ""
        self._cluster = EmbeddedCluster(folder)
        self._arguments = arguments
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        done = self._cluster.yarn(*self._arguments, timeout_s=300)
        self.output = f"{done.stdout}\n{done.stderr}"
        self.exit_code = done.returncode


def serve(cluster: EmbeddedCluster, **environment: str) -> None:
    """Start `ygs serve` beside the daemons, as "service": it ends with the cluster."""
    ygs = str(Path(sys.executable).parent / "ygs")
    environment = {"YGS_RELAX_AFTER_S": "0", **environment}
    cluster.run(
        "service", [ygs, "serve"], {"PATH": os.environ["PATH"], "PYTHONPATH": str(_HERE.parents[1]), **environment}
    )


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of living processes that speak of a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if str(folder) in line and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid}: {line[:200]}")
        except psutil.Error:
            continue
    return found


def _gpus(resource: dict[str, Any]) -> int:
    kinds = resource["resourceInformations"]["resourceInformation"]
    return sum(int(kind["value"]) for kind in kinds if kind["name"] == "yarn.io/gpu")
