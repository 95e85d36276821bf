"""TLS of the service: what it needs to start, how certificates change without a restart, and what is said before they expire."""

from __future__ import annotations

import asyncio
import datetime as dt
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
import structlog

from tests.service.certified import ADDRESS, Certified, answer, calling, serving
from yarn_gpu_sched.identity import BadCertificate, Role, TlsFiles, make_authority, utc_now
from yarn_gpu_sched.service import CannotStart, FakeClock, Service
from yarn_gpu_sched.service.log import configure_logging
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.tls import LOOK_S, ServiceTls

Code = grpc.StatusCode
GET = "/yarn_gpu_sched.v1.ClusterService/GetCluster"
CHECK = "/grpc.health.v1.Health/Check"
HOSTS = ("localhost", ADDRESS)


@pytest.fixture
def certified(tmp_path: Path) -> Certified:
    return Certified(tmp_path)


@pytest.fixture
def said() -> Iterator[list[Any]]:
    configure_logging("debug")
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest_asyncio.fixture
async def service(certified: Certified, clock: FakeClock) -> AsyncIterator[Service]:
    async with serving(certified.settings(), clock) as one:
        yield one


def sample(service: Service, name: str, **labels: str) -> float | None:
    return service.metrics.registry.get_sample_value(f"ygs_{name}", labels)


async def code_of(certified: Certified, service: Service, own: TlsFiles | None) -> Code:
    """Call on a new connection."""
    async with calling(certified, service.port, own) as channel:
        return (await answer(channel, CHECK))[0]


async def test_a_new_certificate_serves_new_connections_and_open_ones_go_on(
    certified: Certified, service: Service
) -> None:
    own = certified.issue(Role.READER)
    before = sample(service, "certificate_expires_timestamp_seconds", file="certificate")
    async with calling(certified, service.port, own) as open_before:
        assert (await answer(open_before, GET))[0] is Code.OK
        certified.issue(Role.SERVICE, "s", hosts=HOSTS, days=200)
        assert await code_of(certified, service, own) is Code.OK
        assert (await answer(open_before, GET))[0] is Code.OK
    after = sample(service, "certificate_expires_timestamp_seconds", file="certificate")
    assert before is not None
    assert after is not None
    assert after - before > 100 * 86_400


async def test_a_new_authority_is_trusted_beside_the_old_one_and_then_alone(
    certified: Certified, service: Service
) -> None:
    old, new = certified.issue(Role.READER), certified.of_a_stranger(Role.READER)
    assert await code_of(certified, service, new) is Code.UNAVAILABLE
    authority = certified.service.authority
    first, second = authority.read_bytes(), (certified.folder / "stranger" / "authority.pem").read_bytes()
    replace(authority, first + second)
    assert [await code_of(certified, service, own) for own in (old, new)] == [Code.OK, Code.OK]
    replace(authority, second)
    trusted_by_callers = certified.folder / "service-s-authority" / "authority.pem"
    assert trusted_by_callers == authority
    async with calling_trusting(certified, service, new, first) as channel:
        assert (await answer(channel, CHECK))[0] is Code.OK
    async with calling_trusting(certified, service, old, first) as channel:
        assert (await answer(channel, CHECK))[0] is Code.UNAVAILABLE


def calling_trusting(certified: Certified, service: Service, own: TlsFiles, trusted: bytes) -> grpc.aio.Channel:
    """Connect as somebody who trusts another authority than the service does."""
    kept = certified.service.authority.read_bytes()
    certified.service.authority.write_bytes(trusted)
    channel = calling(certified, service.port, own)
    replace(certified.service.authority, kept)
    return channel


