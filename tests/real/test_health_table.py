"""Each line of the tables of docs/health.md, on a running cluster whose simulated GPUs go wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.engine.test_health_table import FAULTS, XIDS
from tests.real.apps import App, gpus
from tests.real.changes import BOTH_IN_SOAK
from tests.real.command_line import ygs
from tests.real.joint import Held, Placed, ServedJoint
from tests.real.monitored import (
    GPUS,
    HOSTS,
    OK_AFTER_S,
    await_shown,
    await_well,
    cards,
    gpu,
    happens,
    health,
    nothing_happens,
    showing,
)
from tests.real.shown import Shown, read
from tests.real.watcher import Watcher
from yarn_gpu_sched.model.health import Fault
from yarn_gpu_sched.protocol.v1 import gpu_pb2, reason_pb2

pytestmark = [pytest.mark.real, pytest.mark.timeout(300), *BOTH_IN_SOAK]
A1, B1 = HOSTS
PLACES = {fault: (A1, number) if number < GPUS - 1 else (B1, number - GPUS + 1) for number, fault in enumerate(Fault)}
WELL = {(A1, GPUS - 1), (B1, GPUS - 2), (B1, GPUS - 1)}
"""The GPUs that nothing is wrong with, of both servers."""
UNHEALTHY = reason_pb2.WAITING_REASON_CODE_UNHEALTHY
NOT_WELL = (UNHEALTHY, reason_pb2.WAITING_REASON_CODE_NEVER_FITS_NOW)
UNREADABLE, SILENT = gpu_pb2.TELEMETRY_STATE_UNREADABLE, gpu_pb2.TELEMETRY_STATE_SILENT
LIVE, NONE = gpu_pb2.TELEMETRY_STATE_LIVE, gpu_pb2.TELEMETRY_STATE_NONE


@dataclass
class Story:
    """What was seen while all faults came at once, on GPUs of their own, and went again."""

    watcher: Watcher
    sick: dict[str, gpu_pb2.ServerHealth] = field(default_factory=dict)
    faults: dict[Fault, gpu_pb2.GpuStatus] = field(default_factory=dict)
    jobs: dict[str, Shown] = field(default_factory=dict)
    held: Held | None = None
    capacity: int = 0
    placed: Placed = field(default_factory=dict)
    by_itself: dict[Fault, list[str]] = field(default_factory=dict)
    acked_s: float = 0.0


@pytest.fixture(scope="module")
def story(monitored_joint: ServedJoint) -> Story:
    """Let every fault happen, each to a GPU of its own that a job holds; the job ends, the faults go, an operator acknowledges."""
    joint, folder = monitored_joint, monitored_joint.folder / "shown" / "story"
    folder.mkdir(parents=True)
    await_well(joint)
    with Watcher(joint.address) as watcher, ExitStack() as stack:
        story = Story(watcher)
        run = showing(joint, folder, 2, GPUS)
        await_shown(joint, folder, 2)
        process = stack.enter_context(stray(joint, *PLACES[Fault.NOT_FREE]))
        all_go_wrong(joint)
        last = {fault: row[3] for fault, row in FAULTS.items()}
        joint.until(
            lambda: {f.value: watcher.states(*place)[-1] for f, place in PLACES.items()}, last.__eq__, "all are bad"
        )
        story.sick = {host: health(joint, host) for host in HOSTS}
        story.faults = {fault: gpu(joint, *place) for fault, place in PLACES.items()}
        story.jobs, story.held, story.capacity = read(folder), joint.held(), joint.client.cluster().capacity.gpus
        (folder / "stop").touch()
        run.await_completed(2)
        run.finish()
        after = [running(joint, 3, 1), joint.apps.submit(tags=["gang:1x1"]).register()]
        story.placed = joint.on_gpus(after[0].app_id, 3)
        after[1].allocate(gpus(1, 1))
        joint.await_state(after[1].app_id, UNHEALTHY)
        process.kill()
        happens(joint, A1)
        happens(joint, B1, {"what": "ecc", "gpu": PLACES[Fault.ECC_UNCORRECTABLE][1], "uncorrected": 1})
        await_ok(joint, watcher, needing_ack=False)
        after[1].hold(1)
        await_listed(joint)
        story.by_itself = {fault: watcher.states(*place) for fault, place in PLACES.items()}
        story.acked_s = time.monotonic()
        ygs(joint, "ack", A1, "--reason", "cards replaced")
        for fault in (Fault.ECC_UNCORRECTABLE, Fault.VANISHED, Fault.OPERATOR):
            ygs(joint, "ack", B1, str(PLACES[fault][1]), "--reason", "looked at")
        await_ok(joint, watcher, needing_ack=True)
    joint.clear()
    return story


def all_go_wrong(joint: ServedJoint) -> None:
    """Let each fault happen to the GPU that it has."""
    slot = {fault: place[1] for fault, place in PLACES.items()}
    happens(joint, A1, *({"what": "xid", "gpu": slot[fault], "xid": xid} for fault, xid in XIDS.items()))
    happens(
        joint,
        B1,
        {"what": "ecc", "gpu": slot[Fault.ECC_UNCORRECTABLE], "uncorrected": 1},
        {"what": "vanish", "gpu": slot[Fault.VANISHED]},
        {"what": "mig", "gpu": slot[Fault.MIG], "devices": 3},
        {"what": "throttle", "gpu": slot[Fault.THROTTLED], "reasons": ["hw_thermal_slowdown"]},
    )
    ygs(joint, "quarantine", B1, str(slot[Fault.OPERATOR]), "--reason", "it smells")


def await_ok(joint: ServedJoint, watcher: Watcher, *, needing_ack: bool) -> None:
    """Wait until all GPUs whose faults go by themselves are well, or all."""
    asked = [place for fault, place in PLACES.items() if needing_ack or "`ygs ack`" not in FAULTS[fault.value][-1]]
    states = lambda: {place: watcher.states(*place)[-1] for place in asked}  # noqa: E731 - one line, used once
    joint.until(states, lambda now: set(now.values()) == {"ok"}, "they are well again")


def await_listed(joint: ServedJoint) -> None:
    """Wait until the card is listed again that had vanished: acknowledged before, it would stay quarantined.

    For a card that is missing the driver is opened anew after pauses that grow to 60 s.
    """
    vanished = PLACES[Fault.VANISHED]
    joint.until(lambda: gpu(joint, *vanished).card.HasField("index"), bool, "the card is listed again", wait_s=120.0)


def running(joint: ServedJoint, containers: int, each: int) -> App:
    """Let a job hold a gang in which nothing runs."""
    app = joint.apps.submit(tags=[f"gang:{containers}x{each}"]).register()
    app.allocate(gpus(containers, each))
    app.hold(containers)
    return app


@contextmanager
def stray(joint: ServedJoint, host: str, slot: int) -> Iterator[subprocess.Popen[bytes]]:
    """Let a process of a container that nobody knows hold a GPU."""
    variables = {"CONTAINER_ID": "container_1_0001_01_000009", "NM_HOST": host}
    variables["CUDA_VISIBLE_DEVICES"] = cards(joint)[host, slot]
    process = subprocess.Popen(["/bin/sleep", "600"], env=variables)
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=30)


@pytest.mark.parametrize("fault", Fault)
def test_each_fault_does_what_its_row_says(story: Story, fault: Fault) -> None:
    _, first, third, stays, server, _, back = FAULTS[fault.value]
    host, _ = PLACES[fault]
    came = story.by_itself[fault][: story.by_itself[fault].index(stays) + 1]
    expected = ["ok", first, third, stays]
    assert came == [state for number, state in enumerate(expected) if state not in expected[:number]]
    seen = story.faults[fault]
    assert list(seen.faults) == [fault.value]
    assert seen.needs_ack == ("`ygs ack`" in back)
    assert "healthy GPU fewer" in server
    others = [place for place in PLACES.values() if place[0] == host]
    now = story.sick[host]
    assert (now.gpus_counted, now.gpus_healthy) == (GPUS, GPUS - len(others))
    assert now.gpus_over_committed == len(others), "the job that holds them goes on"
    assert now.telemetry == LIVE


@pytest.mark.parametrize("fault", Fault)
def test_each_fault_goes_as_its_row_says(story: Story, fault: Fault) -> None:
    back = FAULTS[fault.value][-1]
    before, after = story.by_itself[fault], story.watcher.states(*PLACES[fault])
    assert after[-1] == "ok"
    well_s = story.watcher.since_s(*PLACES[fault], "ok")
    if "`ygs ack`" in back:
        assert before[-1] == "quarantined", "not by itself"
        assert after[len(before) :] == ["recovering", "ok"]
        assert well_s >= story.acked_s + OK_AFTER_S - 1, "only after it has read well for a while"
    else:
        assert before == after, "by itself, and the acknowledgement of others changes nothing"
        assert after[-2] == ("suspect" if fault is Fault.NOT_FREE else "recovering")


def test_faults_end_nobody_and_take_nothing_off_the_capacity(story: Story) -> None:
    assert [one.lives for one in story.jobs.values()] == [True, True]
    assert story.held is not None
    assert (story.held.gpus, story.capacity) == (2 * GPUS, 2 * GPUS)


def test_only_what_is_well_is_given_out(story: Story) -> None:
    assert {(server.partition(":")[0], slot) for server, slots in story.placed.values() for slot in slots} == WELL
    for host, slot in WELL:
        assert story.watcher.states(host, slot) == ["ok"]


# Servers


@pytest.fixture
def folder(monitored: ServedJoint, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Return where a test's containers show what they see; they end with the test."""
    folder = monitored.folder / "shown" / str(request.node.name)
    folder.mkdir(parents=True)
    yield folder
    (folder / "stop").touch()
    nothing_happens(monitored)


