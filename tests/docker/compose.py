"""Drive the cluster in containers as a user does: `docker/cluster`, `yarn` in the client, `ygs` beside the service."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.real.waiting import wait_until

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "docker" / "cluster"
PROJECT = os.environ.get("YGS_PROJECT", "ygs")
JAR = "/opt/hadoop/distributedshell.jar"
SHELL = ("yarn", "jar", JAR, "org.apache.hadoop.yarn.applications.distributedshell.Client", "-jar", JAR)
SERVERS = ("gpu-a1", "gpu-a2", "gpu-b1")
GPUS = 4
WAIT_S = 120.0  # ten times what is seen on two cores that have nothing else to do
_HOLD = "#!/usr/bin/env bash\nexec sleep 3600\n"
Json = dict[str, Any]
Seen = TypeVar("Seen")


class Compose:
    """The running cluster."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._drained: set[str] = set()

    def command(self, *arguments: str, wait_s: float = 600) -> str:
        """Run a command of `docker/cluster` and return what it printed."""
        return _run([str(CLUSTER), *arguments], wait_s)

    def up(self, *flags: str) -> None:
        """Bring the cluster up, and give the client a script that holds its GPUs."""
        self.command("up", *flags)
        self.inside("client", "tee", "/home/submitter/hold.sh", given=_HOLD)

    def engine(self, *arguments: str, wait_s: float = 60, given: str = "") -> str:
        """Run the engine's own command line."""
        return _run(["docker", *arguments], wait_s, given)

    def container(self, name: str) -> str:
        """Return the id of a service's container, running or not."""
        labels = (f"project={PROJECT}", f"service={name}")
        filters = [word for label in labels for word in ("--filter", f"label=com.docker.compose.{label}")]
        found = self.engine("ps", "-a", "-q", *filters).split()
        assert len(found) == 1, f"containers of {name}: {found}"
        return found[0]

    def inside(self, name: str, *command: str, wait_s: float = WAIT_S, given: str = "") -> str:
        """Run a command in a container and return what it printed."""
        return self.engine("exec", "-i", self.container(name), *command, wait_s=wait_s, given=given)

    def ygs(self, *arguments: str) -> Json:
        """Return what a command of ygs prints as JSON."""
        return dict(json.loads(self.inside("service", "ygs", *arguments, "--json")))

    def operate(self, *arguments: str) -> None:
        """Run a command of ygs that changes something."""
        self.inside("service", "ygs", *arguments)

    def drain(self, *hosts: str) -> None:
        """Let nothing new go to these servers."""
        for host in hosts:
            self.operate("drain", host, "--reason", "a test")
            self._drained.add(host)

    def undrain(self) -> None:
        """Let all servers take work again."""
        while self._drained:
            self.operate("undrain", self._drained.pop(), "--reason", "a test is over")

    def hold(self, shape: str, queue: str, *more_tags: str) -> str:
        """Submit a gang that holds its GPUs until it is ended, and return its job id once the service knows it."""
        count, gpus = shape.split("x")
        name = f"hold-{next(self._numbers)}"
        tags = ",".join([f"gang:{shape}", *more_tags])
        asked = f"memory-mb=128,vcores=1,yarn.io/gpu={gpus}"
        words = ["-appname", name, "-queue", queue, "-num_containers", count, "-application_tags", tags]
        words += ["-shell_script", "hold.sh", "-master_memory", "256", "-container_resources", asked]
        self.engine("exec", "-d", "-w", "/home/submitter", self.container("client"), *SHELL, *words)
        found = self.until(lambda: self.named(name), bool, f"{name} is known to the service")
        return str(found[0]["job_id"])

    def named(self, name: str) -> list[Json]:
        """Return the jobs of a name."""
        return [job for job in self.ygs("jobs", "--state", "any")["jobs"] if job["name"] == name]

    def job(self, job_id: str) -> Json:
        """Return one job."""
        return next(job for job in self.ygs("jobs", "--state", "any")["jobs"] if job["job_id"] == job_id)

    def waiting(self, job_id: str) -> str:
        """Return the code of the reason for which a job waits; nothing where it does not."""
        found = self.job(job_id)["waiting"]
        return str(found["code"]) if found else ""

    def await_gpus(self, job_id: str, gpus: int) -> None:
        """Wait until a job holds so many GPUs."""
        self.until(lambda: self.job(job_id), lambda job: job["used"]["gpus"] == gpus, f"{job_id} holds {gpus} GPUs")

    def servers(self) -> dict[str, Json]:
        """Return the servers by host."""
        return {server["host"]: server for server in self.ygs("servers")["servers"]}

    def hosts(self, job_id: str) -> list[str]:
        """Return the host of each GPU that a job holds."""
        return sorted(
            host for host, server in self.servers().items() for gpu in server["gpus"] if gpu["job_id"] == job_id
        )

    def containers(self, job_id: str) -> set[str]:
        """Return the containers of a job that hold GPUs."""
        gpus = (gpu for server in self.servers().values() for gpu in server["gpus"])
        return {gpu["container_id"] for gpu in gpus if gpu["job_id"] == job_id}

    def end(self, job_id: str, master: str = "resourcemanager") -> None:
        """End a job as its user does."""
        page = f"http://{master}:8088/ws/v1/cluster/apps/{job_id}/state?user.name=submitter"
        kind = "Content-Type: application/json"
        self.inside("client", "curl", "-fsS", "-X", "PUT", "-H", kind, "-d", '{"state": "KILLED"}', page)

    def kill(self, name: str) -> None:
        """Kill a container."""
        self.engine("kill", self.container(name))

    def start(self, name: str) -> None:
        """Start a container that was killed."""
        self.engine("start", self.container(name))

    def await_serving(self) -> None:
        """Wait until the whole serves."""
        container = self.container("service")
        serving = lambda: _code(["docker", "exec", container, "/opt/ygs/bin/healthy", "cluster", "3"])  # noqa: E731 - used once
        self.until(serving, lambda code: code == 0, "all of it serves")

    def until(self, look: Callable[[], Seen], holds: Callable[[Seen], bool], what: str) -> Seen:
        """Look until what is seen holds, and return it."""
        return wait_until(look, holds, what, wait_s=WAIT_S, logs="docker/cluster logs")

    def as_it_was(self) -> None:
        """End all jobs, and take back what was done to servers."""
        for job in self.ygs("jobs")["jobs"]:
            self.end(job["job_id"])
        self.undrain()
        free = lambda: [gpu["job_id"] for server in self.servers().values() for gpu in server["gpus"]]  # noqa: E731 - used once
        self.until(free, lambda jobs: jobs == [None] * GPUS * len(SERVERS), "all GPUs are free")


def _code(command: list[str]) -> int:
    return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode


def _run(command: list[str], wait_s: float, given: str = "") -> str:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=wait_s, input=given, env=dict(os.environ)
    )
    assert done.returncode == 0, (
        f"{command} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    return done.stdout
