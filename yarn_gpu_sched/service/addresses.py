"""Addresses to listen on: without TLS loopback and Unix sockets alone."""

import ipaddress

import msgspec

from yarn_gpu_sched.identity import is_loopback, is_unix, unix_path

_PORT_MAX = 65_535


class Address(msgspec.Struct, frozen=True):
    """A numeric host and a port, which 0 lets the system choose; or ``unix:/path`` and no port."""

    host: str
    port: int = 0

    def __str__(self) -> str:
        if self.unix:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def unix(self) -> bool:
        """Whether it is a Unix socket."""
        return is_unix(self.host)

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect, by an address."""
        return not self.unix and is_loopback(self.host)


def listening(text: str, *, tls: bool, unix: bool = False) -> Address:
    """Read where to listen; ValueError, in one sentence, if it is none, or is not on this machine alone and there is no TLS."""
    if unix and is_unix(text):
        return Address(f"unix:{unix_path(text)}")
    return anywhere(text) if tls else loopback(text)


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
    if not is_loopback(host):
        raise ValueError(
            f"must be a loopback address, 127.0.0.1 or [::1], not {host}, without tls_certificate, tls_key and tls_authority:"
            " what is not encrypted stays on this machine"
        )
    return Address(str(address), port)


def _parts(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > _PORT_MAX:
        raise ValueError("must be host:port, for example 127.0.0.1:7433")
    return "127.0.0.1" if host == "localhost" else host.strip("[]"), int(port)