def asking(joint: ServedJoint, containers: int, each: int) -> App:
    """Let a job ask for a gang that it does not get yet."""
    app = joint.apps.submit(tags=[f"gang:{containers}x{each}"]).register()
    app.allocate(gpus(containers, each))
    return app


def await_telemetry(joint: ServedJoint, host: str, state: gpu_pb2.TelemetryState.ValueType, failure: str = "") -> None:
    """Wait until the service says this of a server's telemetry."""
    fits = lambda now: now.telemetry == state and failure in now.failure  # noqa: E731 - one line, used once
    joint.until(lambda: health(joint, host), fits, f"{host} is {gpu_pb2.TelemetryState.Name(state)} {failure}")


def one_that_waits(joint: ServedJoint) -> App | None:
    """Let a job ask for a GPU, and return it if it gets none."""
    app = asking(joint, 1, 1)
    look = lambda: (len(joint.on_gpus_now(app.app_id)), joint.view(app.app_id).waiting.code)  # noqa: E731 - one line, used once
    placed, _ = joint.until(look, lambda seen: seen[0] > 0 or seen[1] in NOT_WELL, "it is placed, or waits")
    if placed:
        app.kill()
    return None if placed else app


def assert_waits_for_health(joint: ServedJoint, app: App) -> None:
    """Check that `ygs why` names what is not well, also where nothing that is well could hold the job if it were empty."""
    sentence = joint.await_state(app.app_id, NOT_WELL)
    assert "not given out, because they or their servers are not well" in sentence


