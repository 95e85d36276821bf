"""The service as a process: it starts, says where it listens, stops gracefully, refuses with one sentence."""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import grpc
import pytest

from yarn_gpu_sched.journal import replay
from yarn_gpu_sched.protocol.v1 import cluster_pb2, cluster_pb2_grpc, link_pb2, link_pb2_grpc

PROGRAM = """
import sys
from yarn_gpu_sched.service import BadSettings, load_settings, run
try:
    settings = load_settings(None, **dict(flag.split("=", 1) for flag in sys.argv[1:]))
except BadSettings as bad:
    sys.exit(str(bad))
sys.exit(run(settings))
"""
BOUND_S = 30
Start = Callable[..., "Running"]


class Running:
    """A service in a process of its own."""

    def __init__(self, *flags: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("YGS_")}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROGRAM, *flags], stderr=subprocess.PIPE, env=environment
        )
        assert self.process.stderr is not None
        self.log: IO[bytes] = self.process.stderr

    def until(self, event: str) -> dict[str, Any]:
        """Read the log until an event; fail when it ends before."""
        for line in self.log:
            entry: dict[str, Any] = json.loads(line)
            if entry["event"] == event:
                return entry
        raise AssertionError(f"the log ended before {event}")

    def address(self) -> str:
        return str(self.until("listening")["address"])

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(BOUND_S)


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[Running] = []

    def begin(*flags: str) -> Running:
        running.append(Running("listen=127.0.0.1:0", "stop_grace_s=20", *flags))
        return running[-1]

    yield begin
    for one in running:
        one.process.kill()
        one.process.wait(BOUND_S)
        one.log.close()


def connect(channel: grpc.Channel, close: threading.Event) -> Iterator[link_pb2.ConnectResponse]:
    register = link_pb2.Register(protocol_version=1, cluster_id="c1", epoch=1)
    first = link_pb2.ConnectRequest(sequence=1, register=register)
    second = link_pb2.ConnectRequest(sequence=2, batch=link_pb2.Batch(snapshot_end=True))
    stub: link_pb2_grpc.ResourceManagerLinkServiceStub = link_pb2_grpc.ResourceManagerLinkServiceStub(channel)

    def say() -> Iterator[link_pb2.ConnectRequest]:
        yield from (first, second)
        close.wait(BOUND_S)

    return iter(stub.Connect(say()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_gracefully_and_tells_everybody(start: Start, number: int, tmp_path: Path) -> None:
    running = start(f"recorder_dir={tmp_path / 'record'}", f"binding_dir={tmp_path / 'bindings'}")
    with grpc.insecure_channel(running.address()) as channel:
        close = threading.Event()
        answers = connect(channel, close)
        assert next(answers).registered.session_id
        running.until("resource_manager_registered")
        assert running.stop(number) == 0
        with pytest.raises(grpc.RpcError, match="the service stops"):
            list(answers)
        close.set()
    last = json.loads(running.log.read().splitlines()[-1])
    assert last["event"] == "stopped"
    assert not replay(tmp_path / "record").cluster().connected


def test_a_second_signal_while_it_stops_changes_nothing(start: Start) -> None:
    running = start()
    running.address()
    running.process.send_signal(signal.SIGTERM)
    assert running.stop(signal.SIGINT) == 0


def test_killed_and_started_again_it_serves(start: Start, tmp_path: Path) -> None:
    flags = (f"recorder_dir={tmp_path / 'record'}", f"binding_dir={tmp_path / 'bindings'}")
    first = start(*flags)
    first.address()
    first.process.kill()
    second = start(*flags)
    with grpc.insecure_channel(second.address()) as channel:
        stub: cluster_pb2_grpc.ClusterServiceStub = cluster_pb2_grpc.ClusterServiceStub(channel)
        assert not stub.GetCluster(cluster_pb2.GetClusterRequest(), timeout=BOUND_S).connected


def refused(running: Running) -> str:
    assert running.process.wait(BOUND_S) == 1
    return running.log.read().decode()


def test_any_address_but_loopback_is_refused_in_one_sentence(start: Start) -> None:
    text = refused(start("listen=0.0.0.0:7433"))
    assert "must be a loopback address" in text
    assert len(text.strip().splitlines()) == 1


def test_a_port_in_use_is_refused_in_one_sentence(start: Start) -> None:
    address = start().address()
    text = refused(start(f"listen={address}")).splitlines()[-1]
    assert text == f"ygs serve: listen: {address} is in use or cannot be listened on"


def test_a_port_of_metrics_in_use_is_refused_in_one_sentence(start: Start) -> None:
    address = start().address()
    text = refused(start(f"metrics_listen={address}")).splitlines()[-1]
    assert text.startswith(f"ygs serve: metrics_listen: {address} cannot be listened on")


def test_a_directory_of_somebody_else_is_refused_in_one_sentence(start: Start, tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    text = refused(start(f"binding_dir={tmp_path}")).splitlines()[-1]
    assert text.startswith(f"ygs serve: binding_dir: {tmp_path} must be empty")


def test_a_record_that_cannot_be_written_is_refused_in_one_sentence(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    text = refused(start(f"recorder_dir={tmp_path / 'file'}")).splitlines()[-1]
    assert text.startswith(f"ygs serve: recorder_dir: {tmp_path / 'file'} cannot be used")


def test_prometheus_can_read(start: Start) -> None:
    running = start("metrics_listen=127.0.0.1:0")
    url = f"http://{running.until('metrics_listening')['address']}/metrics"
    with urllib.request.urlopen(url, timeout=BOUND_S) as answer:
        text = answer.read().decode()
    assert "ygs_link_up 0.0" in text
