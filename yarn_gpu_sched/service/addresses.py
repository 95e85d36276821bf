"""Addresses to listen on: loopback only, until callers are authenticated, except for monitors."""

import ipaddress

import msgspec

_PORT_MAX = 65_535


class Address(msgspec.Struct, frozen=True):
    """A numeric host and a port; port 0 is chosen by the system."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def anywhere(text: str) -> Address:
    """Read a numeric ``host:port``; ValueError, in one sentence, if it is none."""
    host, port = _parts(text)
    try:
        return Address(str(ipaddress.ip_address(host)), port)
    except ValueError:
        raise ValueError(f"must be a numeric address and a port, for example 10.0.0.7:7434, not {host!a}") from None


def loopback(text: str) -> Address:
    """Read ``host:port``; ValueError, in one sentence, if it is not on loopback."""
    host, port = _parts(text)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise ValueError(f"must be a loopback address, 127.0.0.1 or [::1], not {host!a}") from None
    if not address.is_loopback:
        raise ValueError(
            f"must be a loopback address, 127.0.0.1 or [::1], not {host}: the service has no"
            " authentication yet and listens on this machine only"
        )
    return Address(str(address), port)


def _parts(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > _PORT_MAX:
        raise ValueError("must be host:port, for example 127.0.0.1:7433")
    return "127.0.0.1" if host == "localhost" else host.strip("[]"), int(port)
