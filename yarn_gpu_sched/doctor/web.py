"""Pages of Hadoop's daemons: read whole, bounded in size and time, and checked for their shape."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar

import msgspec

from yarn_gpu_sched.doctor.finding import CannotLook

T = TypeVar("T")

PAGE_S_MAX = 10.0
PAGE_BYTES_MAX = 64 << 20
_CHUNK_BYTES = 65_536
_WORDS_MAX = 200
_UNAUTHORIZED, _FORBIDDEN = 401, 403
_SPNEGO = "it asks for Kerberos (SPNEGO), which this command does not speak"


class Page(msgspec.Struct, frozen=True):
    """A page. ``ahead_s``: how far the daemon's clock is before this machine's, to the second; None: it has told no date."""

    url: str
    body: bytes
    ahead_s: float | None = None


class Web:
    """Reads pages until a time has come; then no more. ``addresses`` says where a host is that cannot be looked up here."""

    def __init__(self, until_s: float, addresses: Mapping[str, str] | None = None) -> None:
        self._until_s = until_s
        self._addresses = addresses or {}

    def within(self, seconds: float) -> Web:
        """Return what reads for so long at most."""
        return Web(min(self._until_s, time.monotonic() + seconds), self._addresses)

    def place_of(self, host: str) -> str:
        """Return the address of a host, or its name where it can be looked up here."""
        return self._addresses.get(host, host)

    def left_s(self) -> float:
        """Return the seconds that are left; raises `CannotLook` when there are none."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise CannotLook("the time for it is over", "give the whole more: --timeout SECONDS")
        return left_s

    def page(self, url: str) -> Page:
        """Read a page; raises `CannotLook`."""
        timeout_s = min(PAGE_S_MAX, self.left_s())
        deadline_s = time.monotonic() + timeout_s
        try:
            placed, host = self._placed(url)
            headers = {"Accept": "application/json", "Host": host}
            request = urllib.request.Request(placed, headers=headers)  # noqa: S310 - http(s) alone, see _placed
            asked_s = time.time()
            with _OPENER.open(request, timeout=timeout_s) as response:
                body = _whole(response, deadline_s)
                return Page(url, body, _ahead_s(response.headers.get("Date"), asked_s, time.time()))
        except urllib.error.HTTPError as error:
            with error:
                raise CannotLook(f"{url}: {_status(error)}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise CannotLook(f"{url}: {_words(error)}") from error

    def _placed(self, url: str) -> tuple[str, str]:
        """Return where a page is asked for, and of whom."""
        scheme, _, rest = url.partition("://")
        if scheme not in ("http", "https"):
            raise CannotLook(f"{url!r:.80} should be an address such as http://rm:8088")
        asked = rest.partition("/")[0]
        host, colon, more = rest.partition(":")
        return f"{scheme}://{self.place_of(host)}{colon}{more}", asked


class _Plain(urllib.request.HTTPRedirectHandler):
    """Another daemon than the one that was asked says nothing about it."""

    def redirect_request(self, *_arguments: object) -> None:
        """Follow nobody."""


class _Until:
    """A socket that is read until a time has come, however slowly the other side says a byte after the other."""

    until_s = float("inf")

    def recv_into(self, *arguments: Any) -> int:  # noqa: ANN401 - as the classes below have it
        """Read some; TimeoutError once it is too late."""
        left_s = self.until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the answer did not end in time")
        self.settimeout(left_s)  # type: ignore[attr-defined] # of the socket
        count: int = super().recv_into(*arguments)  # type: ignore[misc] # of the socket
        return count


class _Socket(_Until, socket.socket):
    pass


class _TlsSocket(_Until, ssl.SSLSocket):
    pass


class _Connection(http.client.HTTPConnection):
    def connect(self) -> None:
        until_s = time.monotonic() + (self.timeout or PAGE_S_MAX)
        super().connect()
        self.sock = _Socket(fileno=self.sock.detach())
        self.sock.settimeout(self.timeout)
        self.sock.until_s = until_s


class _TlsConnection(http.client.HTTPSConnection):
    def connect(self) -> None:
        until_s = time.monotonic() + (self.timeout or PAGE_S_MAX)
        super().connect()
        if isinstance(self.sock, _TlsSocket):
            self.sock.until_s = until_s


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        context = ssl.create_default_context()
        context.sslsocket_class = _TlsSocket
        return self.do_open(_TlsConnection, req, context=context)


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Plain, _Http, _Https)


def read(page: Page, kind: type[T]) -> T:
    """Read a page as JSON of this shape; what else it says is passed over. Raises `CannotLook`."""
    try:
        return msgspec.json.decode(page.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CannotLook(f"{page.url}: the answer cannot be understood: {_words(error)}") from error


class once(Generic[T]):  # noqa: N801 - it is used as a decorator
    """Makes a property of a method that is called once; what it raised is raised again."""

    def __init__(self, method: Callable[[Any], T]) -> None:
        self._method = method
        self._name = f"_once_{method.__name__}"
        self.__doc__ = method.__doc__

    def __get__(self, owner: object, kind: type | None = None) -> T:
        """Return what the method returned; raises the `CannotLook` that it raised."""
        if self._name not in owner.__dict__:
            owner.__dict__[self._name] = self._tried(owner)
        found: T | CannotLook = owner.__dict__[self._name]
        if isinstance(found, CannotLook):
            raise CannotLook(str(found), found.do)
        return found

    def _tried(self, owner: object) -> T | CannotLook:
        try:
            return self._method(owner)
        except CannotLook as why:
            return why


def _status(error: urllib.error.HTTPError) -> str:
    if error.code == _UNAUTHORIZED:
        return f"HTTP 401: {_SPNEGO}"
    if error.code == _FORBIDDEN:
        return "HTTP 403: it refuses this user"
    return f"HTTP {error.code}"


def _whole(response: http.client.HTTPResponse, deadline_s: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := response.read1(_CHUNK_BYTES):
        parts.append(part)
        size += len(part)
        if size > PAGE_BYTES_MAX:
            raise ValueError(f"the answer has more than {PAGE_BYTES_MAX} bytes")
        if time.monotonic() > deadline_s:
            raise ValueError("the answer did not end in time")
    return b"".join(parts)


def _ahead_s(date: str | None, asked_s: float, answered_s: float) -> float | None:
    """Compare a date, which is cut to the second, with the time in which it was told: 0 where it may be equal."""
    if date is None:
        return None
    told_s = parsedate_to_datetime(date).timestamp()
    return ahead_s(told_s, told_s + 1, asked_s, answered_s)


def ahead_s(from_s: float, to_s: float, asked_s: float, answered_s: float) -> float:
    """Return by how much a clock that said between ``from_s`` and ``to_s`` is ahead at least; 0 where it may be right."""
    if from_s > answered_s:
        return from_s - answered_s
    return min(0.0, to_s - asked_s)


def _words(error: BaseException) -> str:
    reason = getattr(error, "reason", None) or error
    text = str(getattr(reason, "strerror", None) or reason) or type(reason).__name__
    return " ".join(text.split())[:_WORDS_MAX]
