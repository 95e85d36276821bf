"""A real Hadoop cluster of local processes, brought up and taken down."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from yarn_gpu_sched.embedded import java, readiness, record
from yarn_gpu_sched.embedded.cache import cache_folder
from yarn_gpu_sched.embedded.commands import write_commands
from yarn_gpu_sched.embedded.configuration import HADOOP_CONF, Configuration
from yarn_gpu_sched.embedded.control import Control, start_supervisor
from yarn_gpu_sched.embedded.errors import ClusterError, plain_path
from yarn_gpu_sched.embedded.jars import fetch_jars
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.monitored import monitor_name
from yarn_gpu_sched.embedded.ports import lease_ports
from yarn_gpu_sched.embedded.record import Record
from yarn_gpu_sched.embedded.spec import ClusterSpec
from yarn_gpu_sched.embedded.startup import Progress, Startup, daemon_environment
from yarn_gpu_sched.embedded.status import ClusterStatus, daemon_statuses, server_statuses
from yarn_gpu_sched.embedded.supervisor import MARK

_POLL_S = 0.1


def daemon_names(spec: ClusterSpec) -> tuple[str, ...]:
    """Return the names of a cluster's daemons: "rm", "nn" and "dn" where there is an HDFS, the servers, and their monitors."""
    hdfs = ("nn", "dn") if spec.hdfs else ()
    servers = spec.server_list()
    monitors = [monitor_name(server) for server in servers if server.gpus and spec.gpu_model]
    return ("rm", *hdfs, *(server.name for server in servers), *monitors)


def default_folder() -> Path:
    """Return the folder of a cluster that nobody gave another."""
    return cache_folder() / "cluster"


