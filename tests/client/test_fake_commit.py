import pytest

from yarn_gpu_sched.client.fake.commit import RefusedError, commit, refuse, requeue, stop, warn
from yarn_gpu_sched.client.fake.world import KnownJob, World
from yarn_gpu_sched.protocol.v1 import ask_pb2, container_pb2, decision_pb2, job_pb2, resource_pb2, server_pb2

CODES = decision_pb2.OutcomeCode


def resource(gpus: int, memory_mb: int = 100, vcores: int = 1) -> resource_pb2.Resource:
    return resource_pb2.Resource(memory_mb=memory_mb, vcores=vcores, gpus=gpus)


def server(
    server_id: str, gpus: int = 4, state: server_pb2.ServerState.ValueType = server_pb2.SERVER_STATE_RUNNING
) -> server_pb2.Server:
    return server_pb2.Server(server_id=server_id, capacity=resource(gpus, 1000, 10), state=state)


def put(server_id: str, *gpu_indices: int, priority: int = 0, **wanted: int) -> decision_pb2.Assignment:
    return decision_pb2.Assignment(
        key=ask_pb2.RequestKey(priority=priority),
        server_id=server_id,
        resource=resource(len(gpu_indices), **wanted),
        gpu_indices=gpu_indices,
    )


def gang(*assignments: decision_pb2.Assignment, job_id: str = "j", attempt: int = 1) -> decision_pb2.PlaceGang:
    return decision_pb2.PlaceGang(job_id=job_id, attempt=attempt, assignments=assignments)


@pytest.fixture
def world() -> World:
    made = World()
    made.servers = {"a": server("a"), "b": server("b")}
    made.jobs = {"j": KnownJob(job_pb2.Job(job_id="j", attempt=1))}
    made.set_ask("j", ask_pb2.Ask(key=ask_pb2.RequestKey(), count=3, resource=resource(2)))
    return made


def picture(world: World) -> tuple[object, ...]:
    return (
        sorted(world.containers),
        {key: ask.count for key, ask in world.jobs["j"].asks.items()},
        [sorted(world.held_gpus(name)) for name in world.servers],
    )


def test_a_gang_is_committed_whole_and_its_asks_are_answered(world: World) -> None:
    assert commit(world, gang(put("a", 0, 1), put("b", 2, 3)), "c") == ["c_000001", "c_000002"]
    assert picture(world) == (["c_000001", "c_000002"], {(0, 0): 1}, [[0, 1], [2, 3]])
    commit(world, gang(put("a", 2, 3)), "c")
    assert world.jobs["j"].asks == {}
    assert world.used("a") == resource(4, 200, 2)


@pytest.mark.parametrize(
    ("decision", "code", "says"),
    [
        (gang(put("a", 0, 1), job_id="other"), CODES.OUTCOME_CODE_NO_ATTEMPT, "other"),
        (gang(put("a", 0, 1), attempt=2), CODES.OUTCOME_CODE_NO_ATTEMPT, "attempt 2"),
        (gang(), CODES.OUTCOME_CODE_INVALID, "empty"),
        (gang(put("a", 0, 1), put("a", 2, 3, priority=9)), CODES.OUTCOME_CODE_NO_ASK, "0 asked"),
        (gang(*[put("a", 0, 1)] * 4), CODES.OUTCOME_CODE_NO_ASK, "4 assigned, 3 asked"),
        (gang(put("a", 0, 1), put("b", 0)), CODES.OUTCOME_CODE_NO_ASK, "not the asked one"),
        (gang(put("a", 0, 1), put("gone", 0, 1)), CODES.OUTCOME_CODE_SERVER_GONE, "gone"),
        (gang(put("a", 0, 1), put("a", 1, 2)), CODES.OUTCOME_CODE_NO_FIT, "GPU 1 is held"),
        (gang(put("a", 0, 1), put("b", 3, 64)), CODES.OUTCOME_CODE_NO_FIT, "GPU 64 does not exist"),
        (gang(put("a", 0, 1), put("a", 2, 3), put("a", 0, 1)), CODES.OUTCOME_CODE_NO_FIT, "gpus 6 assigned, 4 free"),
    ],
)
def test_what_cannot_be_committed_whole_changes_nothing(
    world: World, decision: decision_pb2.PlaceGang, code: decision_pb2.OutcomeCode.ValueType, says: str
) -> None:
    before = picture(world)
    with pytest.raises(RefusedError, match=says) as caught:
        commit(world, decision, "c")
    assert caught.value.code == code
    assert picture(world) == before


