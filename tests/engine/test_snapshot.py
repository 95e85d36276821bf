"""An engine that is written down and read again is the same one: in its state, in what it says, and in all that it does later."""

from __future__ import annotations

import msgspec
import pytest

from tests.engine.monitored import watched
from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import PlaceGang, RequeueJob, StopContainers, WarnJob
from yarn_gpu_sched.engine.events import (
    CheckpointReported,
    ContainerSeen,
    Pass,
    PreemptionModeChanged,
    ResourceManagerLost,
    ResourceManagerRegistered,
    SnapshotEnded,
    VirtualClusterChanged,
)
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.model.server import ServerState
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster

SETTINGS = EngineSettings(ended_jobs_max=2, am_share=0.2, decisions_per_pass_max=2)
TENANTS = EngineSettings(policy="philly", relax_after_s=150.0)
RESERVING = EngineSettings(policy="philly", reserve_after_s=100.0)
RECLAIMING = EngineSettings(
    policy="philly",
    preemption=Mode.ON,
    preempt_after_s=10.0,
    preempt_grace_s=5.0,
    preempt_min_run_s=10.0,
    preempt_pause_s=0.0,
)
PREEMPTIVE = EngineSettings(policy="las", relax_after_s=150.0)


def decided_and_refused() -> tuple[World, list[PlaceGang]]:
    """Let a gang run, a decision be under way, another be refused."""
    world = World(SETTINGS).up(server("s1"), server("s2", rack="/r2"), settle_left_s=20.0)
    world.change(server("p1", 8, partition="p"))
    world.apply(VirtualClusterChanged(now_s=0.0, virtual_cluster=VirtualCluster("root.a", 4, 8)))
    world.submit("gang", "gang:2x3")
    world.ask("gang", ask(1, AM, 0, am=True), ask(2, worker(3)))
    world.commit(*world.decide())
    gang = world.decide()
    world.submit("single")
    world.ask("single", ask(2, worker(1), 1), ask(1, worker(0), 2))
    world.commit(*gang)
    under_way = world.decide()
    world.now_s = 1.0
    world.submit("refused")
    world.ask("refused", ask(1, worker(4), partition="p"))
    for decision in world.decide():
        world.refuse(decision, OutcomeCode.QUEUE_LIMIT)
    return world, under_way


def repairs(world: World) -> None:
    """Let a gang beside a partition that lends lose a member, get no replacement in time, and start anew."""
    world.change(server("x1", 8, partition="x", lends=True))
    world.submit("degraded", "gang:2x3")
    world.ask("degraded", ask(2, worker(3)), blacklist=("s4", "s5"))
    world.run()
    world.release(world.live("degraded")[0].container_id, lost=True)
    world.ask("degraded", ask(1, worker(8)), blacklist=("s4", "s5"))
    world.decide()
    world.now_s += SETTINGS.requeue_after_s
    world.decide()
    world.submit("degraded", "gang:2x3", attempt=2)
    world.configure("root.b", debounce=True)
    world.submit("gathers", vc="root.b")
    world.ask("gathers", ask(2, worker(1)))
    world.decide()


def eventful() -> World:
    """Live through everything that an engine remembers."""
    world, under_way = decided_and_refused()
    world.submit("too large", "gang:9x9")
    world.submit("waits", "gang:3x4", vc="root.b")
    world.ask("waits", ask(3, worker(4)))
    world.submit("half", "gang:3")
    world.ask("half", ask(1, worker(1)))
    world.seen("k-half", "half", "s2", worker(0))
    world.seen("ghost", "nobody told of", "s1", worker(0))
    world.decide()
    for number in range(3):
        world.submit(f"ended{number}")
        world.end(f"ended{number}")
    world.change(server("s3", 4, memory_mb=9_000))
    world.submit("no tag", "gang:zero")
    world.remove(under_way[0].assignments[0].server_id)
    world.change(server("s2", rack="/r2", state=ServerState.DRAINING))
    world.commit(*under_way)
    world.now_s = 25.0
    world.decide()
    world.apply(ResourceManagerLost(now_s=world.now_s))
    world.apply(ResourceManagerRegistered(now_s=26.0, cluster_id="c", epoch=2, start_time_ms=7, settle_left_s=9.0))
    world.change(server("s2", rack="/r2"))
    world.submit("gang", "gang:2x3", submit_time_s=1.0, recovered=True)
    world.seen("k1", "gang", "s2", worker(3))
    world.submit("waits", "gang:3x4", vc="root.b", submit_time_s=5.0)
    world.apply(SnapshotEnded(now_s=27.0))
    world.ask("waits", ask(3, worker(4)))
    world.now_s = 40.0
    world.decide()
    world.change(server("s4", 8))
    world.change(server("s5", 8))
    world.run()
    repairs(world)
    begins_anew(world)
    return world


