"""The load generator against a real ResourceManager with stock placement: what it reports is what the RM says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks import generator
from benchmarks.arena import TIMED_STOCK, Arena, arena
from benchmarks.real_allocate import BEAN, split, timed_classes

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    folder = tmp_path_factory.mktemp("load")
    with arena(folder / "arena", TIMED_STOCK, classes=(timed_classes(folder),)) as started:
        yield started


def metrics(stock: Arena) -> dict[str, Any]:
    found: dict[str, Any] = stock.cluster.rm_rest("/ws/v1/cluster/metrics")["clusterMetrics"]
    return found


def wait_until_nothing_is_allocated(stock: Arena) -> None:
    deadline_s = time.monotonic() + 60
    while metrics(stock)["containersAllocated"]:
        assert time.monotonic() < deadline_s, metrics(stock)
        time.sleep(0.1)


def test_watch_sees_that_stock_placement_hands_out_gangs_in_parts(stock: Arena) -> None:
    """The proof that a gang is seen whole or not at all is worth something only if it can fail."""
    done = generator.run(stock.conf, "watch", servers=20, beat_ms=200, gangs=20, gang=8)
    assert done.exit_code == generator.BROKEN, done.complaints
    assert done.event("watch")["partial_views"] > 0
    seen = done.event("ask_to_seen")
    assert seen["count"] == 20
    assert 0 < seen["p50_ms"] <= seen["p99_ms"] <= seen["p999_ms"] <= seen["max_ms"]
    wait_until_nothing_is_allocated(stock)


def test_a_single_container_is_always_seen_whole(stock: Arena) -> None:
    done = generator.run(stock.conf, "watch", servers=4, beat_ms=100, gangs=5, gang=1)
    assert done.exit_code == generator.HELD, done.complaints
    assert done.event("watch")["partial_views"] == 0


def test_held_containers_run_until_the_end_and_are_then_released(stock: Arena) -> None:
    with generator.Held(
        stock.conf, "hold", servers=20, server_gpus=8, beat_ms=200, runs_ms=3_600_000, containers=100, applications=5
    ) as held:
        assert held.wait("holding")["containers"] == 100
        assert metrics(stock)["containersAllocated"] == 100
        used = stock.cluster.rm_rest("/ws/v1/cluster/nodes")["nodes"]["node"]
        assert sum(node["numContainers"] for node in used) == 100
        assert (
            sum(node["usedResource"]["resourceInformations"]["resourceInformation"][2]["value"] for node in used) == 100
        )
        deadline_s = time.monotonic() + 30
        while running_containers(stock) != 100:
            assert time.monotonic() < deadline_s, running_containers(stock)
            time.sleep(0.1)
    wait_until_nothing_is_allocated(stock)


def running_containers(stock: Arena) -> int:
    """Containers of which the servers have reported that they were launched."""
    apps = stock.cluster.rm_rest("/ws/v1/cluster/apps?states=RUNNING")["apps"]["app"]
    return sum(app["runningContainers"] for app in apps)


def test_streams_count_what_the_resource_manager_committed(stock: Arena) -> None:
    options = {"servers": 20, "server_gpus": 8, "beat_ms": 200, "window_s": 3, "warm_up": 1}
    singles = generator.run(stock.conf, "singles", applications=2, outstanding=20, **options)
    assert singles.exit_code == generator.HELD, singles.complaints
    stream = singles.event("single_stream")
    assert stream["committed"] > 0
    assert stream["seconds"] >= 3
    assert stream["containers_per_s"] == pytest.approx(stream["committed"] / stream["seconds"], rel=0.01)
    # The masters have pulled no more than was committed, and of that all but what was still under way at the end.
    assert stream["pulled"] >= stream["committed"] / 2

    gangs = generator.run(stock.conf, "gangs", applications=400, under_way=10, **options)
    assert gangs.event("gang_stream")["gangs_pulled"] > 0
    assert gangs.event("servers")["errors"] == 0


def test_a_stream_that_runs_out_of_applications_is_no_measurement(stock: Arena) -> None:
    done = generator.run(stock.conf, "gangs", servers=20, beat_ms=100, applications=3, gang=2, warm_up=0, window_s=600)
    assert done.exit_code == generator.BROKEN
    assert done.event("gang_stream")["ran_out"] is True


def test_masters_beat_in_their_turn_only_and_each_beat_is_timed(stock: Arena) -> None:
    options = {"servers": 20, "server_gpus": 8, "beat_ms": 100, "applications": 4, "gangs": 3, "gang": 2, "gap_ms": 1}
    with generator.Held(stock.conf, "turns", **options) as held:
        held.wait("ready")
        before, beats, deadline_s = stock.bean(BEAN)["Calls"], 0, time.monotonic() + 120
        while beats < 32:
            assert time.monotonic() < deadline_s
            held.tell("100 0")
            turn = held.wait("turn")
            assert (turn["gangs"], turn["gangs_left"]) == (0, 3)
            beats += turn["beats"]
        looks, asks = split(stock.bean(BEAN)["TookNs"][before:])
        assert len(asks) == sum(number // 4 % 4 == 0 for number in range(beats)), "every fourth beat of each master"
        assert len(looks) + len(asks) == beats == stock.bean(BEAN)["Calls"] - before, "nobody beats between turns"
        assert 0 < looks[0] <= looks[-1] < 10_000_000
        while turn["gangs_left"]:
            assert time.monotonic() < deadline_s
            held.tell("200 1")
            turn = held.wait("turn")
    assert metrics(stock)["containersReserved"] == 0


@pytest.mark.parametrize(
    ("scenario", "options", "complaint"),
    [
        ("dance", {}, "one of gangs, hold, singles, turns, watch"),
        ("watch", {"gangs": "many"}, "--gangs many: a whole number from 1"),
        ("watch", {"gang": 0}, "--gang 0: a whole number from 1"),
        ("watch", {"colour": "red"}, "--colour is not known here"),
    ],
)
def test_wrong_options_are_named(stock: Arena, scenario: str, options: dict[str, Any], complaint: str) -> None:
    done = generator.run(stock.conf, scenario, **options)
    assert done.exit_code == generator.USAGE
    assert complaint in done.complaints
    assert done.events == ()
