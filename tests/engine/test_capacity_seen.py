"""The largest capacity seen: what is remembered of servers, and what could never run on them."""

from __future__ import annotations

import pytest

from tests.engine.world import server
from yarn_gpu_sched.engine import capacity_seen as module
from yarn_gpu_sched.engine.capacity_seen import CapacitySeen, Make
from yarn_gpu_sched.engine.want import Demand
from yarn_gpu_sched.model.gang_tag import GangTag
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.placement import Kind

BIG = server("big", 8, memory_mb=80_000, vcores=80)
SMALL = server("small", 4, memory_mb=100_000, vcores=40)


def seen(*servers: Server) -> CapacitySeen:
    made = CapacitySeen()
    for one in servers:
        made.add(one)
    return made


def asks(*kinds: Kind, partition: str = "") -> Demand:
    return Demand(partition, kinds, application_master=False)


def one(gpus: int, memory_mb: int = 1, vcores: int = 1, containers: int = 1) -> Kind:
    return Kind(containers, gpus, memory_mb, vcores)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (asks(one(8)), ""),
        (asks(one(9)), "asks 9 GPUs a container, the largest server has 8"),
        (asks(one(0, 100_000)), ""),
        (asks(one(0, 100_001)), "asks 100001 MB of memory a container, the largest server has 100000"),
        (asks(one(0, 1, 80)), ""),
        (asks(one(0, 1, 81)), "asks 81 vcores a container, the largest server has 80"),
        (
            asks(one(8, 90_000, 0)),
            "asks containers of 8 GPUs and 90000 MB of memory, and no server has all of that",
        ),
        (
            asks(one(5, 1, 1), one(0, 90_000, 60)),
            "asks containers of 90000 MB of memory and 60 vcores, and no server has all of that",
        ),
        (asks(one(4, containers=3)), ""),
        (asks(one(4, containers=2), one(2, containers=2)), ""),
        (asks(one(4, containers=2), one(2, containers=3)), "asks 14 GPUs at once, all servers together have 12"),
        (asks(one(1, containers=13)), "asks 13 GPUs at once, all servers together have 12"),
        (asks(one(3, containers=3)), ""),
        (
            asks(one(3, containers=4)),
            "asks 4 containers of 3 GPUs and 1 MB of memory and 1 vcores at once, all servers together hold 3",
        ),
        (
            asks(one(0, 90_000, containers=2)),
            "asks 2 containers of 90000 MB of memory and 1 vcores at once, all servers together hold 1",
        ),
        (asks(one(1), partition="p"), 'asks partition "p", which has no servers'),
        (GangTag(3, 4), ""),
        (GangTag(4, 4), "asks 16 GPUs at once, all servers together have 12"),
        (GangTag(4, 3), "asks 4 containers of 3 GPUs at once, all servers together hold 3"),
        (GangTag(1, 9), "asks 9 GPUs a container, the largest server has 8"),
        (GangTag(99, 4, 98), ""),
        (GangTag(9_999), ""),
    ],
)
def test_what_can_never_run_is_said_with_its_numbers(asked: Demand | GangTag, sentence: str) -> None:
    capacity = seen(BIG, SMALL)
    assert capacity.never_fits(asked) == sentence
    assert capacity.never_fits(asked) == sentence, "and the same from memory"


def test_a_cluster_without_servers_holds_nothing() -> None:
    sentence = "asks containers, and the cluster has no servers"
    assert seen().never_fits(asks(one(0))) == sentence
    assert seen().never_fits(asks(one(0), partition="p")) == sentence
    assert seen().never_fits(GangTag(1, 1)) == sentence
    assert seen().never_fits(GangTag(1)) == ""


def test_the_default_partition_is_named_so() -> None:
    elsewhere = server("s", partition="p")
    assert seen(elsewhere).never_fits(asks(one(0))) == "asks the default partition, which has no servers"
    assert seen(elsewhere).never_fits(asks(one(0), partition="p")) == ""


def test_a_tag_may_be_held_by_any_partition_else_the_first_says_why() -> None:
    capacity = seen(server("a", 2, partition="b"), server("b", 4, partition="a"))
    assert capacity.never_fits(GangTag(1, 4)) == ""
    assert capacity.never_fits(GangTag(1, 5)) == "asks 5 GPUs a container, the largest server has 4"


def test_the_most_that_were_there_at_once_count() -> None:
    capacity = seen(BIG, server("big2", 8, memory_mb=80_000, vcores=80))
    capacity.remove(BIG)
    capacity.remove(BIG)
    assert capacity.never_fits(asks(one(8, containers=2))) == ""
    for _ in range(2):
        capacity.add(BIG)
    assert capacity.never_fits(asks(one(8, containers=3))) != "", "never three at once"
    capacity.add(BIG)
    assert capacity.never_fits(asks(one(8, containers=3))) == "", "and what was answered before is forgotten"


def test_what_is_there_now_may_be_forgotten_and_all_of_it() -> None:
    capacity = seen(BIG)
    capacity.forget_present()
    capacity.add(BIG)
    assert capacity.never_fits(asks(one(8, containers=2))) != "", "it is the same one that came again"
    assert capacity.has_gpus() is True
    capacity.forget_all()
    assert capacity.has_gpus() is False
    assert capacity.never_fits(asks(one(8))) == "asks containers, and the cluster has no servers"
    capacity.add(server("cpu", 0))
    assert capacity.has_gpus() is False
    assert capacity.now == {"": {(0, 65_536, 64): 1}}


def test_a_server_that_comes_again_unchanged_keeps_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers come and go by the thousand; each answer looks at every make of them."""
    looked: list[int] = []

    def look(_kinds: tuple[Kind, ...], makes: dict[Make, int]) -> str:
        looked.append(len(makes))
        return "no"

    monkeypatch.setattr(module, "_too_large", look)
    capacity = seen(BIG)
    for _ in range(3):
        assert capacity.never_fits(asks(one(1))) == "no"
        capacity.remove(BIG)
        capacity.add(BIG)
    assert looked == [1]
    capacity.add(SMALL)
    capacity.never_fits(asks(one(1)))
    assert looked == [1, 2]


def test_answers_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWERS_MAX", 3)
    capacity = seen(BIG)
    known = []
    for gpus in (1, 2, 3, 4, 4, 5):
        capacity.never_fits(asks(one(gpus)))
        known.append(len(capacity._answers))
    assert known == [1, 2, 3, 1, 1, 2]
