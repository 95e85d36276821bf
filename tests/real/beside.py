"""What other work has to live beside: a gang that runs, one that waits, and a service that is away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.real.apps import gpus
from tests.real.joint import FULL, ServedJoint


@contextmanager
def gangs(joint: ServedJoint) -> Iterator[None]:
    """Let a gang hold three of four servers, and another wait for as many: it runs when the first has ended."""
    running, waiting = (joint.apps.submit(tags=["gang:3x4"]).register() for _ in range(2))
    running.allocate(gpus(3, 4))
    running.hold(3)
    waiting.allocate(gpus(3, 4))
    joint.await_state(waiting.app_id, FULL)
    yield
    assert joint.held().gpus == 12
    running.finish()
    waiting.hold(3)


@contextmanager
def service_away(joint: ServedJoint) -> Iterator[None]:
    """Kill the service, and start it again afterwards."""
    joint.cluster.kill("service")
    try:
        joint.until(lambda: joint.counters()["Connected"], lambda up: up == 0, "the shim has noticed")
        yield
    finally:
        joint.cluster.start("service")
    joint.await_connected()