def test_memory_and_vcores_count_too(world: World) -> None:
    world.set_ask("j", ask_pb2.Ask(key=ask_pb2.RequestKey(priority=1), count=2, resource=resource(0, 600)))
    with pytest.raises(RefusedError, match="memory_mb 1200 assigned, 1000 free"):
        commit(world, gang(*[put("a", priority=1, memory_mb=600)] * 2), "c")


def test_a_server_that_does_not_run_takes_nothing(world: World) -> None:
    world.servers["b"].state = server_pb2.SERVER_STATE_DRAINING
    with pytest.raises(RefusedError, match="takes no containers"):
        commit(world, gang(put("a", 0, 1), put("b", 0, 1)), "c")


def test_what_is_released_can_be_had_again(world: World) -> None:
    commit(world, gang(put("a", 0, 1)), "c")
    changes = world.release("c_000001")
    assert [change.container_released.container_id for change in changes] == ["c_000001"]
    assert not changes[0].container_released.lost
    commit(world, gang(put("a", 0, 1)), "c")


def test_the_end_of_a_job_releases_its_containers_after_saying_so(world: World) -> None:
    commit(world, gang(put("a", 0, 1), put("b", 0, 1)), "c")
    changes = world.end("j", job_pb2.JOB_END_FAILED, "because")
    assert [change.WhichOneof("change") for change in changes] == ["job_ended"] + ["container_released"] * 2
    assert (world.containers, world.jobs) == ({}, {})
    assert world.ended["j"].diagnostics == "because"


def test_a_snapshot_names_nothing_before_it_is_described(world: World) -> None:
    commit(world, gang(put("a", 0, 1)), "c")
    kinds = [change.WhichOneof("change") for change in world.snapshot()]
    assert kinds == ["server", "server", "job", "container", "asks"]


def test_a_lost_server_takes_its_containers_with_it(world: World) -> None:
    commit(world, gang(put("a", 0, 1), put("b", 0, 1)), "c")
    changes = world.remove_server("a")
    assert [change.WhichOneof("change") for change in changes] == ["container_released", "server_removed"]
    assert changes[0].container_released.lost
    assert [container.server_id for container in world.of_job("j")] == ["b"]


@pytest.mark.parametrize(("unmanaged", "attempt", "asked"), [(True, 1, 1), (False, 2, 0)])
def test_a_job_that_starts_anew_ends_with_all_it_runs_and_so_does_its_attempt_unless_its_master_is_unmanaged(
    world: World,
    unmanaged: bool,  # noqa: FBT001 # a column of the table
    attempt: int,
    asked: int,
) -> None:
    world.jobs["j"].job.unmanaged = unmanaged
    commit(world, gang(put("a", 0, 1), put("b", 0, 1)), "c")
    changes = requeue(world, decision_pb2.RequeueJob(job_id="j", attempt=1))
    kinds = [change.WhichOneof("change") for change in changes]
    assert kinds == ["container_released"] * 2 + ["job"] * (not unmanaged)
    assert not any(change.container_released.lost for change in changes)
    assert (world.jobs["j"].job.attempt, sum(ask.count for ask in world.jobs["j"].asks.values())) == (attempt, asked)
    assert (world.containers, world.ended) == ({}, {})


@pytest.mark.parametrize(("job_id", "attempt"), [("j", 2), ("other", 1)])
def test_another_attempt_than_the_current_one_does_not_start_anew(world: World, job_id: str, attempt: int) -> None:
    commit(world, gang(put("a", 0, 1)), "c")
    with pytest.raises(RefusedError, match=f"no current attempt {attempt}") as caught:
        requeue(world, decision_pb2.RequeueJob(job_id=job_id, attempt=attempt))
    assert caught.value.code == CODES.OUTCOME_CODE_NO_ATTEMPT
    assert len(world.containers) == 1


def test_a_warned_job_goes_on_and_its_master_knows_what_will_be_stopped(world: World) -> None:
    first, second = commit(world, gang(put("a", 0, 1), put("b", 0, 1)), "c")
    before = picture(world)
    warn(world, decision_pb2.WarnJob(job_id="j", attempt=1, diagnostics="for another"))
    warn(world, decision_pb2.WarnJob(job_id="j", attempt=1, container_ids=[second, second]))
    assert [list(told.container_ids) for told in world.warnings["j"]] == [[first, second], [second]]
    assert world.warnings["j"][0].diagnostics == "for another"
    assert picture(world) == before