def assert_goes_on(joint: ServedJoint, folder: Path, before: Mapping[str, Shown]) -> None:
    """Check that all that ran still runs, and that no capacity went."""
    assert {name: one for name, one in read(folder).items() if name in before} == before
    assert all(one.lives for one in before.values())
    assert joint.client.cluster().capacity.gpus == 2 * GPUS


def test_c16_a_server_whose_gpus_cannot_be_read_gets_nothing_new_and_ends_nothing(
    monitored: ServedJoint, folder: Path
) -> None:
    showing(monitored, folder, 2, 5)
    before = await_shown(monitored, folder, 2)
    happens(monitored, A1, {"what": "hang"})
    for trouble, says in (("mismatch", "mismatch"), ("no_driver", "driver"), ("no_devices", "devices")):
        happens(monitored, B1, {"what": trouble})
        await_telemetry(monitored, B1, UNREADABLE, says)
    await_telemetry(monitored, A1, UNREADABLE)
    # The state is shown from the first failed reading on, and followed from the third.
    waiting = monitored.until(
        lambda: one_that_waits(monitored), lambda app: app is not None, "nothing is placed any more"
    )
    assert waiting is not None
    assert_waits_for_health(monitored, waiting)
    free = [one for host in HOSTS for one in health(monitored, host).gpus if not one.job_id and not one.clearing]
    assert free, "it waits though some are well and free as far as anybody knows"
    for _ in range(10):
        assert waiting.allocate()["allocated"] == []
    assert_goes_on(monitored, folder, before)
    nothing_happens(monitored)
    waiting.hold(1)
    for host in HOSTS:
        await_telemetry(monitored, host, LIVE)
    assert_goes_on(monitored, folder, before)


