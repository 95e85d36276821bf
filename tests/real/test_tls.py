"""A real ResourceManager reaches the real service by mutual TLS; a certificate that does not serve keeps it out until replaced."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from tests.real.apps import gpus
from tests.real.certificates import RESOURCE_MANAGER, ROLES, present, resource_manager_settings, wanted
from tests.real.joint import ServedJoint
from yarn_gpu_sched.client import UnavailableError
from yarn_gpu_sched.identity import Wanted, make_authority, utc_now

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

GOOD = wanted(RESOURCE_MANAGER)
EXPIRED = Wanted(GOOD.identity, days=1.0, begins=utc_now() - dt.timedelta(days=2))


def _said(joint: ServedJoint, text: str) -> int:
    return joint.rm_log().read_text(errors="replace").count(text)


def _await_said(joint: ServedJoint, text: str, before: int) -> None:
    joint.until(lambda: _said(joint, text), lambda count: count > before, f"the RM's log says {text!r} once more")


def _is_connected(joint: ServedJoint) -> bool | None:
    """Return what the service says; nothing while it does not answer."""
    try:
        return joint.client.cluster().connected
    except UnavailableError:
        return None


def _restart_service(joint: ServedJoint) -> None:
    joint.cluster.kill("service")
    joint.until(lambda: joint.counters()["Connected"], lambda up: up == 0, "the shim has noticed")
    joint.cluster.start("service")


@pytest.mark.both
def test_a_gang_is_placed_and_outlives_certificates_that_do_not_serve(tls_joint: ServedJoint) -> None:
    joint = tls_joint
    joint.await_connected()
    joint.await_whole()
    app = joint.apps.submit(tags=["gang:2x1"]).register()
    app.allocate(gpus(2, 1))
    app.hold(2)
    placed, held = joint.placed(app.app_id, 2), joint.held()
    make_authority(joint.folder / "stranger")
    bad = [
        (EXPIRED, "authority", "has expired"),
        (wanted("reader"), "authority", "PERMISSION_DENIED"),
        (GOOD, "stranger", "does not accept the other's certificate"),
    ]
    for one, authority, sentence in bad:
        before = _said(joint, sentence)
        present(joint.folder, RESOURCE_MANAGER, one, authority)
        _restart_service(joint)
        _await_said(joint, sentence, before)
        assert joint.until(lambda: _is_connected(joint), lambda said: said is not None, "the service answers") is False
        present(joint.folder, RESOURCE_MANAGER, GOOD)
        joint.await_connected()
        assert joint.placed(app.app_id, 2) == placed
        assert joint.held() == held
    joint.clear()
    audited = [json.loads(line) for line in (joint.folder / "audit.jsonl").read_text().splitlines()]
    acts = [(line["who"], line.get("act") or line.get("reason")) for line in audited]
    assert {("reader/one", "ROLE_NOT_PERMITTED"), ("resource-manager/one", "registered")} <= set(acts)


def test_the_service_proves_who_it_is(tls_joint: ServedJoint) -> None:
    """A certificate of the same authority for another host does not do; the right one does, without a restart of either."""
    joint = tls_joint
    joint.await_connected()
    before = _said(joint, "does not accept")
    present(joint.folder, "service", wanted("service", "192.0.2.1"))
    _restart_service(joint)
    _await_said(joint, "does not accept", before)
    present(joint.folder, "service", wanted("service"))
    joint.await_connected()


def test_no_key_stands_in_a_log(tls_joint: ServedJoint) -> None:
    keys = [(tls_joint.folder / role / "key.pem").read_text() for role in ROLES]
    for log in tls_joint.cluster.logs().values():
        text = log.read_text(errors="replace")
        assert not [key for key in keys if key.splitlines()[1] in text], log
    assert (
        resource_manager_settings(tls_joint.folder)["ygs.tls.key"]
        in (tls_joint.folder / "cluster" / "conf" / "yarn-site.xml").read_text()
    )
