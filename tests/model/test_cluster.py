"""Decisions that end well, badly or late, servers that vanish beneath them, and queues that nobody speaks of any more."""

from __future__ import annotations

import msgspec
import pytest

from tests.engine.world import server
from tests.model.world import KEY, MASTER, decide, empty_state, job, put, put_master
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.laws import STATE_LAWS
from yarn_gpu_sched.model.resource import NOTHING, Resource
from yarn_gpu_sched.model.server import ServerState
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster

WORKER = Resource(1_000, 2, 2)


@pytest.fixture
def state() -> ClusterState:
    state = empty_state()
    for name in ("s1", "s2"):
        state.put_server(server(name))
    job(state, "j")
    return state


def test_a_committed_decision_becomes_its_containers(state: ClusterState) -> None:
    decision = decide(state, 7, "j", ("s1", WORKER, (0, 1)), ("s2", WORKER, (2, 3)))
    assert state.jobs["j"].in_flight == {(KEY, WORKER, False): 2}
    live = state.end(decision, ("k1", "k2"))
    assert live == [
        Container("k1", "j", 1, "s1", WORKER, (0, 1), key=KEY),
        Container("k2", "j", 1, "s2", WORKER, (2, 3), key=KEY),
    ]
    assert state.jobs["j"].in_flight == {}
    assert (state.decisions, state.jobs["j"].decisions) == ({}, set())
    assert state.servers["s1"].containers == {"k1": live[0]}
    assert (state.used, state.servers["s2"].free_mask) == (WORKER.times(2), 0b0011)


def test_a_refused_decision_gives_everything_back(state: ClusterState) -> None:
    decision = decide(state, 7, "j", ("s1", WORKER, (0, 1)), ("s2", WORKER, (2, 3)))
    assert state.used == WORKER.times(2)
    assert state.end(decision, ()) == []
    assert (state.used, state.jobs["j"].in_flight, state.jobs["j"].used) == (NOTHING, {}, NOTHING)
    assert [use.free_mask for use in state.servers.values()] == [0b1111, 0b1111]
    assert [use.in_flight for use in state.servers.values()] == [{}, {}]


def test_a_committed_master_is_one(state: ClusterState) -> None:
    decision = decide(state, 7, "j", ("s1", MASTER, ()), master=True)
    assert (state.masters.containers, state.masters.memory_mb, state.masters.vcores) == (1, 512, 1)
    (live,) = state.end(decision, ("am",))
    assert live.application_master is True
    assert state.masters.containers == 1
    state.remove_container("am")
    assert (state.masters.containers, state.masters.memory_mb, state.masters.vcores) == (0, 0, 0)


def test_each_container_of_a_decision_needs_its_id(state: ClusterState) -> None:
    decision = decide(state, 7, "j", ("s1", WORKER, (0, 1)), ("s2", WORKER, (2, 3)))
    with pytest.raises(ValueError, match="longer"):
        state.end(decision, ("k1",))


def test_what_was_to_go_on_a_server_that_vanished_is_not_held(state: ClusterState) -> None:
    decision = decide(state, 7, "j", ("s1", WORKER, (0, 1)), ("s2", Resource(10, 1, 1), (3,)))
    assert decision.held == Resource(1_010, 3, 3)
    assert state.remove_server("s1") == []
    assert (decision.lost, decision.held, state.used) == ({"s1"}, Resource(10, 1, 1), Resource(10, 1, 1))
    live = state.end(decision, ("k1", "k2"))
    assert [one.container_id for one in live] == ["k2"]
    assert list(state.containers) == ["k2"]
    assert state.used == Resource(10, 1, 1)


def test_a_server_that_is_back_holds_nothing_for_the_decision_that_lost_it(state: ClusterState) -> None:
    decision = decide(state, 7, "j", ("s1", WORKER, (0, 1)))
    state.remove_server("s1")
    state.put_server(server("s1"))
    assert state.end(decision, ()) == []
    assert (state.servers["s1"].free_mask, state.used) == (0b1111, NOTHING)
    assert STATE_LAWS.broken(state) == []


def test_a_late_outcome_of_an_older_attempt_leaves_the_new_ones_asks_alone(state: ClusterState) -> None:
    old = decide(state, 1, "j", ("s1", WORKER, (0, 1)))
    record = state.jobs["j"]
    record.job, record.in_flight = Job("j", "root.a", attempt=2), {}
    decide(state, 2, "j", ("s2", WORKER, (0, 1)), attempt=2)
    assert record.in_flight == {(KEY, WORKER, False): 1}
    state.end(old, ())
    assert record.in_flight == {(KEY, WORKER, False): 1}
    assert record.decisions == {2}