def replace(path: Path, content: bytes) -> None:
    """Put a file in the place of another, as a whole."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


@pytest.mark.parametrize("kind", ["half", "another's key", "gone", "another role", "expired"])
async def test_files_that_cannot_be_used_leave_the_old_ones_in_use(
    certified: Certified, service: Service, said: list[Any], kind: str
) -> None:
    spoil(certified, kind)
    own = certified.issue(Role.READER)
    for _ in range(2):
        assert await code_of(certified, service, own) is Code.OK
    assert sample(service, "tls_reload_failures_total") == 1
    (line,) = [line for line in said if line["event"] == "certificate_not_taken"]
    assert line["log_level"] == "error"
    certified.issue(Role.SERVICE, "s", hosts=HOSTS)
    assert await code_of(certified, service, own) is Code.OK
    assert [line["event"] for line in said if line["event"].startswith("certificate_")][1:] == ["certificate_taken"]


def spoil(certified: Certified, kind: str) -> None:
    certificate, key, _ = certified.service.paths
    if kind == "half":
        certificate.write_bytes(certificate.read_bytes()[:200])
    elif kind == "another's key":
        replace(key, certified.issue(Role.READER, "else").key.read_bytes())
    elif kind == "gone":
        certificate.unlink()
    else:
        other = certified.issue(Role.OPERATOR) if kind == "another role" else certified.expired(Role.SERVICE)
        shutil.copy(other.key, key)
        shutil.copy(other.certificate, certificate)


async def test_files_are_looked_at_while_nobody_connects(
    certified: Certified, clock: FakeClock, service: Service
) -> None:
    certified.issue(Role.SERVICE, "s", hosts=HOSTS, days=10)
    clock.advance(LOOK_S)
    expires = sample(service, "certificate_expires_timestamp_seconds", file="certificate")
    assert expires is not None
    assert abs(expires - utc_now().timestamp() - 10 * 86_400) < 3_600


async def test_what_expires_soon_is_said_once_a_day(certified: Certified, clock: FakeClock, said: list[Any]) -> None:
    certified.issue(Role.SERVICE, "s", hosts=HOSTS, days=10)
    tls = ServiceTls(certified.service, clock, Metrics())
    tls.start()
    for _ in range(5):
        clock.advance(LOOK_S)
    assert [(line["event"], line["file"]) for line in said] == [("certificate_expires", "certificate")]
    for _ in range(24 * 60):
        clock.advance(LOOK_S)
    assert len(said) == 2
    tls.stop()


async def test_one_that_lasts_is_not_warned_of(certified: Certified, clock: FakeClock, said: list[Any]) -> None:
    tls = ServiceTls(certified.service, clock, Metrics())
    tls.start()
    assert said == []
    tls.stop()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("half", "must be one certificate or more in PEM"),
        ("another's key", "must be the key of"),
        ("gone", "cannot be read: No such file or directory"),
        ("another role", "must name ygs://service/NAME, and names ygs://operator/ops"),
        ("expired", "must not have expired"),
    ],
)
async def test_a_service_whose_files_cannot_be_used_does_not_start(certified: Certified, kind: str, why: str) -> None:
    spoil(certified, kind)
    with pytest.raises(CannotStart, match=why) as error:
        Service(certified.settings(), FakeClock(0.0))
    assert "\n" not in str(error.value)


async def test_an_authority_that_has_expired_is_said(certified: Certified) -> None:
    make_authority(certified.folder / "old", begins=utc_now() - dt.timedelta(days=3), days=1)
    replace(certified.service.authority, (certified.folder / "old" / "authority.pem").read_bytes())
    with pytest.raises(BadCertificate, match=r"authority\.pem: must not have expired, and did at "):
        ServiceTls(certified.service, FakeClock(0.0), Metrics())


async def test_many_connect_while_certificates_change(certified: Certified, service: Service) -> None:
    own = certified.issue(Role.READER)

    async def change() -> None:
        for days in range(20, 30):
            await asyncio.to_thread(certified.issue, Role.SERVICE, "s", hosts=HOSTS, days=days)

    codes, _ = await asyncio.gather(asyncio.gather(*(code_of(certified, service, own) for _ in range(40))), change())
    assert set(codes) == {Code.OK}
