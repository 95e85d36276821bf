"""C28: servers with one GPU beside servers without; helpers and masters fill what memory they find, and no worker may hang."""

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings

HELPERS, MASTERS = 200, 20
HELPER, PARAMETER_SERVER, WORKER = worker(0, 150), worker(0, 200), worker(1, 7_000, 12)
GPU_SERVERS = ["gpu0", "gpu1", "gpu2", "gpu3"]


def full(*, ours: bool) -> World:
    """Let helpers and masters take all they may of four servers without GPUs and four with one, of which a worker takes most."""
    plain = [server(f"cpu{number}", 0, memory_mb=8_192, vcores=16) for number in range(4)]
    with_gpus = [server(host, 1, memory_mb=8_192, vcores=16) for host in GPU_SERVERS]
    world = World(EngineSettings(place_on_cpu_servers=ours)).up(*plain, *with_gpus)
    for number in range(MASTERS):
        world.submit(f"master{number}")
        world.ask(f"master{number}", ask(1, AM, 0, am=True))
    world.submit("helpers")
    world.ask("helpers", ask(HELPERS, HELPER))
    world.run()
    return world


@pytest.mark.parametrize("ours", [False, True], ids=["stock-places-there", "we-place-there"])
def test_c28_helpers_and_masters_that_fill_the_servers_leave_every_worker_of_a_gang_its_place(*, ours: bool) -> None:
    world = full(ours=ours)
    on = {one.server_id for one in (*world.live("helpers"), *world.engine.job("master0").containers)}  # type: ignore[union-attr] # it was submitted above
    assert on & {*GPU_SERVERS}, "they are on servers with GPUs too"
    assert world.why("helpers").startswith("other_resources"), "they have filled all they may have"
    world.submit("train", "gang:5")
    world.ask("train", ask(1, PARAMETER_SERVER, 1), ask(4, WORKER, 2))
    placed, *_ = world.run()
    assert placed.job_id == "train"
    assert len(world.live("train")) == 5
    assert sorted(one.server_id for one in world.live("train") if one.resource.gpus) == GPU_SERVERS
