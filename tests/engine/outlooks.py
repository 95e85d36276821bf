"""A world whose outlooks are asked for; reading one changes nothing."""

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.views import Outlook

AT_ONCE = "at once: it fits, and is placed in its turn"


def world_of(*servers: int, relax_after_s: float = 0.0, racks: int = 1, memory_mb: int = 65_536) -> World:
    world = World(EngineSettings(policy="philly", relax_after_s=relax_after_s))
    made = (
        server(f"s{number}", gpus, rack=f"/r{number % racks}", memory_mb=memory_mb)
        for number, gpus in enumerate(servers)
    )
    return world.up(*made)


def submit(
    world: World, job_id: str, containers: int, gpus: int, *tags: str, vc: str = "root.a", **fields: object
) -> None:
    world.submit(job_id, f"gang:{containers}x{gpus}", *tags, vc=vc, **fields)
    world.ask(job_id, ask(containers, worker(gpus)))
    world.run()
    world.now_s += 1


def outlook(world: World, job_id: str = "j") -> Outlook:
    """Ask for it; the state and the work counted stay what they were."""
    before = (world.engine.digest(), world.engine.counters.index_entries_visited, world.engine.counters.searches)
    found = world.engine.outlook(job_id, world.now_s)
    assert (
        world.engine.digest(),
        world.engine.counters.index_entries_visited,
        world.engine.counters.searches,
    ) == before
    assert world.engine.audit() == []
    assert found is not None
    return found
