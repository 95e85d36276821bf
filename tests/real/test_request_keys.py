"""A job that asks with more request keys than one message holds: the first are told, the rest follows as they go."""

from __future__ import annotations

import pytest

from tests.real.apps import gpus
from tests.real.joint import ScriptedJoint

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

KEYS_MAX = 16_384
BEYOND = 5


def test_of_too_many_request_keys_the_first_are_told_and_the_rest_when_those_went(scripted: ScriptedJoint) -> None:
    session = scripted.session()
    app = scripted.apps.submit().register()
    dropped = scripted.counters()["Dropped"]

    def told() -> list[int]:
        return [ask.key.allocation_request_id for ask in session.asked(app.app_id)]

    app.allocate(*(gpus(1, key=key) for key in range(KEYS_MAX + BEYOND)))
    scripted.until(told, lambda keys: keys == list(range(KEYS_MAX)), "the shim tells the first keys")
    scripted.until(
        lambda: scripted.counters()["Dropped"] - dropped, lambda more: more >= BEYOND, "the rest is counted as dropped"
    )
    app.allocate(*(gpus(0, key=key) for key in range(KEYS_MAX)))
    scripted.until(told, lambda keys: keys == list(range(KEYS_MAX, KEYS_MAX + BEYOND)), "the shim tells the rest")
    assert not session.ended.is_set()
