"""A real ResourceManager's link over TLS: another role is refused and audited, and the right one is taken without a restart."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.real_service import real_service
from tests.service.certified import ADDRESS, Certified
from yarn_gpu_sched.client import Client
from yarn_gpu_sched.embedded import ClusterSpec, EmbeddedCluster, free_port
from yarn_gpu_sched.identity import Role

WAIT_S = 90.0


def await_so(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_resource_manager_links_by_tls_once_its_certificate_says_what_it_is(tmp_path: Path) -> None:
    certified = Certified(tmp_path / "certificates")
    shown = certified.issue(Role.OPERATOR, "shown")
    keys = ("certificate", "key", "authority")
    hadoop = {f"ygs.tls.{key}": str(path) for key, path in zip(keys, shown.paths, strict=True)}
    address = f"{ADDRESS}:{free_port()}"
    spec = ClusterSpec(servers=((1, 2),), racks=1, hdfs=False, service_address=address, settings=hadoop)
    own = [
        word for key, path in zip(keys, certified.service.paths, strict=True) for word in (f"--tls-{key}", str(path))
    ]
    flags = (
        "--listen",
        address,
        "--tls-on-loopback",
        "true",
        "--audit-log",
        str(certified.folder / "audit.jsonl"),
        *own,
    )
    with (
        real_service(tmp_path, *flags),
        EmbeddedCluster(tmp_path / "cluster", spec),
        Client(address, tls=certified.issue(Role.READER)) as client,
    ):
        await_so(lambda: any(line.get("reason") == "ROLE_NOT_PERMITTED" for line in certified.lines()))
        assert not client.cluster().connected
        right = certified.issue(Role.RESOURCE_MANAGER)
        for found, place in zip(right.paths, shown.paths, strict=True):
            found.replace(place)
        await_so(lambda: client.cluster().connected and client.cluster().servers == 1)
    acts = [(line["who"], line.get("act") or line.get("reason")) for line in certified.lines()]
    assert acts[0] == ("operator/shown", "ROLE_NOT_PERMITTED")
    assert ("resource-manager/rm-1", "registered") in acts
    assert ("resource-manager/rm-1", "ended") in acts