def test_of_two_decisions_for_one_ask_the_other_stays_under_way(state: ClusterState) -> None:
    first = decide(state, 1, "j", ("s1", WORKER, (0, 1)), ("s1", WORKER, (2, 3)))
    decide(state, 2, "j", ("s2", WORKER, (0, 1)))
    assert state.jobs["j"].in_flight == {(KEY, WORKER, False): 3}
    state.end(first, ())
    assert state.jobs["j"].in_flight == {(KEY, WORKER, False): 1}


def test_decisions_are_voided_in_the_order_of_their_ids(state: ClusterState) -> None:
    for decision_id in (5, 3, 9):
        decide(state, decision_id, "j", ("s1", Resource(10, 1), ()))
    assert [one.decision_id for one in state.void_decisions()] == [3, 5, 9]
    assert (state.decisions, state.used, state.jobs["j"].decisions) == ({}, NOTHING, set())


def test_the_containers_of_a_removed_server_go_in_the_order_of_their_ids(state: ClusterState) -> None:
    for name in ("k3", "k1", "k2"):
        put(state, name, "j", "s1", Resource(10, 1))
    put(state, "k0", "j", "s2", Resource(10, 1))
    assert [one.container_id for one in state.remove_server("s1")] == ["k1", "k2", "k3"]
    assert (list(state.containers), list(state.servers)) == (["k0"], ["s2"])


def test_what_is_said_of_a_container_is_said_everywhere(state: ClusterState) -> None:
    put(state, "k1", "j", "s1", WORKER, 0, 1)
    ending = Container("k1", "j", 1, "s1", WORKER, (0, 1), key=KEY, ending=True)
    state.replace_container(ending)
    assert state.containers["k1"] is ending
    assert state.servers["s1"].containers["k1"] is ending
    assert state.jobs["j"].containers["k1"] is ending
    assert state.used == WORKER
    assert state.remove_container("k1") is ending
    assert state.used == NOTHING


def test_masters_count_where_they_take_from_gpus() -> None:
    state = empty_state()
    state.put_server(server("gpu", 4, memory_mb=1_000, vcores=10))
    state.put_server(server("cpu", 0, memory_mb=5_000, vcores=50))
    state.put_server(server("ill", 4, memory_mb=7_000, vcores=70, state=ServerState.UNHEALTHY))
    job(state, "j")
    for place in ("gpu", "cpu", "ill"):
        put_master(state, f"am-{place}", "j", place)
    assert (state.masters.containers, state.masters.memory_mb, state.masters.vcores) == (2, 1_024, 2)
    assert (state.gpu_servers_mb, state.gpu_servers_vcores) == (1_000, 10)


def test_masters_follow_a_server_that_loses_or_gains_its_gpus(state: ClusterState) -> None:
    put_master(state, "am", "j", "s1")
    put(state, "k1", "j", "s1", Resource(10, 1))
    decide(state, 7, "j", ("s1", MASTER, ()), master=True)
    decide(state, 8, "j", ("s1", Resource(10, 1), ()))
    state.put_server(server("s1", 0))
    assert (state.masters.containers, state.masters.memory_mb, state.masters.vcores) == (0, 0, 0)
    state.put_server(server("s1", 4))
    assert (state.masters.containers, state.masters.memory_mb, state.masters.vcores) == (2, 1_024, 2)


def test_a_queue_is_forgotten_when_neither_configuration_nor_job_speaks_of_it() -> None:
    state = empty_state()
    configured = state.virtual_cluster("root.kept")
    configured.virtual_cluster = VirtualCluster("root.kept")
    job(state, "j1", "root.kept")
    job(state, "j2", "root.gone")
    assert {path: record.jobs for path, record in state.virtual_clusters.items()} == {
        "root": 0,
        "root.kept": 1,
        "root.gone": 1,
    }
    state.drop_job("j1")
    state.drop_job("j2")
    assert list(state.virtual_clusters) == ["root", "root.kept"]
    assert (configured.jobs, list(state.jobs)) == (0, [])


def test_a_job_that_moves_takes_its_use_along(state: ClusterState) -> None:
    put(state, "k1", "j", "s1", WORKER, 0, 1)
    job(state, "other", "root.b")
    state.move_job(state.jobs["j"], msgspec.structs.replace(state.jobs["j"].job, vc="root.b"))
    assert list(state.virtual_clusters) == ["root", "root.b"]
    assert state.virtual_clusters["root"].used == WORKER
    assert (state.virtual_clusters["root.b"].jobs, state.virtual_clusters["root.b"].used) == (2, WORKER)


def test_a_changed_server_keeps_what_is_in_use_there(state: ClusterState) -> None:
    put(state, "k1", "j", "s1", WORKER, 0, 1)
    state.put_server(server("s1", 8, memory_mb=2_000, vcores=20))
    use = state.servers["s1"]
    assert (use.gpus_free, use.memory_free_mb, use.vcores_free) == (6, 1_000, 18)
    assert state.capacity == Resource(67_536, 84, 12)
    assert state.used == WORKER
