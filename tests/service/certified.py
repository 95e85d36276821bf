"""A real service over TLS on a loopback address of its own, and callers of every kind, with certificates made for them here."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from tests.service.raw_link import BOUND_S, ended_by
from yarn_gpu_sched.identity import Identity, Role, TlsFiles, Wanted, issue, make_authority, utc_now
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.log import configure_logging

ADDRESS = "127.0.0.2"
NAMES = {
    Role.RESOURCE_MANAGER: "rm-1",
    Role.MONITOR: "gpu-1",
    Role.OPERATOR: "ops",
    Role.READER: "grafana",
    Role.SUBMITTER: "bob",
    Role.SERVICE: "other",
}


class Certified:
    """A folder with an authority, and certificates of it as they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = folder / "authority"
        make_authority(self.authority)
        self.service = self.issue(Role.SERVICE, "s", hosts=("localhost", ADDRESS, "127.0.0.1"))

    def issue(
        self,
        role: Role,
        name: str = "",
        *,
        hosts: tuple[str, ...] = (),
        begins: dt.datetime | None = None,
        days: float = 90.0,
        authority: Path | None = None,
    ) -> TlsFiles:
        """Make a certificate, instead of the one that was made for this name before."""
        name = name or NAMES[role]
        out = self.folder / f"{role.value}-{name}-{(authority or self.authority).name}"
        issue(authority or self.authority, out, Wanted(Identity(role, name), hosts, days, begins))
        return TlsFiles.of_folder(out)

    def expired(self, role: Role) -> TlsFiles:
        """Make a certificate that was valid until yesterday."""
        return self.issue(role, "expired", begins=utc_now() - dt.timedelta(days=3), days=2)

    def of_a_stranger(self, role: Role) -> TlsFiles:
        """Make a certificate of an authority that nobody here trusts."""
        stranger = self.folder / "stranger"
        if not stranger.exists():
            make_authority(stranger, name="stranger")
        return self.issue(role, authority=stranger)

    def settings(self, **more: Any) -> Settings:  # noqa: ANN401 - any setting
        """Make settings of a service that has TLS on loopback too."""
        certificate, key, authority = map(str, self.service.paths)
        given: dict[str, Any] = {
            "listen": f"{ADDRESS}:0",
            "audit_every_events": 0,
            "audit_log": str(self.folder / "audit.jsonl"),
            "tls_on_loopback": True,
            **more,
        }
        return Settings(tls_certificate=certificate, tls_key=key, tls_authority=authority, **given)

    def lines(self) -> list[dict[str, Any]]:
        """Read the audit log."""
        return [json.loads(line) for line in (self.folder / "audit.jsonl").read_text().splitlines()]

    async def until_audited(self, **wanted: object) -> dict[str, Any]:
        """Wait for a line of the audit log."""
        async with asyncio.timeout(BOUND_S):
            while True:
                for line in self.lines():
                    if all(line.get(key) == value for key, value in wanted.items()):
                        return line
                await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(settings: Settings, clock: FakeClock | None = None) -> AsyncIterator[Service]:
    """Run a service."""
    configure_logging("error")
    one = Service(settings, clock or FakeClock(1_000.0))
    await one.start()
    try:
        yield one
    finally:
        await one.stop()


def credentials(own: TlsFiles | None, trusted: bytes) -> grpc.ChannelCredentials:
    """Make what a caller connects with; None: it has no certificate."""
    if own is None:
        return grpc.ssl_channel_credentials(trusted)
    certificate, key = own.certificate.read_bytes(), own.key.read_bytes()
    return grpc.ssl_channel_credentials(trusted, key, certificate)


def calling(certified: Certified, port: int, own: TlsFiles | None) -> aio.Channel:
    """Open a connection of its own."""
    trusted = certified.service.authority.read_bytes()
    options = [("grpc.use_local_subchannel_pool", 1)]
    return aio.secure_channel(f"{ADDRESS}:{port}", credentials(own, trusted), options=options)


async def answer(channel: aio.Channel, path: str, request: bytes = b"") -> tuple[grpc.StatusCode, str, str]:
    """Make any call and say how it ended: status, reason and sentence. One that answers first counts as OK, and is left."""
    call: aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(path)(timeout=BOUND_S)
    try:
        await call.write(request)
        await call.done_writing()
        if await call.read() is not aio.EOF:
            call.cancel()
            return grpc.StatusCode.OK, "", ""
        code = await call.code()
    except asyncio.InvalidStateError:
        code = await call.code()
    except aio.AioRpcError as error:
        ended = ended_by(error)
        return ended.code, ended.reason, ended.sentence
    if code is grpc.StatusCode.OK:
        return code, "", ""
    end = aio.AioRpcError(code, await call.initial_metadata(), await call.trailing_metadata(), await call.details())
    found = ended_by(end)
    return found.code, found.reason, found.sentence
