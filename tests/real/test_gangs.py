"""Whole gangs on a real ResourceManager, placed by the real service."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.real.apps import App, gpus, submitted_to_be_refused
from tests.real.joint import FULL, Held, ServedJoint

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

ROUNDS = 5
SERVERS = ("gpu-a1", "gpu-a2", "gpu-b1", "gpu-b2")


def _registered(joint: ServedJoint, **request: object) -> App:
    return joint.apps.submit(**request).register()


def _containers(joint: ServedJoint, pair: list[App]) -> list[int]:
    return sorted(len(joint.placed_now(app.app_id)) for app in pair)


def test_a_gang_from_the_stock_command_line_sees_the_gpus_it_was_given(joint: ServedJoint, workers: Path) -> None:
    run = joint.distributed_shell(
        workers,
        "stop",
        *("-appname", "shell", "-num_containers", "4", "-application_tags", "gang:4x2"),
        *("-container_resources", "memory-mb=256,vcores=1,yarn.io/gpu=2"),
    )
    started = joint.await_started(workers, 4, 120)
    job = next(view.job.job_id for view in joint.client.jobs() if view.job.name == "shell")
    given = joint.on_gpus(job, 4)
    assert {name: (spell.server, spell.gpus) for name, spell in started.items()} == {
        name: (server_id.split(":")[0], indices) for name, (server_id, indices) in given.items()
    }
    by_tags = {(host, tag) for host in SERVERS for tag, count in joint.gpu_tags(host).items() if count == 1}
    assert by_tags == {(s.server, f"gpu_{index}") for s in started.values() for index in s.gpus or ()}
    assert len(by_tags) == 8
    (workers / "stop").touch()
    joint.until(lambda: run.exit_code, lambda code: code is not None, "the stock client has ended", 60)
    assert run.exit_code == 0, run.output


def test_a_gang_that_fits_only_in_part_holds_nothing_and_starts_when_the_rest_is_free(joint: ServedJoint) -> None:
    first = _registered(joint, name="first", tags=["gang:5x2"])
    first.allocate(gpus(5, 2))
    held = first.hold(5)
    second = _registered(joint, name="second", tags=["gang:4x2"])
    second.allocate(gpus(4, 2))
    sentence = joint.await_state(second.app_id, FULL)
    assert "8" in sentence
    assert "6" in sentence
    assert joint.held() == Held(5, 0, 5 * 256, 10, 0)
    assert joint.placed_now(second.app_id) == {}
    first.allocate(release=[held[0]["container"]])
    assert len(second.hold(4)) == 4
    assert joint.held() == Held(8, 0, 8 * 256, 16, 0)


def test_two_gangs_that_could_each_take_half_never_block_each_other(joint: ServedJoint) -> None:
    for _ in range(ROUNDS):
        pair = [_registered(joint, name="pair", tags=["gang:6x2"]) for _ in range(2)]
        for app in pair:
            app.allocate(gpus(6, 2))
        counts = joint.until(
            partial(_containers, joint, pair), lambda counts: counts != [0, 0], "one of two gangs is placed"
        )
        assert counts == [0, 6], "each gang is placed whole or not at all"
        assert joint.held() == Held(6, 0, 6 * 256, 12, 0)
        pair.sort(key=lambda app: len(joint.placed_now(app.app_id)))
        pair[1].hold(6)
        pair[1].finish()
        pair[0].hold(6)
        pair[0].finish()


def test_gpus_of_a_killed_application_are_free_as_soon_as_its_servers_say_so(joint: ServedJoint, workers: Path) -> None:
    """Of containers that run: the resource manager forgets them at once, their servers report the end later."""
    app = _registered(joint, tags=["gang:4x4"])
    app.allocate(gpus(4, 4))
    app.hold(4)
    app.launch(joint.worker(workers, "stop"))
    joint.await_started(workers, 4)
    app.kill()
    joint.await_idle()
    other = _registered(joint, tags=["gang:4x4"])
    other.allocate(gpus(4, 4))
    other.hold(4)


@pytest.mark.parametrize(
    ("tag", "shown"),
    [("gang:4x5", "5"), ("gang:9x2", "18")],
    ids=["more GPUs than any server has", "more GPUs than the cluster has"],
)
def test_a_gang_that_can_never_run_ends_with_the_reason(joint: ServedJoint, tag: str, shown: str) -> None:
    job_id = submitted_to_be_refused(joint.apps, tag)
    ended = joint.until(lambda: joint.app(job_id), lambda app: app["state"] == "KILLED", f"{tag} is refused")
    assert shown in ended["diagnostics"]
    assert "GPU" in ended["diagnostics"]
    seen = joint.until(lambda: joint.client.job(job_id).diagnostics, bool, "the service tells the end")
    assert seen.strip() == ended["diagnostics"].strip()


def test_the_shims_counters_are_readable_at_jmx(joint: ServedJoint) -> None:
    before = joint.counters()
    app = _registered(joint, tags=["gang:3"])
    app.allocate(gpus(3))
    app.hold(3)

    def grown() -> dict[str, int]:
        now = joint.counters()
        return {name: now[name] - before[name] for name in before if isinstance(now[name], int)}

    # All at once, because Hadoop reads one value after the other and may look anew between two of them.
    joint.until(
        grown,
        lambda more: (more["ContainersCommitted"], more["DecisionsCommitted"], more["BytesSent"] > 0) == (3, 1, True),
        "the counters show a gang of 3 more",
    )
    assert grown()["ContainersRolledBack"] == 0
    assert joint.counters()["Connected"] == 1
