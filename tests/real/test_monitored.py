"""Containers see the cards that the service decided on, and no others, whatever is killed and whichever card is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.real import shown
from tests.real.apps import App, gpus, plain
from tests.real.changes import Changes, changing, registered_again
from tests.real.joint import ServedJoint
from tests.real.monitored import (
    GPUS,
    HOSTS,
    await_shown,
    cards,
    counted_by_yarn,
    discovered,
    gpu,
    happens,
    health,
    nothing_happens,
    show,
    showing,
    what_was_decided,
)
from tests.real.shown import Shown

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.timeout(300)]
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
VANISHED = {"what": "vanish", "gpu": 1}


@pytest.fixture
def folder(monitored: ServedJoint, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Return where a test's containers show what they see; they end with the test."""
    folder = monitored.folder / "shown" / str(request.node.name)
    folder.mkdir(parents=True)
    yield folder
    (folder / "stop").touch()


@pytest.fixture
def changes(monitored: ServedJoint) -> Iterator[Changes]:
    """Let a test change the cluster; it is as it was afterwards."""
    with changing(monitored) as them:
        yield them
        nothing_happens(monitored)  # before servers are started again


def test_containers_of_concurrent_jobs_see_what_was_decided_and_the_plugin_counts_it(
    monitored: ServedJoint, folder: Path
) -> None:
    known = cards(monitored)
    for host in HOSTS:
        assert discovered(monitored, host) == [known[host, slot] for slot in range(GPUS)]
        assert counted_by_yarn(monitored, host) == GPUS
    without = monitored.apps.submit().register()
    without.allocate(plain(3))
    shapes = [(2, 5), (1, 3), (3, 1)]
    jobs = [(showing(monitored, folder, count, each), count) for count, each in shapes]
    without.hold(3)
    show(without, folder)
    seen = await_shown(monitored, folder, 9)
    decided: dict[str, tuple[str, ...]] = {}
    for app, count in jobs:
        mine = what_was_decided(monitored, app, count)
        decided |= mine
        assert_gang(app, {name: seen[name] for name in mine})
    assert {name: one.uuids for name, one in seen.items() if name in decided} == decided
    given = [uuid for uuids in decided.values() for uuid in uuids]
    assert sorted(given) == sorted(known.values()), "each card once, and all of them"
    others = [one.values for name, one in seen.items() if name not in decided]
    assert [NO_GPU.items() <= values.items() for values in others] == [True] * 3, others