@contextmanager
def frozen_monitor(joint: ServedJoint, host: str) -> Iterator[None]:
    """Let a server's monitor say nothing for a while."""
    joint.cluster.kill(f"{host}-monitor", signal.SIGSTOP)
    try:
        yield
    finally:
        joint.cluster.kill(f"{host}-monitor", signal.SIGCONT)


def test_a_silent_monitor_keeps_its_server_from_what_is_new_until_it_speaks_or_is_given_up(
    monitored: ServedJoint, folder: Path
) -> None:
    run = showing(monitored, folder, 2, 5)
    before = await_shown(monitored, folder, 2)
    with frozen_monitor(monitored, A1):
        await_telemetry(monitored, A1, SILENT)
        elsewhere = running(monitored, GPUS - 5, 1)
        assert {server for server, _ in monitored.on_gpus(elsewhere.app_id, GPUS - 5).values()} == {
            server_id(monitored, B1)
        }
        waiting = asking(monitored, 1, 1)
        monitored.await_state(waiting.app_id, UNHEALTHY)
        assert_goes_on(monitored, folder, before)
        ygs(monitored, "ack", A1, "--reason", "its monitor is gone for good")
        waiting.hold(1)
        assert health(monitored, A1).telemetry == NONE
        waiting.finish()
        monitored.until(lambda: monitored.client.cluster().used.gpus, (GPUS + 5).__eq__, "its GPU is given back")
        assert not any(one.clearing for one in health(monitored, A1).gpus), "and at once it may be given out again"
    await_telemetry(monitored, A1, LIVE)
    assert_goes_on(monitored, folder, before)
    assert len(monitored.on_gpus_now(run.app_id)) == 2


def server_id(joint: ServedJoint, host: str) -> str:
    """Return the id of the server on a host."""
    return health(joint, host).server_id


def test_a_drained_server_gets_nothing_new_and_a_quarantined_gpu_goes_to_nobody_through_restarts(
    monitored: ServedJoint, folder: Path
) -> None:
    showing(monitored, folder, 2, 5)
    before = await_shown(monitored, folder, 2)
    assert ygs(monitored, "drain", A1, "--reason", "fan", "--dry-run")["changes"]
    assert not health(monitored, A1).HasField("drained")
    ygs(monitored, "drain", A1, "--reason", "fan")
    ygs(monitored, "quarantine", B1, "7", "--reason", "odd", "--by", "night shift")
    monitored.cluster.kill("service")
    monitored.cluster.start("service")
    monitored.await_connected()
    monitored.await_whole()
    for host in HOSTS:
        await_telemetry(monitored, host, LIVE)
    placed = monitored.on_gpus(running(monitored, GPUS - 5 - 1, 1).app_id, GPUS - 5 - 1)
    assert {server for server, _ in placed.values()} == {server_id(monitored, B1)}
    assert 7 not in {slot for _, slots in placed.values() for slot in slots}
    waiting = asking(monitored, 2, 1)
    monitored.await_state(waiting.app_id, UNHEALTHY)
    said = gpu(monitored, B1, 7).quarantined
    assert (said.reason, said.by, health(monitored, A1).drained.reason) == ("odd", "night shift", "fan")
    assert_goes_on(monitored, folder, before)
    ygs(monitored, "undrain", A1, "--reason", "fan replaced")
    waiting.hold(2)
    assert_goes_on(monitored, folder, before)


