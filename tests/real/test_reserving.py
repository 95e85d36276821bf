"""Nobody starves on a real cluster: who has waited too long gets places that later jobs cannot take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.real.apps import App
from tests.real.changes import BOTH_IN_SOAK, LONG, changing
from tests.real.joint import FULL, ServedJoint
from tests.real.lending import gang, restart_service, running
from yarn_gpu_sched.protocol.v1 import cluster_pb2, reason_pb2

pytestmark = [pytest.mark.real, pytest.mark.timeout(300), *BOTH_IN_SOAK]
RESERVED = reason_pb2.WAITING_REASON_CODE_RESERVED
RESERVE_AFTER_S = 6
LOOKED_WITHIN_S = 10
SERVERS = ("gpu-a1", "gpu-a2", "gpu-b1", "gpu-b2")
SIZES = [4, pytest.param(8, marks=LONG)]
"""GPUs of a server; half of the servers are what the large gang takes: 8 of 16 GPUs, and 16 of 32."""

TURNS_MAX = 100


@pytest.fixture(scope="module")
def soon(served_joint: ServedJoint) -> Iterator[None]:
    """Let the service reserve soon, and stop nobody."""
    restart_service(served_joint, YGS_RESERVE_AFTER_S=str(RESERVE_AFTER_S), YGS_PREEMPTION="off")
    yield
    restart_service(served_joint)


@pytest.fixture
def reserving(soon: None, joint: ServedJoint) -> ServedJoint:  # noqa: ARG001 - the order matters
    """Give a test the cluster whose service reserves soon."""
    return joint


@pytest.fixture
def sized(reserving: ServedJoint, each: int) -> Iterator[ServedJoint]:
    """Let each server have so many GPUs."""
    if each == reserving.cluster.spec.server_list()[0].gpus:
        yield reserving
        return
    with changing(reserving) as changes:
        for name in SERVERS:
            reserving.cluster.change_server(name, gpus=each)
        changes.odd.update(SERVERS)
        changes.restart_servers(*SERVERS)
        has = lambda: reserving.client.cluster().capacity.gpus  # noqa: E731 - one line, used once
        reserving.until(has, lambda gpus: gpus == each * len(SERVERS), "the service counts the GPUs")
        yield reserving


def reservation_of(joint: ServedJoint, app: App) -> cluster_pb2.Reservation | None:
    """Return what is kept for a job."""
    return next((one for one in joint.client.cluster().reservations if one.job_id == app.app_id), None)


def assert_reserved_in_time(joint: ServedJoint, app: App, reservation: cluster_pb2.Reservation) -> None:
    """Ask that a reservation was made when the bound had passed, and soon after that."""
    waited_s = joint.view(app.app_id).age_s - reservation.age_s
    assert RESERVE_AFTER_S <= waited_s <= RESERVE_AFTER_S + LOOKED_WITHIN_S


@dataclass
class Stream:
    """Jobs of one GPU without end, always some more than there is room for."""

    joint: ServedJoint
    jobs: dict[str, App] = field(default_factory=dict)
    ended: int = 0

    def submit(self, count: int) -> None:
        """Let more come."""
        for _ in range(count):
            app = gang(self.joint, "default", 1, 1)
            self.jobs[app.app_id] = app

    def places(self) -> dict[str, str]:
        """Return the server of each that runs, the oldest first."""
        uses = [(use.job_id, view.server.server_id) for view in self.joint.client.servers() for use in view.gpus]
        places = {job_id: server for job_id, server in uses if job_id in self.jobs}
        return {job_id: places[job_id] for job_id in self.jobs if job_id in places}

    def go_on(self, *job_ids: str) -> None:
        """Let these end, and as many come."""
        for job_id in job_ids:
            self.jobs.pop(job_id).finish()
            self.ended += 1
        self.submit(len(job_ids))


@pytest.mark.parametrize("each", SIZES)
def test_a_large_gang_is_not_starved_by_a_stream_of_small_jobs(sized: ServedJoint, each: int) -> None:
    """It starts when those have ended which ran on its servers when places were kept for it; no later job came there."""
    joint, gpus = sized, each * len(SERVERS)
    stream = Stream(joint)
    stream.submit(gpus + 1)
    joint.until(stream.places, lambda places: len(places) == gpus, "all GPUs are in use")
    large = gang(joint, "default", 2, each)
    asked_after = set(stream.jobs)
    for _ in range(TURNS_MAX):
        if reservation := reservation_of(joint, large):
            break
        stream.go_on(next(iter(stream.places())))
        passed = lambda: len(stream.places()) == gpus or reservation_of(joint, large)  # noqa: E731 - one line, used once
        joint.until(passed, bool, "a small job passes it")
    assert reservation is not None
    assert stream.places().keys() - asked_after, "small jobs that came later have passed it"
    assert_reserved_in_time(joint, large, reservation)
    servers = {one.server_id for one in reservation.servers}
    assert (len(servers), reservation.gpus) == (2, 2 * each)

    there = [job_id for job_id, server in stream.places().items() if server in servers]
    elsewhere = [job_id for job_id, server in stream.places().items() if server not in servers]
    for one, other in zip(there[:-1], elsewhere, strict=False):
        stream.go_on(one, other)
        joint.until(stream.places, lambda places: there_now(places, servers) < set(there), "nobody else is there")
    assert joint.placed_now(large.app_id) == {}
    joint.await_state(large.app_id, RESERVED)
    stream.go_on(there[-1])
    large.hold(2)
    assert {server for server, _ in joint.placed(large.app_id, 2).values()} == servers
    assert reservation_of(joint, large) is None


def there_now(places: dict[str, str], servers: set[str]) -> set[str]:
    """Return the jobs on these servers."""
    return {job_id for job_id, server in places.items() if server in servers}


def test_a_small_job_is_not_starved_by_a_stream_of_large_ones(reserving: ServedJoint) -> None:
    """Jobs that take a server each, of higher priority, follow each other without a GPU idle between them."""
    joint = reserving
    others = [running(joint, "default", 1, 4, priority=5) for _ in range(3)]
    runs, waits = running(joint, "default", 1, 4, priority=5), gang(joint, "default", 1, 4, priority=5)
    small = gang(joint, "default", 1, 1)
    while joint.view(small.app_id).age_s < RESERVE_AFTER_S / 2:
        more = gang(joint, "default", 1, 4, priority=5)
        runs.finish()
        waits.hold(1)
        runs, waits = waits, more
    assert joint.placed_now(small.app_id) == {}, "it was passed"
    reservation = joint.until(lambda: reservation_of(joint, small), bool, "it has a reservation")
    assert reservation is not None
    assert_reserved_in_time(joint, small, reservation)
    ends = next(
        app for app in [*others, runs] if joint.hosts(app.app_id, 1) == [reservation.servers[0].server_id.split(":")[0]]
    )
    ends.finish()
    small.hold(1)
    joint.await_state(waits.app_id, FULL)
    assert joint.placed_now(waits.app_id) == {}
