"""Random servers, queues and jobs for queues that lend to each other."""

from __future__ import annotations

from typing import NamedTuple

import hypothesis.strategies as st

from tests.engine.machines import RACKS
from tests.engine.world import AM, ask, server, worker
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.server import ServerState
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster

NAMES = [f"n{number:02}" for number in range(24)]
SERVERS = [f"s{number}" for number in range(4)]
LEAVES = ["root.a", "root.b", "root.p.x", "root.p.y", "root.p.q.z"]
PATHS = [*LEAVES, "root.p", "root.p.q"]
SHAPES = [(1, 1), (1, 1), (2, 1), (2, 1), (4, 1), (1, 2), (2, 2), (1, 4), (3, 1), (2, 4), (6, 1)]

servers = st.builds(
    server,
    st.sampled_from(SERVERS),
    st.sampled_from([4, 4, 4, 2]),
    rack=st.sampled_from(RACKS),
    partition=st.sampled_from(["", "", "", "", "", "p"]),
    state=st.sampled_from([ServerState.RUNNING] * 5 + [ServerState.DRAINING, ServerState.UNHEALTHY]),
)
queues = st.builds(
    VirtualCluster,
    st.sampled_from(PATHS),
    quota_gpus=st.sampled_from([None, 0, 1, 2, 4, 4, 4, 6, 8, 8, 12]),
    maximum_gpus=st.sampled_from([None] * 7 + [3]),
)


class Submission(NamedTuple):
    """A job that asks for all of it at once: as a gang or, ``plain``, as containers one by one. ``short``: so many too few."""

    job_id: str
    vc: str
    shape: tuple[int, int]
    plain: bool = False
    tags: tuple[str, ...] = ()
    master: int | None = None
    keeps: bool = False
    unmanaged: bool = False
    one_attempt: bool = False
    priority: int = 0
    partition: str = ""
    short: int = 0

    def job(self, at_s: float) -> Job:
        """Say what it is."""
        count, gpus = self.shape
        tags = self.tags if self.plain else (f"gang:{count}x{gpus}", *self.tags)
        return Job(
            self.job_id,
            self.vc,
            "ann",
            "n",
            tags,
            at_s,
            priority=self.priority,
            keeps_containers=self.keeps,
            unmanaged=self.unmanaged,
            one_attempt=self.one_attempt,
        )

    def asks(self, short: int) -> tuple[Ask, ...]:
        """Ask for all of it but so many containers, its master too where it has one that is ours."""
        count, gpus = self.shape
        found = [ask(max(1, count - short), worker(gpus), 1, partition=self.partition)]
        if self.master is not None:
            found.append(ask(1, worker(self.master) if self.master else AM, 0, am=True, partition=self.partition))
        return tuple(found)


submissions = st.builds(
    Submission,
    job_id=st.sampled_from(NAMES),
    vc=st.sampled_from(LEAVES),
    shape=st.sampled_from(SHAPES),
    plain=st.sampled_from([False, False, False, True]),
    tags=st.sampled_from([(), (), (), ("locality:0",), ("locality:1",), ("checkpoint:3",)]),
    master=st.sampled_from([None, None, None, 0, 1]),
    keeps=st.sampled_from([False, False, False, True]),
    unmanaged=st.sampled_from([False] * 7 + [True]),
    one_attempt=st.sampled_from([False] * 7 + [True]),
    priority=st.sampled_from([0, 0, 0, 1]),
    partition=st.sampled_from(["", "", "", "", "", "p"]),
    short=st.sampled_from([0, 0, 0, 0, 0, 1]),
)