def test_so_many_warnings_of_a_job_are_kept_the_latest_last(world: World) -> None:
    commit(world, gang(put("a", 0, 1)), "c")
    for number in range(150):
        warn(world, decision_pb2.WarnJob(job_id="j", attempt=1, diagnostics=str(number)))
    assert [told.diagnostics for told in world.warnings["j"]] == [str(number) for number in range(50, 150)]


def test_a_job_of_one_attempt_neither_starts_anew_nor_is_told_that_it_will(world: World) -> None:
    first, second = commit(world, gang(put("a", 0, 1), put("b", 0, 1)), "c")
    world.jobs["j"].job.one_attempt = True
    before = picture(world)
    with pytest.raises(RefusedError, match="one attempt only"):
        warn(world, decision_pb2.WarnJob(job_id="j", attempt=1))
    with pytest.raises(RefusedError, match="one attempt only") as caught:
        requeue(world, decision_pb2.RequeueJob(job_id="j", attempt=1))
    assert caught.value.code == CODES.OUTCOME_CODE_INVALID
    assert (picture(world), world.warnings) == (before, {})
    warn(world, decision_pb2.WarnJob(job_id="j", attempt=1, container_ids=[second]))
    stop(world, decision_pb2.StopContainers(job_id="j", attempt=1, container_ids=[second]))
    assert list(world.containers) == [first]


def test_single_containers_that_are_stopped_are_lost_and_the_others_go_on(world: World) -> None:
    first, second = commit(world, gang(put("a", 0, 1), put("b", 0, 1)), "c")
    changes = stop(world, decision_pb2.StopContainers(job_id="j", attempt=1, container_ids=[second, second]))
    assert [change.container_released.container_id for change in changes] == [second]
    assert changes[0].container_released.lost
    assert (list(world.containers), world.jobs["j"].job.attempt) == ([first], 1)


@pytest.mark.parametrize(
    ("job_id", "attempt", "named", "code", "says"),
    [
        ("j", 2, ["worker"], CODES.OUTCOME_CODE_NO_ATTEMPT, "no current attempt 2"),
        ("other", 1, ["worker"], CODES.OUTCOME_CODE_NO_ATTEMPT, "other"),
        ("j", 1, ["worker", "gone"], CODES.OUTCOME_CODE_INVALID, "container gone is no live"),
        ("j", 1, ["worker", "neighbour"], CODES.OUTCOME_CODE_INVALID, "neighbour is no live container of job j"),
        ("j", 1, ["worker", "master"], CODES.OUTCOME_CODE_INVALID, "container master is the master"),
        ("j", 1, [], CODES.OUTCOME_CODE_INVALID, "empty"),
        ("j", 1, list(map(str, range(16_385))), CODES.OUTCOME_CODE_INVALID, "16385 containers, at most 16384"),
    ],
)
def test_an_order_that_does_not_hold_as_a_whole_stops_nothing_and_warns_nobody(
    world: World, job_id: str, attempt: int, named: list[str], code: decision_pb2.OutcomeCode.ValueType, says: str
) -> None:
    for name, of in (("master", "j"), ("worker", "j"), ("neighbour", "k")):
        one = container_pb2.Container(container_id=name, job_id=of, attempt=1, server_id="a")
        one.application_master = name == "master"
        world.hold(one)
    before, ids = picture(world), list(named)
    with pytest.raises(RefusedError, match=says) as caught:
        stop(world, decision_pb2.StopContainers(job_id=job_id, attempt=attempt, container_ids=ids))
    assert caught.value.code == code
    # That the master is told of itself, or of all, is no fault of a warning.
    if says not in ("empty", "container master is the master"):
        with pytest.raises(RefusedError, match=says):
            warn(world, decision_pb2.WarnJob(job_id=job_id, attempt=attempt, container_ids=ids))
    assert (picture(world), world.warnings) == (before, {})


def test_a_job_that_is_refused_is_killed_and_one_that_is_not_known_is_not(world: World) -> None:
    refuse(world, decision_pb2.RefuseJob(job_id="j", diagnostics="too big"))
    assert (world.ended["j"].end, world.ended["j"].diagnostics) == (job_pb2.JOB_END_KILLED, "too big")
    with pytest.raises(RefusedError, match="not known") as caught:
        refuse(world, decision_pb2.RefuseJob(job_id="j"))
    assert caught.value.code == CODES.OUTCOME_CODE_NO_ATTEMPT
