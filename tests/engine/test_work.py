"""Work per event does not grow with servers or with jobs that wait; a pass is bounded."""

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.events import Pass


def waiting_world(jobs: int) -> World:
    world = World(audited=False).up(server("s1", 8), server("s2", 8))
    world.seen("x", "holder", "s1", worker(6))
    world.seen("y", "holder", "s2", worker(6))
    for number in range(jobs):
        world.submit(f"j{number}", "gang:1x4")
        world.ask(f"j{number}", ask(1, worker(4)))
    return world


def test_equal_wants_are_examined_once_a_pass() -> None:
    world = waiting_world(500)
    world.decide()
    assert world.engine.counters.searches == 1
    world.decide()
    assert world.engine.counters.searches == 1


def test_a_blocked_want_wakes_only_when_enough_was_freed() -> None:
    world = waiting_world(500)
    world.seen("z", "other", "s1", worker(1))
    world.decide()
    searches = world.engine.counters.searches
    world.release("z")
    world.decide()
    assert world.engine.counters.searches == searches
    world.release("x")
    assert len(world.decide()) == 2
    assert world.engine.counters.searches == searches + 3


def test_a_pass_makes_so_many_decisions_and_goes_on_in_the_next() -> None:
    world = World(EngineSettings(decisions_per_pass_max=3)).up(server("s1", 8))
    world.submit("j")
    world.ask("j", ask(8, worker(1)))
    assert [len(world.decide()) for _ in range(4)] == [3, 3, 2, 0]


def test_a_full_pass_wants_another_at_once() -> None:
    world = World(EngineSettings(decisions_per_pass_max=3)).up(server("s1", 8))
    world.submit("j")
    world.ask("j", ask(4, worker(1)))
    world.decide()
    assert world.engine.next_wake_s() == world.now_s
    world.decide()
    assert world.engine.next_wake_s() is None


def test_what_was_not_looked_at_grows_with_neither_servers_nor_waiting_jobs() -> None:
    visited = []
    for racks, jobs in ((2, 10), (64, 1_000)):
        world = World(audited=False).up(
            *(server(f"s{number:04d}", 8, rack=f"/r{number % racks:02d}") for number in range(8 * racks))
        )
        for number in range(8 * racks):
            if number % 8:
                world.seen(f"x{number}", "holder", f"s{number:04d}", worker(7))
        for number in range(jobs):
            world.submit(f"w{number}", "gang:1x8" if number % 2 else "gang:2x8")
            world.ask(f"w{number}", ask(1 if number % 2 else 2, worker(8, 60_000)))
        world.run()
        before = world.engine.counters.index_entries_visited
        for number in range(10):
            world.submit(f"p{number}", "gang:1x1")
            world.ask(f"p{number}", ask(1, worker(1)))
            placed = world.engine.apply(Pass(now_s=0.0))
            assert placed
        visited.append(world.engine.counters.index_entries_visited - before)
    assert abs(visited[0] - visited[1]) <= 0.1 * visited[0]
