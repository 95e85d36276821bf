"""One real cluster for all tests that only look at it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from yarn_gpu_sched.embedded import STOCK_SCHEDULER, ClusterSpec, EmbeddedCluster


@pytest.fixture(scope="session")
def bindings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bindings")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, bindings: Path) -> Iterator[EmbeddedCluster]:
    spec = ClusterSpec(
        servers=((2, 2),),
        racks=2,
        cpu_servers=1,
        scheduler_class=STOCK_SCHEDULER,  # what is tested here needs neither shim nor service
        binding_dir=bindings,
    )
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster") / "c", spec) as running:
        yield running


@pytest.fixture
def of_folder() -> OfFolder:
    return OfFolder()


class OfFolder:
    """Finds processes by a folder's name in their command line or environment, as an onlooker would."""

    def __call__(self, folder: Path) -> list[int]:
        own = os.getpid()
        pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        return [pid for pid in pids if pid != own and str(folder).encode() in self._words(pid)]

    def _words(self, pid: int) -> bytes:
        try:
            if "Z" in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:1]:
                return b""
            return Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return b""
