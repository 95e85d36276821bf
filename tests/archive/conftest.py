"""One real HDFS for all tests of this folder that need it: a NameNode and a DataNode, and no server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from yarn_gpu_sched.archive import HdfsStore
from yarn_gpu_sched.embedded import STOCK_SCHEDULER, ClusterSpec, EmbeddedCluster

USER = "archivist"


class Hdfs:
    """A running HDFS; its folder `/archives` belongs to the archive's user."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.url = f"http://127.0.0.1:{_web_port(cluster.folder)}"
        self.run("dfs", "-mkdir", "-p", "/archives")
        self.run("dfs", "-chown", USER, "/archives")

    def root(self, folder: str) -> str:
        """Name a folder of a test's own."""
        return f"/archives/{folder}"

    def store(self, folder: str) -> HdfsStore:
        return HdfsStore(self.url, self.root(folder), USER)

    def run(self, *arguments: str) -> str:
        command = [str(self.cluster.folder / "bin" / "hdfs"), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def _web_port(folder: Path) -> int:
    for line in (folder / "conf" / "hdfs-site.xml").read_text().split("</property>"):
        if "<name>dfs.namenode.http-address</name>" in line:
            return int(line.partition("<value>")[2].partition("</value>")[0].rpartition(":")[2])
    raise AssertionError("the NameNode has no page")


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    spec = ClusterSpec(servers=(), scheduler_class=STOCK_SCHEDULER)
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster") / "c", spec) as cluster:
        yield Hdfs(cluster)
