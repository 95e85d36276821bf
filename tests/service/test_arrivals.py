"""Who connects with TLS and never calls is written down; who calls is not."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from yarn_gpu_sched.service import FakeClock
from yarn_gpu_sched.service import arrivals as module
from yarn_gpu_sched.service.arrivals import LOOK_S, LOOKING_SHARE_MAX, LOOKS_PER_S_MAX, REASON, Arrivals
from yarn_gpu_sched.service.metrics import Metrics


class Port:
    """A port that is really connected to, and what is written of it."""

    def __init__(self, family: socket.AddressFamily, host: str) -> None:
        self.listening = socket.socket(family)
        self.listening.bind((host, 0))
        self.listening.listen()
        self.lines: list[Any] = []
        self.metrics = Metrics()
        self.clock = FakeClock(0.0)
        self.arrivals = Arrivals(self.clock, self.metrics, self.lines.append)
        self.arrivals.ports.add(self.listening.getsockname()[1])
        self.arrivals.start()

    def connect(self) -> tuple[socket.socket, socket.socket, str]:
        """Connect; return both ends, and how gRPC names the caller."""
        caller = socket.create_connection(self.listening.getsockname()[:2])
        taken, (host, port, *_) = self.listening.accept()
        return caller, taken, f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"

    def looks(self) -> None:
        """Let it look twice: who went is seen by the second."""
        for _ in range(2):
            self.clock.advance(LOOK_S)


@pytest.fixture(params=["127.0.0.1", "::1"])
def port(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Port]:
    monkeypatch.setattr(module, "LOOKS_PER_S_MAX", 1e9)
    monkeypatch.setattr(module, "LOOKING_SHARE_MAX", 1e9)
    made = Port(socket.AF_INET6 if ":" in request.param else socket.AF_INET, request.param)
    yield made
    made.listening.close()


def end(*ends: socket.socket) -> None:
    for one in ends:
        one.close()


def test_who_went_without_a_call_is_written_down_once(port: Port) -> None:
    caller, taken, peer = port.connect()
    port.arrivals.begins()
    port.looks()
    assert port.lines == [], "it may call yet"
    end(caller, taken)
    port.looks()
    port.looks()
    (line,) = port.lines
    assert (line["who"], line["outcome"], line["reason"]) == ("unknown", "refused", REASON)
    assert line["peer"] == peer.replace("%5B", "[").replace("%5D", "]")
    assert port.metrics.registry.get_sample_value("ygs_refused_calls_total", {"reason": REASON}) == 1


def test_who_called_is_not(port: Port) -> None:
    caller, taken, peer = port.connect()
    port.arrivals.begins()
    port.arrivals.called(peer)
    another, its, _ = port.connect()
    port.arrivals.begins()
    end(caller, taken, another, its)
    port.looks()
    assert len(port.lines) == 1, "the other one alone"
    port.looks()
    assert port.arrivals._called == set(), "and who has gone is forgotten"


def test_who_calls_anybody_else_is_not_looked_at(port: Port) -> None:
    port.arrivals.ports = {1}
    caller, taken, _ = port.connect()
    port.arrivals.begins()
    end(caller, taken)
    port.looks()
    assert port.lines == []


def test_callers_that_are_waited_for_are_bounded(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 2)
    ends = [one for _ in range(4) for one in port.connect()[:2]]
    port.arrivals.begins()
    end(*ends)
    port.looks()
    assert len(port.lines) == 2


def test_in_a_storm_it_is_looked_so_often_and_all_are_counted(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOKS_PER_S_MAX", LOOKS_PER_S_MAX)
    looked: list[set[int]] = []

    def connected(ports: set[int]) -> Iterator[str]:
        looked.append(ports)
        return iter(())

    monkeypatch.setattr(module, "_connected", connected)
    now_s = iter([1.0, 1.001, 1.002, 1.03])
    monkeypatch.setattr(time, "monotonic", lambda: next(now_s))
    for _ in range(4):
        port.arrivals.begins()
    assert len(looked) == 2
    assert port.metrics.registry.get_sample_value("ygs_tls_handshakes_total") == 4


def test_where_the_system_tells_nobody_nothing_fails(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LISTS", (Path("/nowhere/tcp"),))
    port.arrivals.begins()
    port.looks()
    assert port.lines == []


def test_the_more_are_connected_the_less_often_it_is_looked(
    port: Port, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (local,) = port.arrivals.ports
    row = "   0: 0100007F:%04X 0100007F:%04X 01 00000000:00000000 00:00000000 00000000 0 0 1\n"
    (tmp_path / "tcp").write_text("head\n" + "".join(row % (local, remote) for remote in range(1_024, 11_024)))
    monkeypatch.setattr(module, "_LISTS", (tmp_path / "tcp",))
    monkeypatch.setattr(module, "LOOKING_SHARE_MAX", LOOKING_SHARE_MAX)
    begun_s = time.monotonic()
    port.arrivals.begins()
    look_s = time.monotonic() - begun_s
    for _ in range(100):
        port.arrivals.begins()
    assert time.monotonic() - begun_s < 10 * look_s, "not 100 looks"
    assert port.metrics.tls_handshakes._value.get() == 101
