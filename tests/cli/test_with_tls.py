"""The command line, the client library and the node monitor as processes of their own, with a service that has TLS."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Ended, run_in_terminal
from tests.client.real_service import real_service
from tests.monitor.test_with_service import monitor
from tests.service.certified import ADDRESS, Certified
from yarn_gpu_sched.client import (
    Client,
    FakeResourceManager,
    ForbiddenError,
    ResourceManagerLink,
    TlsFiles,
    UnavailableError,
)
from yarn_gpu_sched.identity import BadCertificate, Role
from yarn_gpu_sched.protocol.v1 import gpu_pb2

WAIT_S = 60.0
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HOST = "gpu-a1"


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return Certified(tmp_path_factory.mktemp("certified"))


@pytest.fixture(scope="module")
def address(certified: Certified) -> Iterator[str]:
    """Run a service with TLS, and a resource manager with two servers."""
    certificate, key, authority = map(str, certified.service.paths)
    flags = ["--tls-certificate", certificate, "--tls-key", key, "--tls-authority", authority]
    flags += [
        "--listen",
        f"{ADDRESS}:0",
        "--tls-on-loopback",
        "true",
        "--audit-log",
        str(certified.folder / "audit.jsonl"),
    ]
    with (
        real_service(certified.folder, *flags) as address,
        FakeResourceManager(address, tls=certified.issue(Role.RESOURCE_MANAGER)) as rm,
    ):
        for host in (HOST, "gpu-a2"):
            rm.add_server(host)
        with Client(address, tls=certified.issue(Role.READER, "waits")) as client:
            await_so(lambda: client.cluster().servers == 2)
        yield address


def await_so(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def ygs(*arguments: str, **environment: str) -> Ended:
    ended = run_in_terminal(*arguments, environment=environment)
    shown = COLOUR.sub("", ended.shown)
    if ended.exit_code == 0 and "--json" not in arguments:
        assert max(map(len, shown.splitlines())) <= 80
    return Ended(ended.exit_code, " ".join(shown.split()))


def test_who_may_is_served_by_option_and_by_environment(certified: Certified, address: str) -> None:
    folder = str(certified.issue(Role.OPERATOR).certificate.parent)
    after = ygs("servers", "--service", address, "--tls", folder)
    before = ygs("--service", address, "--tls", folder, "servers")
    named = ygs("servers", YGS_SERVICE=address, YGS_TLS=folder)
    assert [one.exit_code for one in (after, before, named)] == [0, 0, 0]
    assert after.shown == before.shown == named.shown
    assert "gpu-a2" in after.shown
    marked = ygs("drain", "gpu-a2", "--reason", "fan", "--by", "al", YGS_SERVICE=address, YGS_TLS=folder)
    assert (marked.exit_code, "gpu-a2" in marked.shown) == (0, True)


def test_who_may_not_is_told_by_a_sentence_and_an_exit_code(certified: Certified, address: str) -> None:
    reader = str(certified.issue(Role.READER).certificate.parent)
    refused = ygs("drain", HOST, "--reason", "fan", "--by", "al", "--service", address, "--tls", reader)
    assert refused.exit_code == 5
    assert "reader/grafana may not drain, undrain, quarantine or acknowledge; who may: operator" in refused.shown


def test_who_is_not_known_is_asked_for_a_certificate(certified: Certified, address: str) -> None:
    stranger = str(certified.of_a_stranger(Role.OPERATOR).certificate.parent)
    unknown = ygs("jobs", "--service", address, "--tls", stranger)
    assert unknown.exit_code == 4
    without = ygs("jobs", "--service", "scheduler.example.org:7433")
    assert without.exit_code == 2
    assert "name your certificate's folder by --tls or YGS_TLS" in without.shown
    nothing = ygs("jobs", "--service", address, "--tls", str(certified.folder / "nowhere"))
    assert (nothing.exit_code, "certificate.pem: cannot be read: No such file" in nothing.shown) == (6, True)


def test_the_doctor_asks_the_service_as_who_is_named(certified: Certified, address: str) -> None:
    reader = str(certified.issue(Role.READER).certificate.parent)
    told = ygs("doctor", "--json", "--service", address, "--tls", reader)
    assert told.exit_code in (0, 1), told.shown
    assert "the service: " not in told.shown, "it is reached"
    assert ygs("doctor", "--service", "scheduler.example.org:7433").exit_code == 2


def test_the_library_tells_the_ends_apart(certified: Certified, address: str) -> None:
    with Client(address, tls=certified.issue(Role.READER)) as client:
        assert client.cluster().servers == 2
        with pytest.raises(ForbiddenError) as denied:
            client.mark(gpu_pb2.MARK_ACTION_DRAIN, HOST, "fan", by="al")
        assert denied.value.reason == "ROLE_NOT_PERMITTED"
    with Client(address, tls=certified.expired(Role.READER), attempts_max=1) as client, pytest.raises(UnavailableError):
        client.cluster()
    link = ResourceManagerLink(address, cluster_id="fake", epoch=9, tls=certified.issue(Role.OPERATOR))
    with link, pytest.raises(ForbiddenError):
        link.register()


def test_over_a_unix_socket_nobody_needs_a_certificate(tmp_path: Path) -> None:
    with real_service(tmp_path, "--listen", f"unix:{tmp_path}/ygs.sock") as address:
        assert address == f"unix:{tmp_path}/ygs.sock"
        with Client(address) as client:
            assert client.cluster().servers == 0
        assert ygs("jobs", "--service", address).exit_code == 0
        assert ygs("jobs", "--service", address, YGS_TLS=str(tmp_path / "nowhere")).exit_code == 0, "it needs none"
    assert ygs("jobs", "--service", "unix:relative").exit_code == 2


@pytest.mark.parametrize("target", ["scheduler:7433", "10.0.0.1:7433", "0.0.0.0:7433", "[::]:7433"])
def test_the_library_sends_nothing_in_plain_text_beyond_this_machine(target: str) -> None:
    with pytest.raises(ValueError, match="is neither loopback nor a Unix socket: it needs TLS"):
        Client(target)


def test_files_of_the_library_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadCertificate, match=r"certificate\.pem: cannot be read"):
        Client("scheduler:7433", tls=TlsFiles.of_folder(tmp_path))


@contextlib.contextmanager
def running_monitor(address: str, folder: Path, files: TlsFiles) -> Iterator[subprocess.Popen[bytes]]:
    certificate, key, authority = map(str, files.paths)
    flags = ("--tls-certificate", certificate, "--tls-key", key, "--tls-authority", authority)
    with monitor(address, folder, *flags) as process:
        yield process


def events(folder: Path, name: str) -> list[dict[str, str]]:
    lines = [line for line in (folder / "monitor.log").read_text().splitlines() if line.startswith("{")]
    return [said for said in map(json.loads, lines) if said["event"] == name]


def test_a_monitor_with_another_s_certificate_is_refused_until_it_has_its_own(
    certified: Certified, address: str, tmp_path: Path
) -> None:
    other = certified.issue(Role.MONITOR, "gpu-a2")
    with running_monitor(address, tmp_path, other) as process:
        await_so(lambda: bool(events(tmp_path, "service_lost")))
        assert f"the certificate of gpu-a2 does not speak for {HOST}" in events(tmp_path, "service_lost")[0]["error"]
        own = certified.issue(Role.MONITOR, HOST)
        for found, place in zip(own.paths, other.paths, strict=True):
            found.replace(place)
        await_so(lambda: bool(events(tmp_path, "service_connected")))
        with Client(address, tls=certified.issue(Role.READER)) as client:
            await_so(lambda: [gpu.card.uuid != "" for row in client.gpus(HOST) for gpu in row.gpus] == [True] * 4)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    (refused, *_) = [line for line in certified.lines() if line.get("reason") == "OTHER_SERVER"]
    assert (refused["who"], refused["outcome"]) == ("monitor/gpu-a2", "refused")


def test_a_monitor_whose_files_cannot_be_used_does_not_start(tmp_path: Path) -> None:
    missing = TlsFiles.of_folder(tmp_path)
    with running_monitor("scheduler:7433", tmp_path, missing) as process:
        assert process.wait(WAIT_S) == 1
    assert "ygs monitor: " in (tmp_path / "monitor.log").read_text()
