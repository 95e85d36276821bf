"""Distributed shell jobs through the stock command line."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from yarn_gpu_sched.embedded import DISTRIBUTED_SHELL, EmbeddedCluster


def submit(
    cluster: EmbeddedCluster, script: Path, *flags: str, timeout_s: float = 180.0
) -> subprocess.CompletedProcess[str]:
    """Run a job to its end, as a user would; flags are distributed shell's own."""
    jar = cluster.distributed_shell_jar
    fixed = ("-jar", jar, "-shell_script", str(script), "-master_memory", "256")
    return cluster.yarn("jar", jar, DISTRIBUTED_SHELL, *fixed, *flags, timeout_s=timeout_s)


def application_id(output: str) -> str:
    found = re.search(r"application_\d+_\d+", output)
    assert found is not None, output
    return found[0]


def worker_lines(text: str, word: str) -> Sequence[str]:
    """Lines of `yarn logs` that workers marked with a word of their own."""
    return [line for line in text.splitlines() if line.startswith(word)]


class Delivery:
    """Writes bindings as the scheduling service will: for each container, once it runs, GPU 0 or 1 in turn."""

    def __init__(self, cluster: EmbeddedCluster, folder: Path) -> None:
        self._servers = cluster.folder / "servers"
        self._folder = folder
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._deliver)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _deliver(self) -> None:
        while not self._done.wait(0.1):
            for log in self._servers.glob("gpu-*/logs/*/container_*"):
                binding = self._folder / log.name
                if not binding.exists():
                    parts = self._folder / f".{log.name}"
                    parts.write_text("\n" if log.name.endswith("000001") else f"{int(log.name[-1]) % 2}\n")
                    parts.rename(binding)
