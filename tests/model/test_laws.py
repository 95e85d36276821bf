"""Each law of the state says what is wrong, of all that is wrong, and of nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.engine.world import server
from tests.model.world import KEY, MASTER, decide, empty_state, job, put, put_master
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.gang_tag import GangTag
from yarn_gpu_sched.model.job import Job, JobEnd
from yarn_gpu_sched.model.laws import EVIDENCE_MAX, STATE_LAWS, Laws
from yarn_gpu_sched.model.resource import Resource

WORKER = Resource(1_000, 2, 2)


def busy() -> ClusterState:
    """Let two jobs run, one with a master, one decision be under way on two servers, one job wait and one have ended."""
    state = empty_state()
    for name in ("s1", "s2", "s3"):
        state.put_server(server(name))
    for name in ("runs", "other", "waits", "ended"):
        job(state, name, "root.b" if name == "other" else "root.a")
    put(state, "k1", "runs", "s1", WORKER, 0, 1)
    put_master(state, "am", "runs", "s1")
    put(state, "k2", "other", "s2", WORKER, 0, 1)
    decide(state, 7, "other", ("s2", WORKER, (2, 3)), ("s3", WORKER, (2, 3)))
    state.jobs["waits"].gang = GangTag(3)
    state.jobs["ended"].end, state.jobs["ended"].ended_s = JobEnd.SUCCEEDED, 5.0
    return state


def evidence(state: ClusterState) -> list[tuple[int, str]]:
    return [(found.law, found.evidence) for found in STATE_LAWS.broken(state)]


def used(memory_mb: int, vcores: int, gpus: int) -> str:
    return f"Resource(memory_mb={memory_mb}, vcores={vcores}, gpus={gpus})"


def server_counts_more(state: ClusterState) -> None:
    state.servers["s3"].vcores_free -= 1
    state.used_vcores += 1


def free_gpus_are_too_many(state: ClusterState) -> None:
    state.servers["s1"].gpus_free += 1


def cluster_counts_more(state: ClusterState) -> None:
    state.used_mb += 5


def queue_counts_less(state: ClusterState) -> None:
    state.virtual_clusters["root.b"].uses[""].gpus -= 1


def a_member_is_missing(state: ClusterState) -> None:
    decision = state.decisions[7]
    decision.assignments = decision.assignments[:1]


def half_a_gang_lives(state: ClusterState) -> None:
    for name in ("runs", "other"):
        state.jobs[name].gang = GangTag(4)


def an_end_without_a_time(state: ClusterState) -> None:
    state.jobs["ended"].ended_s = None
    state.jobs["waits"].ended_s = 9.0


def the_dead_ask(state: ClusterState) -> None:
    state.jobs["ended"].asks = (Ask(KEY, 1, MASTER),)


def the_cluster_lost_a_container(state: ClusterState) -> None:
    del state.containers["k2"]


def a_recovered_job_is_refused(state: ClusterState) -> None:
    for name, recovered in (("waits", True), ("runs", False)):
        state.jobs[name].job = Job(name, "root.a", recovered=recovered)
        state.jobs[name].refusal = "too large"
    state.jobs["other"].job = Job("other", "root.b", recovered=True)


def a_decision_that_nobody_has(state: ClusterState) -> None:
    state.jobs["other"].decisions.clear()


CORRUPTIONS: list[tuple[Callable[[ClusterState], None], list[tuple[int, str]]]] = [
    (
        server_counts_more,
        [
            (2, f"server s3 counts {used(1_000, 3, 2)} in use, its containers and decisions hold {used(1_000, 2, 2)}"),
            (3, f"the cluster counts {used(4_512, 10, 8)} in use, its VCs hold {used(4_512, 9, 8)}"),
        ],
    ),
    (free_gpus_are_too_many, [(2, "server s1 counts 3 GPUs as free, 2 are")]),
    (
        cluster_counts_more,
        [
            (2, f"the cluster counts {used(4_517, 9, 8)} in use, on its servers {used(4_512, 9, 8)} are"),
            (3, f"the cluster counts {used(4_517, 9, 8)} in use, its VCs hold {used(4_512, 9, 8)}"),
        ],
    ),
    (a_member_is_missing, [(4, "decision 7 places 1 of 2 containers"), (4, "decision 7 names 2 GPUs and holds 4")]),
    (
        half_a_gang_lives,
        [
            (4, "job runs: its gang is not placed, but ['k1'] live"),
            (4, "job other: its gang is not placed, but ['k2'] live"),
        ],
    ),
    (
        an_end_without_a_time,
        [(5, "job waits is pending and its end is at 9.0"), (5, "job ended is ended and its end is at None")],
    ),
    (
        the_dead_ask,
        [(5, f"job ended has ended and still asks {(Ask(KEY, 1, MASTER),)}")],
    ),
    (
        the_cluster_lost_a_container,
        [
            (6, "the servers list containers that the cluster does not, or not once: ['k2']"),
            (6, "the jobs list containers that the cluster does not, or not once: ['k2']"),
        ],
    ),
    (a_recovered_job_is_refused, [(10, "job waits was recovered and is refused: too large")]),
]


def test_a_busy_state_breaks_no_law() -> None:
    assert evidence(busy()) == []


@pytest.mark.parametrize(("corrupt", "expected"), CORRUPTIONS, ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_wrong_is_said_and_nothing_else(
    corrupt: Callable[[ClusterState], None], expected: list[tuple[int, str]]
) -> None:
    state = busy()
    corrupt(state)
    assert evidence(state) == expected


def test_a_queue_that_counts_otherwise_than_its_jobs_is_named() -> None:
    state = busy()
    queue_counts_less(state)
    assert evidence(state) == [
        (3, f"VC root counts {used(4_512, 9, 8)} in use, its jobs and the queues below it hold {used(4_512, 9, 7)}"),
        (3, f"VC root.b counts {used(3_000, 6, 5)} in use, its jobs and the queues below it hold {used(3_000, 6, 6)}"),
        (3, f'VC root counts {used(4_512, 9, 8)} of partition "", held are {used(4_512, 9, 7)}'),
        (3, f'VC root.b counts {used(3_000, 6, 5)} of partition "", held are {used(3_000, 6, 6)}'),
    ]


def test_a_decision_that_no_job_has_is_named() -> None:
    state = busy()
    a_decision_that_nobody_has(state)
    assert (6, "jobs have decisions [] under way, the cluster [7]") in evidence(state)


def test_a_gang_that_is_not_placed_is_found_behind_others_and_not_if_it_has_ended() -> None:
    state = busy()
    state.jobs["other"].gang = GangTag(4)
    assert evidence(state) == [(4, "job other: its gang is not placed, but ['k2'] live")]
    state.jobs["other"].end, state.jobs["other"].ended_s = JobEnd.KILLED, 5.0
    assert evidence(state) == []


def test_each_gpu_that_is_held_twice_is_named_with_its_holders() -> None:
    state = busy()
    put(state, "k9", "runs", "s1", Resource(0, 0, 3), 1, 2, 0)
    found = [text for law, text in evidence(state) if law == 1]
    assert found == [
        "GPU 0 of server s1 is held by ['k1', 'k9']",
        "GPU 1 of server s1 is held by ['k1', 'k9']",
    ]


def test_a_container_that_is_listed_twice_is_named() -> None:
    state = busy()
    state.servers["s3"].containers["k1"] = state.containers["k1"]
    said = [text for law, text in evidence(state) if law == 6]
    assert said == [
        "the servers list containers that the cluster does not, or not once: ['am', 'k1', 'k1', 'k2']",
    ]


def test_all_laws_are_looked_at_each_with_at_most_so_much_evidence() -> None:
    laws: Laws[int] = Laws()

    @laws.law(1, "first")
    def first(subject: int) -> list[str]:
        return [f"a{number}" for number in range(subject)]

    @laws.law(2, "second")
    def second(subject: int) -> list[str]:
        return [f"b{number}" for number in range(subject)]

    assert [*first(1), *second(1)] == ["a0", "b0"]
    for subject, each in ((0, 0), (3, 3), (20, 20), (21, 20), (500, 20)):
        found = laws.broken(subject)
        assert [one.evidence for one in found if one.law == 1] == [f"a{number}" for number in range(each)]
        assert [(one.law, one.title) for one in found] == [(1, "first")] * each + [(2, "second")] * each
    assert EVIDENCE_MAX == 20


def test_a_law_that_never_ends_is_left() -> None:
    laws: Laws[int] = Laws()
    looked: list[int] = []

    @laws.law(1, "endless")
    def endless(subject: int) -> Iterator[str]:
        while True:
            looked.append(subject)
            yield "again"

    assert len(laws.broken(0)) == 20
    assert len(looked) == 21
    assert endless is not None