def begins_anew(world: World) -> None:
    """Let the resource manager restart beside a gang that runs, and its master repeat what it once asked."""
    world.submit("stays", "gang:1x1", submit_time_s=90.0)
    world.ask("stays", ask(1, worker(1)))
    world.run()
    (held,) = world.live("stays")
    world.apply(
        ResourceManagerRegistered(now_s=world.now_s, cluster_id="c", epoch=3, start_time_ms=8, settle_left_s=9.0)
    )
    world.change(server(held.server_id, 8))
    world.submit("stays", "gang:1x1", submit_time_s=90.0, recovered=True)
    world.apply(ContainerSeen(now_s=world.now_s, container=held))
    world.apply(SnapshotEnded(now_s=world.now_s))
    world.ask("stays", ask(1, worker(1)))
    world.decide()


def preempts() -> World:
    """Let a gang be stopped for another, wait on its ladder, and be placed again; then the place is refused."""
    world = World(PREEMPTIVE).up(server("s1"), server("s2"))
    world.submit("old", "gang:8x1", "runtime:5000")
    world.ask("old", ask(8, worker(1)))
    world.run()
    world.now_s = 1_000.0
    world.submit("new", "gang:2x1", "locality:1@30")
    world.ask("new", ask(2, worker(1)))
    world.decide()
    world.commit(*[command for command in world.commands if isinstance(command, RequeueJob)])
    world.release_all("old")
    world.submit("old", "gang:8x1", "runtime:4000", attempt=2)
    world.ask("old", ask(8, worker(1)), attempt=2)
    world.run()
    world.now_s = 1_100.0
    world.end("new")
    (decision,) = world.decide()
    world.refuse(decision)
    world.now_s = 1_200.0
    world.run()
    return world


def tenants() -> World:
    """Let virtual clusters borrow, meet limits, and have a job ended that has run as long as it may."""
    world = World(TENANTS).up(server("s1", 8), server("s2", 8))
    world.configure("root.a", quota_gpus=4, maximum_gpus=8, settings=(("max-runtime-s", "100"), ("relax-after-s", "7")))
    world.configure("root.b", quota_gpus=12, settings=(("max-gpus-per-user", "6"),))
    for name, vc in (("a1", "root.a"), ("b1", "root.b"), ("a2", "root.a"), ("b2", "root.b")):
        world.submit(name, "gang:3x2", vc=vc)
        world.ask(name, ask(3, worker(2)))
        world.run()
        world.now_s += 10.0
    world.configure("root.b", quota_gpus=2)
    world.now_s = 100.0
    world.decide()
    world.commit(*world.refusals)
    world.end("a1")
    world.run()
    return world


def reclaims() -> World:
    """Let a gang have borrowed jobs warned and stopped, one whole and one by single containers, one of which is not stopped."""
    world = World(RECLAIMING).up(server("s1", 4), server("s2", 4))
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=8)
    world.submit("gang", "gang:4x1", "checkpoint:7", vc="root.a")
    world.ask("gang", ask(4, worker(1)))
    world.submit("plain", vc="root.a")
    world.ask("plain", ask(4, worker(1)))
    world.run()
    world.now_s = 20.0
    world.apply(CheckpointReported(now_s=20.0, job_id="gang"))
    world.submit("b", "gang:6x1", vc="root.b")
    world.ask("b", ask(6, worker(1)))
    world.run()
    world.apply(PreemptionModeChanged(now_s=20.0, mode=Mode.OBSERVE, why="to look"))
    world.now_s = 30.0
    world.decide()
    world.apply(PreemptionModeChanged(now_s=30.0, mode=Mode.ON, why="armed"))
    for world.now_s in (41.0, 46.0, 47.0):
        world.decide()
        orders = [one for one in world.commands if isinstance(one, WarnJob | StopContainers | RequeueJob)]
        if world.now_s == 46.0:
            world.refuse(orders[-1])
        world.commit(*orders)
    world.release_all("gang")
    world.submit("gang", "gang:4x1", "checkpoint:7", vc="root.a", submit_time_s=1.0, attempt=2)
    world.run()
    return world


