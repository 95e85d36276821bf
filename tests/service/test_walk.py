"""The walk comes to each job that has not ended, a bounded number a second."""

from collections.abc import Callable, Sequence

from tests.service import changes
from tests.service.conftest import settled
from tests.service.raw_link import RawLink
from yarn_gpu_sched.engine.views import JobView
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.service import FakeClock, Service
from yarn_gpu_sched.service.walk import WALK_JOBS, Walk


class Visits:
    def __init__(self) -> None:
        self.jobs: list[tuple[str, JobState]] = []
        self.rounds = 0

    def seen(self, views: Sequence[JobView]) -> None:
        self.jobs += [(view.job.job_id, view.state) for view in views]

    def round_ended(self) -> None:
        self.rounds += 1


async def walking(service: Service, link: RawLink, clock: FakeClock, pending: int, running: int) -> Visits:
    """Walk among so many jobs, the running ones submitted first, and one that has ended."""
    await link.open(changes.server(gpus=8))
    names = [f"r{n}" for n in range(running)] + [f"p{n}" for n in range(pending)] + ["ended"]
    for start in range(0, len(names), 500):
        await link.batch(*[changes.job(name) for name in names[start : start + 500]])
    await link.batch(
        *[changes.container(f"c{n}", job_id=f"r{n}", gpu_indices=()) for n in range(running)], changes.ended("ended")
    )
    await settled(service)
    visits = Visits()
    walk = Walk(service.engine, clock, visits)
    walk.start()
    return visits


async def test_pending_jobs_come_first_then_running_ones_each_once_a_round(
    service: Service, clock: FakeClock, link: Callable[[], RawLink]
) -> None:
    visits = await walking(service, link(), clock, pending=3, running=2)
    assert [name[0] for name, _ in visits.jobs] == ["p", "p", "p", "r", "r"]
    assert {state for _, state in visits.jobs} == {JobState.PENDING, JobState.RUNNING}
    assert visits.rounds == 1
    clock.advance(1.0)
    assert (len(visits.jobs), visits.rounds) == (10, 2)


async def test_so_many_a_second_and_no_job_is_missed(
    service: Service, clock: FakeClock, link: Callable[[], RawLink]
) -> None:
    visits = await walking(service, link(), clock, pending=2 * WALK_JOBS + 50, running=WALK_JOBS)
    for second in range(1, 4):
        assert (len(visits.jobs), visits.rounds) == (second * WALK_JOBS, 0)
        clock.advance(1.0)
    assert len(visits.jobs) == len(set(visits.jobs)) == 3 * WALK_JOBS + 50
    assert visits.rounds == 1