class EmbeddedCluster:
    """One cluster in one folder.

    ```python
    with EmbeddedCluster(folder, ClusterSpec(servers=((4, 4),), racks=2)) as cluster:
        cluster.yarn("jar", cluster.distributed_shell_jar, …)
    ```

    As long as `detach` was not asked for, the cluster ends with the process that brought it up, however that ends.
    Methods raise ClusterError; one that names a daemon takes "rm", "nn", "dn" or a server's name. Not to be used by
    several threads at once; several processes may, each with an object of its own for the same folder.
    """

    def __init__(self, folder: Path | str, spec: ClusterSpec | None = None) -> None:
        """Name a folder, which is made by `up`; without `spec` the one that is there already is meant."""
        self._layout = Layout(Path(folder).absolute())
        self._asked = spec
        self._guard: int | None = None

    def __enter__(self) -> Self:
        """Bring the cluster up."""
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the cluster down."""
        self.down()

    # Up and down

    def up(
        self,
        progress: Progress = lambda _: None,
        *,
        detach: bool = False,
        ready_s_max: float = 180.0,
    ) -> None:
        """Bring the cluster up and return when every server is RUNNING (and HDFS is writable).

        What an earlier cluster left in the folder is removed. `progress` is called with a short text at each step.
        With `detach` the cluster stays after this process has ended, until `down`; without, it ends with it.
        Whatever was started is ended again if this fails or is interrupted.

        Raises ClusterError if a cluster runs in the folder, the folder holds other things, something that is
        needed is missing, a daemon ends, or the servers are not there after `ready_s_max` seconds.
        """
        spec = self._checked_spec()
        progress(f"fetching Hadoop {spec.hadoop} (quick if it is there)")
        jars = fetch_jars(spec.hadoop)
        java.java_command()
        java.scheduler_jars(spec)
        with self._locked():
            self._refuse_if_running()
            if self._layout.record.exists():
                self._control().end()  # its supervisor was killed, and containers may have stayed
            self._layout.make()
            self._prepare(spec)
        try:
            self._configuration().write()
            write_commands(spec, self._layout, jars)
            startup = Startup(self._record(), self._layout, jars, self._control(), progress)
            startup.start_all()
            startup.await_ready(ready_s_max)
            if detach:
                self._control().ask("detach")
                self._close_guard()
        except BaseException:
            self.down()
            raise

    def plan(self) -> tuple[str, ...]:
        """Return the names of the daemons that `up` would start, and change nothing.

        Raises ClusterError for whatever `up` would refuse before it starts anything, but for jars that cannot be had.
        """
        spec = self._checked_spec()
        self._refuse_if_running()
        return daemon_names(spec)

    def down(self, *, remove: bool = False) -> int:
        """End everything that the cluster started, containers' processes too; return how many processes.

        Does nothing if the cluster does not run. Logs stay for a look, unless `remove`, which removes all that the
        cluster made.
        """
        ended = 0
        if self._layout.record.exists():
            ended = self._control().end()
        self._close_guard()
        if remove and self._layout.is_ours():
            self._layout.remove()
        return ended

    def living(self) -> int:
        """Return how many processes `down` would end, and change nothing."""
        return self._control().living() if self._layout.record.exists() else 0

    # Looking

    @property
    def folder(self) -> Path:
        """Where the cluster lies."""
        return self._layout.root

    @property
    def spec(self) -> ClusterSpec:
        """What was asked for, with changes made by `configure`."""
        return self._record().spec

    @property
    def cluster_id(self) -> str:
        """The name under which this cluster registers with the service."""
        return self._record().cluster_id

    @property
    def ports(self) -> dict[str, int]:
        """The cluster's ports by name, such as `rm_web`, `rm_client` or `nn_web`; see `ports.NAMES`."""
        return dict(self._record().ports)

    @property
    def distributed_shell_jar(self) -> str:
        """The stock example application, for `yarn jar`."""
        return str(self._layout / "distributedshell.jar")

    @property
    def mapreduce_examples_jar(self) -> str:
        """MapReduce's stock examples, for `yarn jar`."""
        return str(self._layout / "mapreduce-examples.jar")

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which a program finds this cluster: PATH with its `yarn` first, and Hadoop's usual ones."""
        return {
            "PATH": f"{self._layout / 'bin'}:{os.environ.get('PATH', os.defpath)}",
            "HADOOP_CONF_DIR": str(self._layout.conf),
            "YARN_CONF_DIR": str(self._layout.conf),
            "YGS_DISTRIBUTED_SHELL_JAR": self.distributed_shell_jar,
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The daemons: "rm", "nn" and "dn" where there is an HDFS, and the servers."""
        return daemon_names(self._record().spec)

    def status(self) -> ClusterStatus:
        """Return what runs and what the ResourceManager says of the servers.

        Raises ClusterError only if there is no cluster in the folder; a daemon that does not answer is no error.
        """
        known = self._record()
        daemons = daemon_statuses(self._control())
        servers = server_statuses(known) if daemons else ()
        return ClusterStatus(
            folder=str(self.folder),
            hadoop=known.spec.hadoop,
            running=bool(daemons),
            ready=readiness.running_servers(known.ports["rm_web"]) == len(known.spec.server_list()),
            web=f"http://127.0.0.1:{known.ports['rm_web']}",
            yarn=str(self._layout / "bin" / "yarn"),
            distributed_shell_jar=self.distributed_shell_jar,
            cluster_id=known.cluster_id,
            daemons=daemons,
            servers=servers,
        )

    def logs(self) -> dict[str, Path]:
        """Return the files to which the daemons print, by name. They stay after `down`."""
        return {path.stem: path for path in sorted((self._layout / "logs").glob("*.log"))}

    def rm_rest(self, path: str) -> dict[str, Any]:
        """Return a JSON page of the ResourceManager, such as `/ws/v1/cluster/metrics` or `/jmx?qry=…`."""
        return readiness.page(self._record().ports["rm_web"], path)

    def yarn(
        self, *arguments: str, timeout_s: float = 120.0, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the stock `yarn` command line to its end and return exit code and output, whatever the exit code.

        Raises ClusterError if it takes longer than `timeout_s`. It ends with the cluster.
        """
        marked = os.environ | (environment or {}) | {MARK: self._record().supervisor.mark}
        try:
            return subprocess.run(
                [str(self._layout / "bin" / "yarn"), *arguments],
                check=False,
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=timeout_s,
                env=marked,
            )
        except subprocess.TimeoutExpired as error:
            raise ClusterError(f"yarn {' '.join(arguments)}: no end after {timeout_s} s") from error

    # Faults and changes

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to one daemon; after SIGKILL it is gone when this returns. Its containers are not touched."""
        self._control().signal(name, number)

    def start(self, name: str) -> None:
        """Start a daemon that has ended again: same command, ports and folders. Returns at once."""
        self._control().restart(name)

    def run(self, name: str, argv: list[str], environment: Mapping[str, str] | None = None) -> None:
        """Start any process beside the daemons, such as the scheduling service; it ends with the cluster.

        argv[0] is an absolute path; `environment` is all the process gets. `kill`, `start`, `status` and `logs` know
        it by `name` from then on.
        """
        given = daemon_environment(self._layout) if environment is None else environment
        self._control().start(name, argv, given)

    def configure(self, settings: Mapping[str, str | None]) -> None:
        """Change settings in the configuration files: for `yarn rmadmin -refreshQueues`, or a daemon's next start.

        None takes back what was set for a key.
        """
        spec = self._record().spec
        merged = {key: value for key, value in {**spec.settings, **settings}.items() if value is not None}
        self._change(replace(spec, settings=merged))

    def change_server(self, name: str, *, gpus: int | None = None, rack: str | None = None) -> None:
        """Give a server other GPUs at its next start, or another rack, which the ResourceManager reads at its own next start."""
        spec = self._record().spec
        known = next((server for server in spec.server_list() if server.name == name), None)
        if known is None:
            raise ClusterError(f"there is no server {name}")
        now = (known.gpus if gpus is None else gpus, known.rack if rack is None else rack)
        self._change(replace(spec, changed={**spec.changed, name: now}))

    def await_servers(self, count: int | None = None, *, wait_s: float = 60.0) -> None:
        """Wait until the ResourceManager counts `count` servers as RUNNING: all of them if None."""
        expected = len(self._record().spec.server_list()) if count is None else count
        deadline_s = time.monotonic() + wait_s
        rm_web = self._record().ports["rm_web"]
        while (running := readiness.running_servers(rm_web)) != expected:
            if time.monotonic() > deadline_s:
                raise ClusterError(f"{running or 0} servers RUNNING after {wait_s} s, expected {expected}")
            time.sleep(_POLL_S)

    # Within

    def _checked_spec(self) -> ClusterSpec:
        spec = self._asked or self._record().spec
        plain_path("folder", self.folder)
        plain_path("$YGS_CACHE", cache_folder())
        if spec.binding_dir is not None or spec.gpu_model:
            plain_path("binding_dir", (spec.binding_dir or self.folder).absolute())
            plain_path("the folder of bind_gpus.sh", HADOOP_CONF)
        return spec

    def _change(self, spec: ClusterSpec) -> None:
        record.write(self._layout, replace(self._record(), spec=spec))
        self._configuration().write()

    def _record(self) -> Record:
        return record.read(self._layout)

    def _control(self) -> Control:
        return Control(self._layout, self._record().supervisor)

    def _configuration(self) -> Configuration:
        known = self._record()
        jars = fetch_jars(known.spec.hadoop)
        return Configuration(
            spec=known.spec,
            layout=self._layout,
            jars=jars,
            ports=known.ports,
            cluster_id=known.cluster_id,
            mark=known.supervisor.mark,
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._layout.root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._layout.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _refuse_if_running(self) -> None:
        if not self._layout.is_ours():
            raise ClusterError(f"{self.folder} holds other things; name a new or an empty folder")
        if not self._layout.record.exists():
            return
        if self._control().supervisor.running:
            raise ClusterError(f"a cluster runs in {self.folder} already; `ygs cluster down` ends it")

    def _prepare(self, spec: ClusterSpec) -> None:
        leased = lease_ports()
        with leased.lease:
            supervisor, self._guard = start_supervisor(self._layout, uuid.uuid4().hex, leased.lease)
        record.write(self._layout, Record(spec, leased.ports, supervisor))

    def _close_guard(self) -> None:
        if self._guard is not None:
            os.close(self._guard)
            self._guard = None