def reserves() -> World:
    """Let a gang get a reservation, another job pass it, and the gang start."""
    world = World(RESERVING).up(server("s1", 4), server("s2", 4), server("s3", 4, state=ServerState.UNHEALTHY))
    world.submit("never", "gang:3x4", vc="root.b")
    world.ask("never", ask(3, worker(4)))
    for number in range(6):
        world.submit(f"r{number}", "gang:1x1", "runtime:500")
        world.ask(f"r{number}", ask(1, worker(1)))
        world.run()
    world.submit("g", "gang:4x1", "locality:0")
    world.ask("g", ask(4, worker(1)))
    for world.now_s in (50.0, 101.0):
        world.run()
    world.submit("next", "gang:4x1")
    world.ask("next", ask(4, worker(1)))
    world.run()
    world.now_s += 101.0
    world.run()
    world.ask("next", ask(4, worker(1), 2))
    world.submit("passes", "gang:1x1", "runtime:100")
    world.ask("passes", ask(1, worker(1)))
    world.run()
    for name in ("r4", "r5", "passes"):
        world.now_s += 40.0
        world.end(name)
        world.run()
    return world


WORLDS = {
    "eventful": (eventful, SETTINGS),
    "preempts": (preempts, PREEMPTIVE),
    "reclaims": (reclaims, RECLAIMING),
    "reserves": (reserves, RESERVING),
    "tenants": (tenants, TENANTS),
    "watched": (lambda: watched(SETTINGS), SETTINGS),
}


@pytest.mark.parametrize("name", WORLDS)
def test_at_every_step_what_was_read_again_goes_on_alike(name: str) -> None:
    make, settings = WORLDS[name]
    events = make().events
    for count in range(len(events)):
        live = Engine(settings)
        for event in events[:count]:
            live.apply(event)
        again = Engine.restore(live.snapshot())
        assert again.digest() == live.digest(), f"after event {count}: {events[count - 1]}"
        assert again.audit() == []
        assert again.settings == settings
        for event in events[count:]:
            assert again.apply(event) == live.apply(event), f"{event}, read again after {count} events"
        assert again.digest() == live.digest()


def told(engine: Engine) -> list[object]:
    jobs, _ = engine.jobs(limit=100)
    return [
        engine.cluster(),
        engine.servers(limit=100),
        engine.virtual_clusters(limit=100),
        [engine.job(view.job.job_id) for view in jobs],
        [engine.waiting(view.job.job_id) for view in jobs],
    ]


@pytest.mark.parametrize("name", WORLDS)
def test_what_was_read_again_tells_the_same(name: str) -> None:
    """After a pass: until then the live one says of who waits what the last pass had found."""
    make, settings = WORLDS[name]
    live = Engine(settings)
    passes = 0
    for event in make().events:
        live.apply(event)
        if isinstance(event, Pass) and not live.apply(event):
            again = Engine.restore(live.snapshot())
            assert again.apply(event) == []
            assert told(again) == told(live), event
            assert again.next_wake_s() == live.next_wake_s()
            passes += 1
    assert passes > 2


