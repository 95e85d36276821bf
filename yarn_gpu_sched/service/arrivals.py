"""Who connected with TLS and never made a call: TLS ends such connections before gRPC tells anybody of them.

gRPC asks for certificates when a handshake begins, and nothing more is heard if that fails. So who is connected is looked up then
in the system's own list, and whoever has gone a while later without a call is written down as refused.
"""

from __future__ import annotations

import ipaddress
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

from yarn_gpu_sched.service.caller import Record
from yarn_gpu_sched.service.clock import Clock, Timer
from yarn_gpu_sched.service.metrics import Metrics

LOOK_S = 5.0
WAITING_MAX = 4_096
LOOKS_PER_S_MAX = 50.0
"""Looks while connections begin: in a storm of them some that fail are counted only."""
LOOKING_SHARE_MAX = 0.1
"""Share of the time for which it is looked at most: the more are connected, the longer a look takes."""
REASON = "NO_CALL"
_LISTS = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
_CONNECTED = frozenset({b"01", b"08"})  # established, or closed by the caller alone


class Arrivals:
    """Callers of ports that have TLS, from their connection to their first call. `begins` is called on any thread."""

    def __init__(self, clock: Clock, metrics: Metrics, write: Callable[[Record], None]) -> None:
        self.ports: set[int] = set()
        self._clock = clock
        self._metrics = metrics
        self._write = write
        self._lock = threading.Lock()
        self._called: set[str] = set()
        self._waiting: dict[str, int] = {}
        self._next_s = 0.0
        self._round = 0
        self._timer: Timer | None = None

    def begins(self) -> None:
        """Take note that a handshake begins."""
        self._metrics.tls_handshakes.inc()
        with self._lock:
            now_s = time.monotonic()
            if now_s < self._next_s:
                return
            begun_s = time.perf_counter()
            for peer in _connected(self.ports):
                if peer not in self._called and len(self._waiting) < WAITING_MAX:
                    self._waiting.setdefault(peer, self._round)
            took_s = time.perf_counter() - begun_s
            self._next_s = now_s + max(1 / LOOKS_PER_S_MAX, took_s / LOOKING_SHARE_MAX)

    def called(self, peer: str) -> None:
        """Take note that a caller was identified."""
        known = _canonical(peer)
        with self._lock:
            self._called.add(known)
            self._waiting.pop(known, None)

    def start(self) -> None:
        """Look now and again who has gone."""
        self.look()
        self._timer = self._clock.call_at(self._clock.now_s() + LOOK_S, self.start)

    def stop(self) -> None:
        """Write down who has gone, and look no more."""
        if self._timer is not None:
            self._timer.cancel()
        self.look()
        self.look()

    def look(self) -> None:
        """Write down who came before the look before this one, and has gone without a call."""
        with self._lock:
            if not self._called and not self._waiting:
                return
            there = set(_connected(self.ports))
            self._called &= there
            gone = [peer for peer, came in self._waiting.items() if came < self._round and peer not in there]
            self._round += 1
            for peer in gone:
                del self._waiting[peer]
        for peer in gone:
            self._metrics.refused_calls.labels(REASON).inc()
            why = (
                "the connection ended without a call: the certificate was missing, expired, or of an authority that is not trusted"
                " here (standard error says which), or nothing was called"
            )
            self._write(
                {
                    "who": "unknown",
                    "peer": peer,
                    "outcome": "refused",
                    "code": "UNAVAILABLE",
                    "reason": REASON,
                    "why": why,
                }
            )


def _connected(ports: set[int]) -> Iterator[str]:
    """Yield who is connected to these ports, as gRPC names callers; nobody where the system does not tell."""
    wanted = {f"{port:04X}".encode() for port in ports}
    for path in _LISTS:
        try:
            rows = path.read_bytes().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            _, local, remote, state, *_ = row.split(None, 4)
            if state in _CONNECTED and local.rpartition(b":")[2] in wanted:
                yield _peer(remote)


def _peer(remote: bytes) -> str:
    """Name who is at an address as the system writes it: words of 32 bits in the machine's own order, and the port."""
    words, _, port = remote.partition(b":")
    packed = b"".join(int(words[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(words), 8))
    return _named(ipaddress.ip_address(packed), str(int(port, 16)))


def _canonical(peer: str) -> str:
    """Name a caller as `_connected` does, however gRPC names it: with escaped brackets, or IPv4 within IPv6."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    try:
        return _named(ipaddress.ip_address(host.strip("[]")), port)
    except ValueError:
        return peer


def _named(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: str) -> str:
    if isinstance(address, ipaddress.IPv4Address):
        return f"ipv4:{address}:{port}"
    return f"ipv4:{address.ipv4_mapped}:{port}" if address.ipv4_mapped else f"ipv6:[{address}]:{port}"