@pytest.fixture
def left(folder: Path) -> Iterator[Path]:
    """Return a file for the number of a process that outlives its container, which ends with the test."""
    left = folder / "left.pid"
    yield left
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int(left.read_text()), signal.SIGKILL)


def test_what_a_job_leaves_behind_keeps_its_gpu_until_it_goes(monitored: ServedJoint, left: Path) -> None:
    app = monitored.apps.submit(tags=["gang:1x2"]).register()
    app.allocate(gpus(1, 2))
    app.hold(1)
    script = left.with_name("leave.sh")
    script.write_text(f"echo $$ >{left}.part; mv {left}.part {left}; exec sleep 600\n")
    app.launch(f"(setsid bash {script} &); sleep 600")
    ((server, slots),) = monitored.on_gpus(app.app_id, 1).values()
    host = server.partition(":")[0]
    monitored.until(left.exists, bool, "the container has started what it leaves behind")
    held = lambda: {one.slot for one in health(monitored, host).gpus if one.sample.processes}  # noqa: E731 - one line, used once
    monitored.until(held, set(slots).__eq__, "it is seen on its GPUs")
    app.finish()
    state = lambda: [gpu(monitored, host, slot) for slot in slots]  # noqa: E731 - one line, used twice
    monitored.until(state, lambda now: all(not one.job_id and one.clearing for one in now), "it is not seen free")
    waiting = asking(monitored, 2, GPUS)
    monitored.until(state, lambda now: [list(one.faults) for one in now] == [["not_free"]] * 2, "it is an alarm")
    assert_waits_for_health(monitored, waiting)
    assert waiting.allocate()["allocated"] == []
    os.kill(int(left.read_text()), signal.SIGKILL)
    waiting.hold(2)


def test_telemetry_that_flaps_does_not_make_the_state_flap(monitored: ServedJoint) -> None:
    bad_s, cycle_s, times = 2.5, 3.5, 3
    flaps = [{"at_s": n * cycle_s, "until_s": n * cycle_s + bad_s} for n in range(times)]
    throttled = [{"what": "throttle", "gpu": 0, "reasons": ["hw_slowdown"]} | flap for flap in flaps]
    gone = [{"what": "vanish", "gpu": 1} | flap for flap in flaps]
    programs = [{"what": "xid", "gpu": 2, "xid": 13, "at_s": flap["at_s"]} for flap in flaps]
    nonsense = [{"what": "impossible", "gpu": 3, "values": {"temperature_c": 4000}} | flap for flap in flaps]
    with Watcher(monitored.address) as watcher:
        happens(monitored, A1, *throttled, *gone, *programs, *nonsense)
        happens(monitored, B1, *({"what": "mismatch"} | flap for flap in flaps))
        over_s = time.monotonic() + times * cycle_s
        monitored.until(lambda: time.monotonic() > over_s, bool, "the last flap is over")
        monitored.until(lambda: watcher.states(A1, 0)[-1], "ok".__eq__, "what only read badly is well again")
        monitored.until(lambda: watcher.servers[B1][-1].state, "live".__eq__, "the server is live again")
        assert [watcher.states(A1, slot).count("ok") for slot in (0, 1)] == [2, 1], watcher.gpus
        assert [seen.state for seen in watcher.servers[B1]] == ["live", "unreadable", "live"]
        assert watcher.states(A1, 1)[-1] == "quarantined", "a card that was gone for longer waits for an operator"
        for slot in range(2, GPUS):
            assert watcher.states(A1, slot) == ["ok"]