def test_everything_that_is_remembered_was_there_to_be_written() -> None:
    """What the two tests above compare is not empty: each list of the image has held something."""
    filled: set[str] = set()
    for make, settings in WORLDS.values():
        live = Engine(settings)
        for event in make().events:
            live.apply(event)
            image = msgspec.msgpack.decode(live.snapshot())
            filled |= {name for name, value in {**image, **image["session"]}.items() if value}
            filled |= {f"job.{name}" for job in image["jobs"] for name, value in job.items() if value}
            filled |= {f"tenure.{name}" for job in image["jobs"] for name, value in job["tenure"].items() if value}
            filled |= {f"preemption.{name}" for name, value in image["preemption"].items() if value}
            filled |= {f"wait.{name}" for job in image["jobs"] for name, value in job["wait"].items() if value}
            filled |= {f"host.{name}" for host in image["hosts"] for name, value in host.items() if value}
            filled |= {
                f"gpu.{name}" for host in image["hosts"] for gpu in host["gpus"] for name, value in gpu.items() if value
            }
            filled |= {f"decision.{name}" for one in image["decisions"] for name, value in one.items() if value}
    known = {*image, *image["session"]}
    known |= {f"job.{name}" for name in image["jobs"][0]}
    known |= {f"wait.{name}" for name in image["jobs"][0]["wait"]}
    known |= {f"tenure.{name}" for name in image["jobs"][0]["tenure"]}
    known |= {f"preemption.{name}" for name in image["preemption"]}
    known |= {f"host.{name}" for name in image["hosts"][0]}
    known |= {f"gpu.{name}" for name in image["hosts"][0]["gpus"][0]}
    known |= {f"decision.{name}" for name in decision_fields()}
    assert known - filled == set()


def decision_fields() -> list[str]:
    world = World().up(server("s1"))
    world.submit("j")
    world.ask("j", ask(1, worker(1)))
    world.decide()
    return list(msgspec.msgpack.decode(world.engine.snapshot())["decisions"][0])


def test_states_that_differ_have_other_digests() -> None:
    world = World().up(server("s1"))
    digests = [world.engine.digest()]
    for number in range(3):
        world.submit(f"j{number}")
        world.ask(f"j{number}", ask(1, worker(1)))
        world.decide()
        digests.append(world.engine.digest())
    assert len(set(digests)) == 4
    world.apply(Pass(now_s=world.now_s))
    assert world.engine.digest() == digests[-1], "a pass that decides nothing changes nothing"


def test_the_order_in_which_things_came_makes_no_other_state() -> None:
    digests = []
    for names in (("a", "b"), ("b", "a")):
        world = World().up()
        for name in names:
            world.change(server(name))
            world.apply(VirtualClusterChanged(now_s=0.0, virtual_cluster=VirtualCluster(f"root.{name}")))
            world.submit(name, submit_time_s=1.0)
        world.engine._core.to_check.clear()
        digests.append(world.engine.digest())
    assert digests[0] == digests[1]


@pytest.mark.parametrize("version", [0, 2])
def test_a_snapshot_of_another_version_is_refused(version: int) -> None:
    image = msgspec.msgpack.decode(Engine().snapshot())
    with pytest.raises(ValueError, match=f"has version {version}; this program reads version 1"):
        Engine.restore(msgspec.msgpack.encode({**image, "version": version}))


def test_a_decision_of_an_older_attempt_answers_no_ask_of_the_new_one_after_a_restore_either() -> None:
    world = World().up(server("s1"))
    world.submit("j", submit_time_s=1.0)
    world.ask("j", ask(1, worker(1)))
    (old,) = world.decide()
    world.submit("j", submit_time_s=1.0, attempt=2)
    world.ask("j", ask(1, worker(1)), attempt=2)
    again = World(engine=Engine.restore(world.engine.snapshot()))
    for one in (world, again):
        one.refuse(old, OutcomeCode.NO_ATTEMPT)
        assert len(one.decide()) == 1


def test_what_a_decision_holds_is_charged_to_the_partitions_of_its_servers_after_a_restore_too() -> None:
    world = World().up(server("s1"), server("s2"))
    world.submit("j", "gang:2x4")
    world.ask("j", ask(2, worker(4)))
    world.decide()
    world.change(server("s2", partition="p"))
    again = Engine.restore(world.engine.snapshot())
    assert again.audit() == []
    uses = again._core.state.tenants.by_path["root.a"].uses
    assert {partition: use.gpus for partition, use in uses.items()} == {"": 4, "p": 4}