def assert_gang(app: App, seen: Mapping[str, Shown]) -> None:
    """Check that a gang's containers are told of each other what is true."""
    ranks = {int(one.values["YGS_RANK"]): one for one in seen.values()}
    assert sorted(ranks) == list(range(len(seen)))
    hosts = [ranks[rank].values["NM_HOST"] for rank in sorted(ranks)]
    for one in seen.values():
        assert one.values["YGS_JOB_ID"] == app.app_id
        assert one.values["YGS_WORLD_SIZE"] == str(len(seen))
        assert one.values["YGS_HOSTS"].split(",") == hosts
        assert one.values["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        assert one.values["NVIDIA_VISIBLE_DEVICES"] == one.values["CUDA_VISIBLE_DEVICES"]
    domains = {(one.values["NM_HOST"], one.values["YGS_DOMAIN"]) for one in seen.values()}
    assert len(domains) == len(set(hosts)), "a server is in one domain"
    assert hosts == sorted(hosts), "containers of a server are next to each other"


def test_kill_9_of_service_resource_manager_and_monitor_changes_nothing_for_who_runs(
    monitored: ServedJoint, folder: Path, changes: Changes
) -> None:
    jobs = [(showing(monitored, folder, 2, 5), 2)]
    first = await_shown(monitored, folder, 2)
    before = monitored.on_gpus(jobs[0][0].app_id, 2)

    changes.restart("service")
    monitored.await_connected()
    jobs.append((showing(monitored, folder, 1, 2), 1))
    await_shown(monitored, folder, 3)

    changes.restart("rm")
    for app, _ in jobs:
        registered_again(monitored, app)
    monitored.cluster.await_servers(wait_s=90)
    monitored.await_connected(90)
    jobs.append((showing(monitored, folder, 2, 1), 2))
    await_shown(monitored, folder, 5)

    changes.stop(*(f"{host}-monitor" for host in HOSTS))
    last = monitored.apps.submit(tags=["gang:2x1"]).register()
    jobs.append((last, 2))
    last.allocate(gpus(2, 1))
    last.hold(2)  # so soon nobody is silent
    show(last, folder)
    changes.start(*(f"{host}-monitor" for host in HOSTS))
    seen = await_shown(monitored, folder, 7)

    decided: dict[str, tuple[str, ...]] = {}
    for app, count in jobs:
        mine = what_was_decided(monitored, app, count)
        decided |= mine
        assert_gang(app, {name: seen[name] for name in mine})
    assert {name: one.uuids for name, one in seen.items()} == decided
    assert all(one.lives for one in seen.values())
    assert {name: seen[name] for name in first} == first
    assert monitored.on_gpus_now(jobs[0][0].app_id) == before
    assert len({uuid for uuids in decided.values() for uuid in uuids}) == 2 * 5 + 2 + 2 + 2


def test_a_card_that_is_lost_moves_nobody_and_is_given_to_nobody(
    monitored: ServedJoint, folder: Path, changes: Changes
) -> None:
    known = cards(monitored)
    runs = showing(monitored, folder, 1, 4, "locality:1")
    before = monitored.on_gpus(runs.app_id, 1)
    ((server, slots),) = before.values()
    host = server.partition(":")[0]
    lost = known[host, 1]
    await_shown(monitored, folder, 1)
    happens(monitored, host, VANISHED)
    out = monitored.until(lambda: gpu(monitored, host, 1), lambda one: one.needs_ack, "the card is quarantined")
    assert list(out.faults) == ["vanished"]
    now = health(monitored, host)
    assert (now.gpus_counted, now.gpus_healthy, counted_by_yarn(monitored, host)) == (GPUS, GPUS - 1, GPUS)

    elsewhere = showing(monitored, folder, 1, GPUS)
    free = GPUS - len({1, *slots})
    here = showing(monitored, folder, free, 1)
    check_after_loss(monitored, folder, {runs: 1, elsewhere: 1, here: free}, known, lost)
    assert monitored.on_gpus_now(runs.app_id) == before

    # The NodeManager discovers what is there when it starts: YARN counts one fewer, and the slots stay.
    changes.odd.add(host)
    changes.restart_servers(host)
    monitored.until(lambda: counted_by_yarn(monitored, host), lambda count: count == GPUS - 1, "YARN counts one fewer")
    assert discovered(monitored, host) == [known[host, slot] for slot in range(GPUS) if slot != 1]
    monitored.until(
        lambda: health(monitored, host).gpus_counted, lambda count: count == GPUS - 1, "so does the service"
    )
    here.kill()
    free = GPUS - 1 - len(slots)
    here = showing(monitored, folder, free, 1)
    check_after_loss(monitored, folder, {runs: 1, elsewhere: 1, here: free}, known, lost)
    assert monitored.on_gpus_now(runs.app_id) == before


def check_after_loss(
    joint: ServedJoint, folder: Path, jobs: Mapping[App, int], known: Mapping[tuple[str, int], str], lost: str
) -> None:
    """Check that jobs see what was decided, that cards are in their slots, and the lost one is only with who had it before."""
    decided = [what_was_decided(joint, app, count) for app, count in jobs.items()]
    mine = {name: uuids for each in decided for name, uuids in each.items()}
    joint.until(lambda: shown.read(folder), lambda seen: mine.keys() <= seen.keys(), "they show their GPUs")
    seen = shown.read(folder)
    assert {name: seen[name].uuids for name in mine} == mine
    assert all(seen[name].lives for name in mine)
    assert {place: uuid for place, uuid in cards(joint).items() if uuid != lost} == {
        place: uuid for place, uuid in known.items() if uuid != lost
    }
    assert not any(lost in uuids for each in decided[1:] for uuids in each.values())
    given = [uuid for uuids in mine.values() for uuid in uuids]
    assert len(given) == len(set(given))
