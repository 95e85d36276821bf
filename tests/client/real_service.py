"""The product's own service as a process, for tests that speak to it as anybody would."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WAIT_S = 60.0
_REPOSITORY = Path(__file__).parents[2]


@contextmanager
def real_service(folder: Path, *options: str) -> Iterator[str]:
    """Run `ygs serve` on a port that the system chooses; yields the address."""
    with _started(folder, options) as (process, address):
        try:
            yield address
        finally:
            process.terminate()
            assert process.wait(WAIT_S) == 0, (folder / "service.log").read_text()


@contextmanager
def killed_service(folder: Path, *options: str) -> Iterator[tuple[str, int]]:
    """Run `ygs serve` for who kills it; yields the address and the process's id."""
    with _started(folder, options) as (process, address):
        yield address, process.pid
        assert process.wait(WAIT_S) == -signal.SIGKILL


@contextmanager
def _started(folder: Path, options: tuple[str, ...]) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    log = folder / "service.log"
    program = "from yarn_gpu_sched.cli import main; main()"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("YGS_")}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", program, "serve", "--listen", "127.0.0.1:0", *options],
            stderr=file,
            stdin=subprocess.DEVNULL,
            env={**environment, "PYTHONPATH": str(_REPOSITORY)},
        )
    try:
        yield process, _address(process, log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(WAIT_S)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        for line in log.read_text().splitlines():
            said = json.loads(line) if line.endswith("}") else {}
            if said.get("event") == "listening":
                return str(said["address"])
        time.sleep(0.05)
    raise AssertionError(f"the service does not listen: {log.read_text()}")
