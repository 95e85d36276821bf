"""The client library and the in-memory resource manager against the product's own service."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.client.real_service import real_service
from tests.client.scripted import await_condition
from yarn_gpu_sched.client import (
    Client,
    FakeResourceManager,
    InvalidRequestError,
    NotFoundError,
    RejectedError,
    ResourceManagerLink,
)
from yarn_gpu_sched.protocol.v1 import decision_pb2, job_pb2, link_pb2, reason_pb2, server_pb2

WAIT_S = 60.0


@pytest.fixture
def target(tmp_path: Path) -> Iterator[str]:
    with real_service(tmp_path) as address:
        yield address


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[str]:
    """Run a service that holds nothing for a lost member, and has its job start anew after a second."""
    with real_service(tmp_path, "--repair-hold-s", "0", "--requeue-after-s", "1") as address:
        yield address


@pytest.fixture
def client(target: str) -> Iterator[Client]:
    with Client(target, timeout_s=WAIT_S) as made:
        yield made


@pytest.fixture
def rm(target: str) -> Iterator[FakeResourceManager]:
    with FakeResourceManager(target) as made:
        made.add_server("gpu-a1")
        made.add_server("gpu-a2")
        yield made


def await_containers(rm: FakeResourceManager, job_id: str, count: int) -> None:
    """Wait until the resource manager has so many; the service hears of them afterwards."""
    rm.wait(lambda: len(rm.containers(job_id)) == count, timeout_s=WAIT_S)


def await_told(client: Client, job_id: str, holds: Callable[[job_pb2.JobView], bool]) -> job_pb2.JobView:
    """Wait until the service says so of a job."""
    for view in client.watch(job_id, for_s=WAIT_S):
        if holds(view):
            return view
    raise AssertionError(f"the service never said so of {job_id}")


def await_view(client: Client, job_id: str, state: job_pb2.JobState.ValueType) -> job_pb2.JobView:
    return await_told(client, job_id, lambda view: view.state == state)


def await_placed(client: Client, job_id: str, count: int) -> job_pb2.JobView:
    return await_told(client, job_id, lambda view: len(view.containers) == count)


def gang(rm: FakeResourceManager, job_id: str, count: int, gpus: int) -> None:
    rm.submit(job_id, tags=[f"gang:{count}x{gpus}"])
    rm.ask(job_id, count, gpus=gpus)


def test_a_gang_is_placed_whole_and_shown_as_committed(rm: FakeResourceManager, client: Client) -> None:
    gang(rm, "job-1", 4, 2)
    await_containers(rm, "job-1", 4)
    view = await_view(client, "job-1", job_pb2.JOB_STATE_RUNNING)
    told = {(c.container_id, c.server_id, tuple(c.gpu_indices)) for c in client.job("job-1").containers}
    assert told == {(c.container_id, c.server_id, tuple(c.gpu_indices)) for c in rm.containers("job-1")}
    assert view.gang_containers == 4
    assert [len([gpu for gpu in each.gpus if gpu.job_id == "job-1"]) for each in client.servers()] == [4, 4]


def test_it_is_told_why_its_jobs_wait(rm: FakeResourceManager) -> None:
    gang(rm, "first", 3, 2)
    await_containers(rm, "first", 3)
    gang(rm, "second", 2, 2)
    sentence = "waits as cluster_full: asks 4 GPUs at once, 2 x 2; 2 GPUs are free"
    rm.wait(lambda: rm.explanation("second").startswith(sentence), timeout_s=WAIT_S)
    rm.wait(lambda: rm.explanation("first") == "", timeout_s=WAIT_S)
    assert rm.explanation("nobody") == ""
    rm.new_attempt("second")
    assert "cluster_full" not in rm.explanation("second"), "what was said of the attempt before is void"


def test_a_gang_that_fits_only_in_part_holds_nothing_until_the_rest_is_free(
    rm: FakeResourceManager, client: Client
) -> None:
    gang(rm, "first", 3, 2)
    await_containers(rm, "first", 3)
    gang(rm, "second", 2, 2)
    full = reason_pb2.WAITING_REASON_CODE_CLUSTER_FULL
    await_told(client, "second", lambda view: view.waiting.code == full)
    why = client.why("second").waiting
    assert (why.gpus_asked, why.containers_asked, why.gpus_free, why.servers_free) == (4, 2, 2, 1)
    assert rm.containers("second") == []
    rm.end("first")
    await_containers(rm, "second", 2)


def test_a_scripted_refusal_is_tried_again_and_commits_nothing(rm: FakeResourceManager) -> None:
    rm.refuse_next(decision_pb2.OUTCOME_CODE_NO_FIT, times=2)
    gang(rm, "job-1", 2, 4)
    await_containers(rm, "job-1", 2)
    codes = [outcome.code for _, outcome in rm.decisions]
    assert codes == [decision_pb2.OUTCOME_CODE_NO_FIT] * 2 + [decision_pb2.OUTCOME_CODE_COMMITTED]


def test_a_job_that_can_never_run_is_ended_with_the_reason(rm: FakeResourceManager, client: Client) -> None:
    gang(rm, "too-big", 1, 5)
    rm.wait(lambda: rm.ended("too-big") is not None, timeout_s=WAIT_S)
    ended = rm.ended("too-big")
    assert ended is not None
    assert ended.end == job_pb2.JOB_END_KILLED
    assert "5 GPUs" in ended.diagnostics
    assert await_view(client, "too-big", job_pb2.JOB_STATE_ENDED).diagnostics == ended.diagnostics


def test_a_lost_link_is_registered_again_and_the_state_is_right_from_the_snapshot(
    rm: FakeResourceManager, client: Client
) -> None:
    gang(rm, "job-1", 2, 2)
    await_containers(rm, "job-1", 2)
    before = {(c.container_id, tuple(c.gpu_indices)) for c in rm.containers("job-1")}
    rm.drop_link()
    gang(rm, "job-2", 1, 4)
    await_containers(rm, "job-2", 1)
    assert len(await_placed(client, "job-2", 1).containers) == 1
    assert {(c.container_id, tuple(c.gpu_indices)) for c in client.job("job-1").containers} == before


def test_a_restart_is_the_next_epoch_with_what_ran(rm: FakeResourceManager, client: Client) -> None:
    gang(rm, "job-1", 2, 2)
    await_containers(rm, "job-1", 2)
    rm.restart()
    gang(rm, "job-2", 1, 4)
    await_placed(client, "job-2", 1)
    assert client.cluster().epoch == 2
    assert client.job("job-1").job.recovered
    assert len(client.job("job-1").containers) == 2


def test_draining_servers_take_nothing_new(rm: FakeResourceManager) -> None:
    rm.set_server_state("gpu-a1:45454", server_pb2.SERVER_STATE_DRAINING)
    gang(rm, "job-1", 2, 2)
    await_containers(rm, "job-1", 2)
    assert {container.server_id for container in rm.containers("job-1")} == {"gpu-a2:45454"}


def test_a_new_attempt_voids_the_asks_of_the_one_before(rm: FakeResourceManager, client: Client) -> None:
    gang(rm, "hog", 2, 4)
    await_containers(rm, "hog", 2)
    gang(rm, "job-1", 2, 2)
    assert rm.new_attempt("job-1") == 2
    rm.end("hog")
    rm.ask("job-1", 2, gpus=2)
    await_containers(rm, "job-1", 2)
    assert {container.attempt for container in rm.containers("job-1")} == {2}
    assert await_placed(client, "job-1", 2).job.attempt == 2


@pytest.mark.parametrize("unmanaged", [True, False])
def test_a_gang_whose_lost_member_cannot_be_replaced_starts_anew_as_a_whole(
    impatient: str,
    unmanaged: bool,  # noqa: FBT001 # a column of the table
) -> None:
    with FakeResourceManager(impatient) as rm:
        for host in ("gpu-a1", "gpu-a2"):
            rm.add_server(host)
        rm.submit("job-1", tags=["gang:2x4"], unmanaged=unmanaged)
        rm.ask("job-1", 2, gpus=4)
        await_containers(rm, "job-1", 2)
        first = {container.container_id for container in rm.containers("job-1")}
        rm.remove_server("gpu-a2:45454")
        rm.ask("job-1", 1, gpus=4)
        await_containers(rm, "job-1", 0)
        decision, outcome = rm.decisions[-1]
        assert (decision.WhichOneof("action"), outcome.code) == ("requeue_job", decision_pb2.OUTCOME_CODE_COMMITTED)
        assert (rm.attempt("job-1"), rm.ended("job-1")) == (1 if unmanaged else 2, None)
        rm.add_server("gpu-a3")
        rm.ask("job-1", 2, gpus=4)
        await_containers(rm, "job-1", 2)
        assert not first & {container.container_id for container in rm.containers("job-1")}


def test_virtual_clusters_and_their_use(rm: FakeResourceManager, client: Client) -> None:
    rm.add_virtual_cluster("root.all", quota_gpus=8, parent=True)
    rm.add_virtual_cluster("root.all.research", quota_gpus=4, maximum_gpus=6)
    rm.submit("job-1", vc="root.all.research", tags=["gang:1x2"])
    rm.ask("job-1", 1, gpus=2)
    await_containers(rm, "job-1", 1)
    await_view(client, "job-1", job_pb2.JOB_STATE_RUNNING)
    uses = {use.virtual_cluster.path: use for use in client.virtual_clusters()}
    use, above = uses["root.all.research"], uses["root.all"]
    assert (use.virtual_cluster.quota_gpus, use.virtual_cluster.maximum_gpus) == (4, 6)
    assert (use.used.gpus, use.jobs_running) == (2, 1)
    assert (above.virtual_cluster.parent, above.used.gpus) == (True, 2)


def test_listings_of_many_jobs_come_page_by_page_in_order(rm: FakeResourceManager, client: Client) -> None:
    names = [f"job-{number:04d}" for number in range(1_100)]
    for name in names:
        rm.submit(name)
    await_view(client, names[-1], job_pb2.JOB_STATE_PENDING)
    assert [view.job.job_id for view in client.jobs()] == names
    assert list(client.jobs(state=job_pb2.JOB_STATE_RUNNING)) == []


def test_what_is_not_known_is_not_found(rm: FakeResourceManager, client: Client) -> None:
    for ask in (client.job, client.why):
        with pytest.raises(NotFoundError, match="nobody"):
            ask("nobody")
    assert rm.containers("nobody") == []
    await_condition(lambda: len(list(client.servers())) == 2)


def test_an_older_epoch_is_rejected_while_a_newer_one_is_there(target: str, rm: FakeResourceManager) -> None:
    rm.restart()
    with Client(target) as client:
        rm.wait(lambda: client.cluster().epoch == 2 and client.cluster().connected, timeout_s=WAIT_S)
    with ResourceManagerLink(target, cluster_id="fake", epoch=1) as old, pytest.raises(RejectedError):
        old.register(timeout_s=WAIT_S)


def test_another_cluster_is_rejected_at_once(target: str, rm: FakeResourceManager) -> None:
    assert rm.containers("nothing") == []
    with pytest.raises(RejectedError, match="other"):
        FakeResourceManager(target, cluster_id="other").start(timeout_s=WAIT_S)


def test_a_register_that_breaks_the_protocol_names_the_field(target: str) -> None:
    with (
        ResourceManagerLink(target, cluster_id="no blanks here", epoch=1) as link,
        pytest.raises(InvalidRequestError) as caught,
    ):
        link.register(timeout_s=WAIT_S)
    assert any("cluster_id" in violation.field for violation in caught.value.violations), caught.value


def test_a_snapshot_of_many_messages_is_taken_whole(target: str, client: Client) -> None:
    servers = [
        link_pb2.Change(
            server=server_pb2.Server(
                server_id=f"s{number:05d}", host=f"s{number:05d}", rack="/r", state=server_pb2.SERVER_STATE_RUNNING
            )
        )
        for number in range(9_000)
    ]
    with ResourceManagerLink(target, cluster_id="big", epoch=1) as link:
        link.register(servers, timeout_s=WAIT_S)
        link.send(link_pb2.Change(server_removed="s00000"))
        await_condition(lambda: client.cluster().servers == 8_999)
        assert len(list(client.servers())) == 8_999
