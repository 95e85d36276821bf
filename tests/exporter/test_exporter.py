"""The exporter: plain on loopback, by TLS with client certificates where it is told to; nobody who says nothing holds it up."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge

from tests.service.certified import ADDRESS, Certified
from yarn_gpu_sched.exporter import Exporter
from yarn_gpu_sched.identity import BadCertificate, Role, TlsFiles

WAIT_S = 20.0


@pytest.fixture
def certified(tmp_path: Path) -> Certified:
    return Certified(tmp_path)


@pytest.fixture
def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    Gauge("answer", "What it is.", registry=made).set(42)
    return made


@pytest.fixture
def exporter(certified: Certified, registry: CollectorRegistry) -> Iterator[Exporter]:
    one = Exporter(ADDRESS, 0, registry, certified.service)
    yield one
    one.close()


def read(certified: Certified, port: int, own: TlsFiles | None) -> bytes:
    """Read the metrics as Prometheus would."""
    context = ssl.create_default_context(cafile=certified.service.authority)
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    connection = http.client.HTTPSConnection(ADDRESS, port, context=context, timeout=WAIT_S)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read()
    finally:
        connection.close()


def test_whoever_has_a_certificate_reads(certified: Certified, exporter: Exporter) -> None:
    assert b"answer 42.0" in read(certified, exporter.port, certified.issue(Role.READER))


@pytest.mark.parametrize("kind", ["none", "stranger", "expired"])
def test_nobody_else_does(certified: Certified, exporter: Exporter, kind: str) -> None:
    made = {"none": lambda _: None, "stranger": certified.of_a_stranger, "expired": certified.expired}
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
        read(certified, exporter.port, made[kind](Role.READER))
    assert b"answer" in read(certified, exporter.port, certified.issue(Role.READER)), "others are served as before"


def test_plain_text_is_not_answered(exporter: Exporter) -> None:
    connection = http.client.HTTPConnection(ADDRESS, exporter.port, timeout=WAIT_S)
    connection.request("GET", "/metrics")
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        connection.getresponse()


def test_who_connects_and_says_nothing_holds_up_nobody(certified: Certified, exporter: Exporter) -> None:
    with socket.create_connection((ADDRESS, exporter.port)):
        assert b"answer" in read(certified, exporter.port, certified.issue(Role.READER))


def test_a_new_certificate_is_served_at_the_next_reading(certified: Certified, exporter: Exporter) -> None:
    own = certified.issue(Role.READER)
    serials = []
    for days in (10, 20):
        certified.issue(Role.SERVICE, "s", hosts=(ADDRESS,), days=days)
        context = ssl.create_default_context(cafile=certified.service.authority)
        context.load_cert_chain(own.certificate, own.key)
        with (
            socket.create_connection((ADDRESS, exporter.port), WAIT_S) as plain,
            context.wrap_socket(plain, server_hostname=ADDRESS) as one,
        ):
            found = one.getpeercert()
            assert found is not None
            serials.append(found["serialNumber"])
    assert len(set(serials)) == 2


def test_half_a_file_leaves_the_one_before_in_use(certified: Certified, exporter: Exporter) -> None:
    certified.service.certificate.write_bytes(b"-----BEGIN CERT")
    assert b"answer" in read(certified, exporter.port, certified.issue(Role.READER))


def test_files_that_cannot_be_used_are_said_at_the_start(certified: Certified, registry: CollectorRegistry) -> None:
    certified.service.key.unlink()
    with pytest.raises(BadCertificate, match=r"key\.pem: cannot be read"):
        Exporter(ADDRESS, 0, registry, certified.service)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "::1"])
def test_without_files_it_is_plain(registry: CollectorRegistry, host: str) -> None:
    one = Exporter(host, 0, registry)
    try:
        connection = http.client.HTTPConnection(host.strip("[]"), one.port, timeout=WAIT_S)
        connection.request("GET", "/metrics")
        assert b"answer 42.0" in connection.getresponse().read()
        connection.close()
    finally:
        one.close()
    with pytest.raises(ConnectionError):
        socket.create_connection((host.strip("[]"), one.port))
