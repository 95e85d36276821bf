"""A container learns its GPUs before its command runs, or does not run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.real import spells
from tests.real.apps import gpus
from tests.real.joint import ServedJoint

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

LATE_S = 2.0
NOT_BOUND = 78


def test_a_late_delivery_makes_a_worker_wait_and_none_makes_it_fail_never_run_unbound(
    joint: ServedJoint, workers: Path
) -> None:
    joint.until(
        lambda: joint.client.cluster().settled, bool, "capacity has settled: then all bindings are written once more"
    )
    app = joint.apps.submit(tags=["gang:2x2"]).register()
    app.allocate(gpus(2, 2))
    late, never = sorted(container["container"] for container in app.hold(2))
    bindings = joint.folder / "bindings"
    joint.until(lambda: all((bindings / name).exists() for name in (late, never)), bool, "both are delivered")
    (bindings / never).unlink()
    (bindings / late).rename(bindings / f".late-{late}")
    app.launch(joint.worker(workers, "0.2"))
    launched_s = time.monotonic()
    joint.until(time.monotonic, lambda now_s: now_s >= launched_s + LATE_S, "the delivery is late")
    assert spells.read(workers) == {}
    delivered_s = time.time()
    (bindings / f".late-{late}").rename(bindings / late)

    ended = {worker["container"]: worker for worker in app.await_completed(2)}
    assert (ended[late]["exit"], ended[never]["exit"]) == (0, NOT_BOUND), ended
    seen = spells.read(workers)
    assert seen.keys() == {late}
    assert seen[late].start_s >= delivered_s
    assert len(seen[late].gpus or ()) == 2
    app.finish()
