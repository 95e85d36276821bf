"""Real Spark against an embedded cluster: `spark-submit` of its Python package, on loopback addresses only."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from yarn_gpu_sched.embedded import EmbeddedCluster, java, record
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.supervisor import MARK

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("spark_words.py")
_SMALL = {
    "spark.driver.memory": "512m",
    "spark.driver.memoryOverhead": "128m",
    "spark.yarn.am.memory": "512m",
    "spark.yarn.am.memoryOverhead": "128m",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "128m",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
    "spark.yarn.maxAppAttempts": "1",
}
STATIC = {"spark.executor.instances": "3"}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "2s",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "4",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
}
_OF_SPARK = ("org.apache.spark.", "pyspark.", str(SCRIPT))


def spark_folder() -> Path:
    """Return where Spark's Python package is, or would be."""
    done = subprocess.run([str(ROOT / "tools" / "spark.sh")], check=True, capture_output=True, text=True)
    return Path(done.stdout.strip())


@dataclass
class SparkRun:
    """One `spark-submit` of spark_words.py that goes on."""

    cluster: EmbeddedCluster
    folder: Path
    mode: str
    settings: dict[str, str]
    _process: subprocess.Popen[bytes] = field(init=False)
    _log: IO[bytes] = field(init=False)

    def __post_init__(self) -> None:
        """Submit."""
        self.folder.mkdir(parents=True)
        home = spark_folder() / "pyspark"
        # Spark looks for an address of this machine that is not loopback, unless it is told one.
        here = {"spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1", "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1"}
        given = {**_SMALL, **here, **self.settings, "spark.yarn.jars": f"local:{home}/jars/*"}
        command = [str(home / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", self.mode]
        command += [text for name, value in given.items() for text in ("--conf", f"{name}={value}")]
        self._log = (self.folder / "submit.log").open("wb")
        self._process = subprocess.Popen(
            [*command, str(SCRIPT), str(self.folder)],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=self._environment(home),
        )

    def _environment(self, home: Path) -> dict[str, str]:
        layout = Layout(self.cluster.folder)
        return {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "HOME": str(layout / "home"),
            "JAVA_HOME": str(Path(java.java_command()).resolve().parents[1]),
            "JAVA_TOOL_OPTIONS": " ".join(java.container_flags(layout)),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": str(home.parent),
            "PYSPARK_PYTHON": sys.executable,
            "HADOOP_CONF_DIR": str(layout.conf),
            MARK: self._mark,
        }

    @property
    def _mark(self) -> str:
        return record.read(Layout(self.cluster.folder)).supervisor.mark

    @property
    def log(self) -> str:
        """What spark-submit has printed."""
        return (self.folder / "submit.log").read_text(errors="replace")

    @property
    def app_id(self) -> str:
        """The application's id; empty before it has one."""
        found = re.search(r"application_\d+_\d+", self.log)
        return found[0] if found else ""

    def ended(self) -> int | None:
        """Return the exit code; None while it runs."""
        code = self._process.poll()
        if code is not None:
            self._log.close()
        return code

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait(timeout=30)
        self._log.close()

    def listening(self) -> dict[str, set[str]]:
        """Return the addresses on which Spark's processes listen, by what they are."""
        found: dict[str, set[str]] = {}
        for process in psutil.process_iter():
            try:
                line = process.cmdline()
                what = next((part for part in line if part.startswith(_OF_SPARK)), "")
                if what and process.environ().get(MARK) == self._mark:
                    found.setdefault(what, set()).update(
                        one.laddr.ip for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN
                    )
            except psutil.Error:
                continue  # it has ended
        return found
