"""A world with two virtual clusters, one of which borrows what the other has a right to."""

from __future__ import annotations

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.commands import PlaceGang, RequeueJob, StopContainers, WarnJob
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.preemption import Mode

AFTER_S = 120.0
GRACE_S = 30.0
HOLD_S = 120.0
MIN_RUN_S = 600.0


class Reclaiming(World):
    """Preemption is armed; a job that is to start anew goes, and asks again as its next attempt."""

    def __init__(self, *servers: int, racks: int = 1, mode: Mode = Mode.ON, **settings: float) -> None:
        values: dict[str, object] = {"policy": "philly", "preemption": mode, "preempt_pause_s": 0.0, **settings}
        super().__init__(EngineSettings(**values))  # type: ignore[arg-type] # the fields of EngineSettings, by name
        self.shapes: dict[str, tuple[int, int, str]] = {}
        self.answered = 0
        self.up(*(server(f"s{place}", gpus, rack=f"/r{place % racks}") for place, gpus in enumerate(servers)))

    def gang(self, job_id: str, containers: int, gpus: int, vc: str = "root.a", *tags: str, **fields: object) -> None:
        """Submit a gang and let what can be decided be decided."""
        self.shapes[job_id] = (containers, gpus, vc)
        self.submit(job_id, f"gang:{containers}x{gpus}", *tags, vc=vc, **fields)
        self.ask(job_id, ask(containers, worker(gpus)))
        self.step()

    def singles(self, job_id: str, containers: int, gpus: int, vc: str = "root.a", **fields: object) -> None:
        """Submit an application without a gang."""
        self.submit(job_id, vc=vc, **fields)
        self.ask(job_id, ask(containers, worker(gpus)))
        self.step()

    def step(self, to_s: float | None = None, *, obey: bool = True) -> None:
        """Let time go on to this moment, pass by pass as the engine wants to be woken; victims go unless they do not ``obey``."""
        to_s = self.now_s if to_s is None else to_s
        for _ in range(1_000):
            self.run()
            if obey and self.obey():
                continue
            wake_s = self.engine.next_wake_s()
            if wake_s is None or wake_s > to_s:
                break
            self.now_s = max(self.now_s, wake_s)
        else:
            raise AssertionError("wakes for nothing")
        self.now_s = to_s
        self.run()

    def orders(self) -> list[WarnJob | StopContainers | RequeueJob]:
        """List the orders that were not answered yet."""
        orders = [one for one in self.commands if isinstance(one, WarnJob | StopContainers | RequeueJob)]
        return orders[self.answered :]

    def obey(self) -> int:
        """Do what is ordered; tell how many orders there were."""
        orders = self.orders()
        self.answered += len(orders)
        for order in orders:
            self.commit(order)
            if isinstance(order, RequeueJob):
                self.release_all(order.job_id)
                containers, gpus, vc = self.shapes[order.job_id]
                job = self.engine.job(order.job_id)
                assert job is not None
                again = {"attempt": order.attempt + 1, "submit_time_s": job.job.submit_time_s, "vc": vc}
                self.submit(order.job_id, *job.job.tags, **again)
                self.ask(order.job_id, ask(containers, worker(gpus)), attempt=order.attempt + 1)
            elif isinstance(order, StopContainers):
                for container_id in order.container_ids:
                    self.release(container_id, lost=True)
        return len(orders)

    def decline(self) -> None:
        """Refuse what is ordered."""
        orders = self.orders()
        self.answered += len(orders)
        for order in orders:
            self.refuse(order, OutcomeCode.INVALID)

    def stopped(self) -> list[str]:
        """List who was stopped, in order."""
        return [one.job_id for one in self.commands if isinstance(one, RequeueJob | StopContainers)]

    def warned(self) -> list[str]:
        """List who was warned, in order."""
        return [one.job_id for one in self.commands if isinstance(one, WarnJob)]

    def starts(self) -> list[str]:
        """List who was placed, in order."""
        return [one.job_id for one in self.commands if isinstance(one, PlaceGang)]

    def kept(self, job_id: str) -> int:
        """Count the GPUs that are kept for a job."""
        return sum(mask.bit_count() for _, mask in self.engine.held().get(job_id, ()))

    def runs(self, job_id: str) -> bool:
        """Tell whether a job's gang runs."""
        return bool(self.live(job_id))


def borrowed(*, mode: Mode = Mode.ON, **settings: float) -> Reclaiming:
    """Let `root.a`, with a quota of 4 of 8 GPUs, have all of them: `a1` and then `a2`, 4 GPUs each. All have run long enough."""
    world = Reclaiming(4, 4, mode=mode, **settings)  # type: ignore[arg-type] # none of them is the number of racks
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=4)
    world.gang("a1", 4, 1)
    world.step(10.0)
    world.gang("a2", 4, 1)
    world.step(1_000.0)
    return world
