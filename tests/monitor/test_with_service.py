"""The real monitor with the product's own service: what it tells is believed, what it is told becomes files."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from tests.client.real_service import real_service
from yarn_gpu_sched.client import FakeResourceManager
from yarn_gpu_sched.protocol.v1 import gpu_pb2, gpu_pb2_grpc

REPOSITORY = Path(__file__).resolve().parents[2]
WAIT_S = 60.0
HOST = "gpu-a1"


@pytest.fixture
def target(tmp_path: Path) -> Iterator[str]:
    with real_service(tmp_path, "--local-monitors", "true") as address:
        yield address


@pytest.fixture
def gpus(target: str) -> Iterator[Callable[[], gpu_pb2.ServerHealth]]:
    with grpc.insecure_channel(target) as channel:
        stub = gpu_pb2_grpc.GpuServiceStub(channel)

        def listed() -> gpu_pb2.ServerHealth:
            answer = stub.ListGpus(gpu_pb2.ListGpusRequest(host=HOST), timeout=WAIT_S)
            return answer.servers[0] if answer.servers else gpu_pb2.ServerHealth()

        yield listed


@contextlib.contextmanager
def monitor(target: str, folder: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    words = ["--service", target, "--host", HOST, "--state-dir", str(folder / "state"), "--simulate", "4xV100"]
    words += ["--binding-dir", str(folder / "bindings"), "--read-every-s", "0.2", "--push-every-s", "0.5", *flags]
    program = "from yarn_gpu_sched.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with (folder / "monitor.log").open("ab") as log:
        started = subprocess.Popen([sys.executable, "-c", program, "monitor", *words], stderr=log, env=environment)
    try:
        yield started
    finally:
        started.kill()
        started.wait(WAIT_S)


def await_so(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never was so"
        time.sleep(0.05)


def test_what_it_tells_is_believed_and_a_gang_gets_the_cards_that_were_decided(
    target: str, gpus: Callable[[], gpu_pb2.ServerHealth], tmp_path: Path
) -> None:
    with FakeResourceManager(target) as rm, monitor(target, tmp_path) as first:
        rm.add_server(HOST, gpus=4)
        await_so(lambda: gpus().telemetry == gpu_pb2.TELEMETRY_STATE_LIVE and gpus().gpus_healthy == 4)
        assert gpus().simulated
        uuids = [gpu.card.uuid for gpu in gpus().gpus]
        assert len(set(uuids)) == 4
        rm.submit("job-1", tags=["gang:2x2"])
        rm.ask("job-1", 2, gpus=2)
        rm.wait(lambda: len(rm.containers("job-1")) == 2, timeout_s=WAIT_S)
        files = [tmp_path / "bindings" / each.container_id for each in rm.containers("job-1")]
        await_so(lambda: all(file.exists() and "YGS_RANK" in file.read_text() for file in files))
        first.send_signal(signal.SIGKILL)
        lines = [file.read_text().splitlines() for file in files]
        for each, told in zip(rm.containers("job-1"), lines, strict=True):
            assert told[0].split(",") == [uuids[index] for index in each.gpu_indices]
        assert {line for told in lines for line in told if line.startswith("YGS_RANK")} == {"YGS_RANK=0", "YGS_RANK=1"}
        with monitor(target, tmp_path):
            rm.release(rm.containers("job-1")[0].container_id)
            await_so(lambda: [file.exists() for file in files].count(True) == 1)
            await_so(lambda: gpus().telemetry == gpu_pb2.TELEMETRY_STATE_LIVE)
    log = (tmp_path / "service.log").read_text()
    assert "monitor_not_believed" not in log
    assert "monitor_refused" not in log
