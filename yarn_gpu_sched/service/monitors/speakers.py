"""Who may speak for a server: the monitor whose certificate names it; without TLS whoever calls from one of its addresses.

A name that resolves to nothing has no address, and nobody speaks for it. A caller on this machine may speak for it by any of its
names.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import OrderedDict
from urllib.parse import unquote

import grpc
import psutil

from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.service.clock import Clock
from yarn_gpu_sched.service.refusal import Refusal

KEPT_S = 60.0
NAMES_MAX = 16_384
RESOLVING_MAX_S = 5.0


class Speakers:
    """Compares callers' addresses with those of servers' names; ``any_local``: whoever calls over loopback speaks for any."""

    def __init__(self, clock: Clock, *, any_local: bool = False) -> None:
        self._clock = clock
        self._any_local = any_local
        self._known: OrderedDict[str, tuple[float, frozenset[str]]] = OrderedDict()

    async def check(self, peer: str, host: str) -> None:
        """Require that a caller speaks for its own server; raises `Refusal`."""
        address = address_of(peer)
        if address is None:
            raise _refused(f"a caller at {peer!a} has no address")
        if address.is_loopback and self._any_local:
            return
        named = await self._addresses(host)
        if str(address) in named or (address.is_loopback and named & _own_addresses()):
            return
        known = f"{host} has {', '.join(sorted(named))}" if named else f"the name {host} has no address here"
        raise _refused(f"a caller at {address} does not speak for {host}: {known}")

    async def _addresses(self, host: str) -> frozenset[str]:
        found = self._known.get(host)
        if found is not None and self._clock.now_s() - found[0] < KEPT_S:
            return found[1]
        addresses = await _resolved(host)
        self._known[host] = (self._clock.now_s(), addresses)
        self._known.move_to_end(host)
        while len(self._known) > NAMES_MAX:
            self._known.popitem(last=False)
        return addresses


def check_name(engine: Engine, named: str, host: str) -> None:
    """Require that a certificate's name is that of a server, in any case, short or full; raises `Refusal`.

    A short name that servers of several domains have is none of theirs. Of a server that the resource manager has not named yet
    its monitor is believed if the names are the same, short or full; it is asked again with every message.
    """
    meant = engine.host_named(named)
    if meant == host if meant or engine.has_host(host) else _agree(named.lower(), host.lower()):
        return
    raise _refused(f"the certificate of {named} does not speak for {host}")


def _agree(one: str, other: str) -> bool:
    """Tell whether two names are the same, or one is the other's first part."""
    return one == other or one == other.partition(".")[0] or other == one.partition(".")[0]


def address_of(peer: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Read gRPC's name of a caller, ``ipv4:10.0.0.7:51514`` or ``ipv6:%5B::1%5D:51514``; None if it has no address."""
    kind, _, rest = unquote(peer).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return None
    try:
        address = ipaddress.ip_address(rest.rpartition(":")[0].strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


async def _resolved(host: str) -> frozenset[str]:
    loop = asyncio.get_running_loop()
    try:
        found = await asyncio.wait_for(loop.getaddrinfo(host, None, type=socket.SOCK_STREAM), RESOLVING_MAX_S)
    except (OSError, UnicodeError, TimeoutError):
        return frozenset()
    return frozenset(str(address[0]).partition("%")[0] for *_, address in found)


def _own_addresses() -> frozenset[str]:
    """List the addresses of this machine."""
    return frozenset(one.address for addresses in psutil.net_if_addrs().values() for one in addresses) | {"127.0.0.1"}


def _refused(sentence: str) -> Refusal:
    return Refusal(grpc.StatusCode.PERMISSION_DENIED, sentence, "OTHER_SERVER")
