"""What masters ask in their own ways, as other systems met it in the field: one test for each case, and named after it.

C2 to C28 are such cases, inputs with which other systems went wrong, in a numbering of our own; those that are no asks are tested
where they belong.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.apps import App, AppError, gpus, on_hosts, pending, plain, submitted_to_be_refused
from tests.real.joint import FULL, Held, ServedJoint
from yarn_gpu_sched.protocol.v1 import reason_pb2, server_pb2

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.timeout(300)]
CPU_HOST = "cpu-1"
ALL_MB = 8192  # of a server
RACK_B_ADDRESS = "127.0.1.3"  # of gpu-b1: the topology is asked by address, whatever a server calls itself


def registered(joint: ServedJoint, *tags: str, **more: object) -> App:
    return joint.apps.submit(tags=list(tags), **more).register()


def servers(joint: ServedJoint, app: App, containers: int) -> list[str]:
    """Wait until a job has so many containers, and say where."""
    return sorted(server for server, _ in joint.placed(app.app_id, containers).values())


def sizes(joint: ServedJoint, app_id: str, containers: int) -> list[tuple[int, int]]:
    """Wait until a job has so many containers, and return GPUs and memory in MB of each."""
    look = lambda: joint.view(app_id).containers  # noqa: E731 - one line, used once
    told = joint.until(look, lambda now: len(now) == containers, f"{containers} containers of {app_id}")
    return sorted((one.resource.gpus, one.resource.memory_mb) for one in told)


# C2


def test_c02_asks_that_are_sent_again_are_no_more_containers(joint: ServedJoint) -> None:
    app = registered(joint, "gang:4x2")
    app.allocate(gpus(4, 2))
    joint.await_held(Held(4, 0, 4 * 256, 8, 0))
    got = app.allocate(gpus(4, 2))["allocated"]  # its sender had not seen them yet
    assert len(got) == 4
    app.allocate(gpus(0, 2))
    where = servers(joint, app, 4)
    assert joint.held() == Held(4, 0, 4 * 256, 8, 0)
    app.allocate(release=[got[0]["container"]])
    servers(joint, app, 3)
    app.allocate(gpus(1, 2))
    app.hold(5)  # counted from the start
    assert servers(joint, app, 4) == where
    assert joint.held() == Held(4, 0, 4 * 256, 8, 0)


# C11: at one key the resource manager holds one size, the last that it was sent


@pytest.mark.parametrize("apart", [False, True], ids=["in one heartbeat", "in two"])
@pytest.mark.parametrize("last", ["GPUs", "none"])
def test_c11_of_two_sizes_at_one_key_the_last_is_served_and_never_their_sum(
    joint: ServedJoint, last: str, *, apart: bool
) -> None:
    holder = registered(joint, "gang:4x4")
    holder.allocate(gpus(4, 4))
    holder.hold(4)
    with no_room_without_gpus(joint):
        app = registered(joint)
        both = [gpus(2, 2, priority=3), plain(1, priority=3, memory_mb=ALL_MB)]
        both = both if last == "none" else both[::-1]
        for asks in [both] if not apart else [[one] for one in both]:
            app.allocate(*asks)
        assert pending(joint.app(app.app_id)) == ([(1, 0)] if last == "none" else [(2, 2)])
        known = lambda: wanted(joint, app)  # noqa: E731 - one line, used once
        joint.until(known, (True, 0 if last == "none" else 4).__eq__, "the service knows the last ask alone")
    holder.finish()
    expected = [(0, ALL_MB)] if last == "none" else [(2, 256)] * 2
    app.hold(len(expected))
    assert sizes(joint, app.app_id, len(expected)) == expected


def wanted(joint: ServedJoint, app: App) -> tuple[bool, int]:
    """Tell whether a job waits for what it has asked, and for how many GPUs, by the service."""
    view = joint.view(app.app_id)
    return view.waiting.containers_asked > 0, view.gpus_pending


@contextmanager
def no_room_without_gpus(joint: ServedJoint) -> Iterator[None]:
    """Let nothing without GPUs be placed by the resource manager itself."""
    filler = registered(joint)
    filler.allocate(on_hosts(1, 0, {CPU_HOST: 1}, ["/rack-a"], memory_mb=ALL_MB))
    filler.hold(1)
    yield
    filler.finish()


def test_c11_containers_that_nobody_has_seen_answer_no_ask_of_another_size(joint: ServedJoint) -> None:
    app = registered(joint)
    app.allocate(gpus(2, 2, priority=3))
    joint.await_held(Held(2, 0, 2 * 256, 4, 0))
    seen = app.allocate(plain(1, priority=3))["allocated"]
    app.hold(3)
    assert len(seen) == 2
    assert [gpus for gpus, _ in sizes(joint, app.app_id, 3)] == [0, 2, 2]


# C14


@pytest.mark.parametrize("tag", ["GANG:2", " gang:2 ", "Gang : 2X2"], ids=["capitals", "blanks", "both"])
def test_c14_a_gang_tag_is_trimmed_and_case_blind(joint: ServedJoint, tag: str) -> None:
    app = registered(joint, tag)
    app.allocate(gpus(1, 2))
    joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_GANG_INCOMPLETE)
    app.allocate(gpus(2, 2))
    app.hold(2)


@pytest.mark.parametrize(
    "tag", ["gang:0", "gang:-1", "gang:4x", "gang:99999999999", "locality:1@", "locality:3", "runtime:2h"]
)
def test_c14_a_tag_that_cannot_be_read_ends_the_application_and_is_shown(joint: ServedJoint, tag: str) -> None:
    assert f'tag "{tag}"' in diagnostics(joint, tag, "mine")


@pytest.mark.parametrize("tags", [["gang:4", "gang:8"], ["gang:4", "gang:4x2"]], ids=["two counts", "two shapes"])
def test_c14_tags_that_contradict_each_other_end_the_application_and_are_shown(
    joint: ServedJoint, tags: list[str]
) -> None:
    said = diagnostics(joint, *tags)
    for words in (*(f'"{tag}"' for tag in tags), "contradict each other"):
        assert words in said


def diagnostics(joint: ServedJoint, *tags: str) -> str:
    """Submit what is refused, and return why it was."""
    app_id = submitted_to_be_refused(joint.apps, *tags)
    ended = joint.until(lambda: joint.app(app_id), lambda now: now["state"] == "KILLED", f"{tags} are refused")
    return str(ended["diagnostics"])


@pytest.mark.parametrize(
    ("tag", "shown"),
    [("gang:" + "1" * 245, "100"), ("gang:4\x1b[2J\x07", "ASCII")],
    ids=["250 characters", "control characters"],
)
def test_c14_what_is_no_tag_is_refused_by_the_resource_manager_itself(joint: ServedJoint, tag: str, shown: str) -> None:
    with pytest.raises(AppError, match=shown):
        joint.apps.submit(tags=[tag])


def test_c14_what_is_asked_beyond_the_gang_is_growth(joint: ServedJoint) -> None:
    holder = registered(joint, "gang:3x4")
    holder.allocate(gpus(3, 4))
    holder.hold(3)
    app = registered(joint, "gang:3")
    app.allocate(gpus(5))
    app.hold(4)  # the gang, and as much growth as there is room for
    sentence = joint.await_state(app.app_id, FULL)
    assert sentence.startswith("asks 1 GPUs")
    holder.finish()
    app.hold(5)


def test_c14_a_name_with_control_sequences_reaches_no_terminal(joint: ServedJoint) -> None:
    app = registered(joint, "gang:1", name="\x1b[2J\x07 name")
    for command in (["jobs"], ["job", "show", app.app_id], ["why", app.app_id]):
        ygs = [str(Path(sys.executable).parent / "ygs"), *command, "--service", joint.address]
        shown = subprocess.run(ygs, check=True, capture_output=True, text=True, timeout=60).stdout
        assert ("\\x1b[2J\\x0" in shown) == (command[0] != "why")
        assert not {character for character in shown if character < " "} - {"\n"}


# C26


def test_c26_what_the_resource_manager_rounds_up_is_what_is_granted(joint: ServedJoint) -> None:
    app = registered(joint, "gang:2x1")
    app.allocate(gpus(2, 1, memory_mb=50))
    joint.await_held(Held(2, 0, 2 * 64, 2, 0))
    got = app.allocate(gpus(2, 1, memory_mb=50))["allocated"]  # they answer it, though of another size
    assert [one["memory_mb"] for one in got] == [64, 64]
    servers(joint, app, 2)
    assert joint.client.job(app.app_id).used.memory_mb == 2 * 64
    assert pending(joint.app(app.app_id)) == []
    app.allocate(gpus(2, 1, memory_mb=50))
    app.hold(4)
    assert joint.held() == Held(4, 0, 4 * 64, 4, 0)


def test_c26_a_memory_string_is_granted_as_the_stock_client_and_the_resource_manager_round_it(
    joint: ServedJoint, workers: Path
) -> None:
    run = joint.distributed_shell(
        workers,
        "stop",
        *("-appname", "strings", "-num_containers", "2", "-application_tags", "gang:2x1"),
        *("-container_resources", "memory=1G,vcores=1,yarn.io/gpu=1"),
    )
    joint.await_started(workers, 2, 120)
    job_id = next(view.job.job_id for view in joint.client.jobs() if view.job.name == "strings")
    each_mb = 960  # 1G is 953 MiB, and the step is 64
    assert sizes(joint, job_id, 3) == [(0, 256), (1, each_mb), (1, each_mb)]
    assert joint.held() == Held(3, 0, 256 + 2 * each_mb, 2, 0)
    (workers / "stop").touch()
    joint.until(lambda: run.exit_code, lambda code: code is not None, "the stock client has ended", 60)
    assert run.exit_code == 0, run.output


def test_c26_a_host_alone_asks_nothing_until_it_is_asked_anywhere(joint: ServedJoint) -> None:
    app = registered(joint, "gang:1x1")
    app.allocate(gpus(1, 1, places={"gpu-b1": 1, "/rack-b": 1}, strict=["/rack-b"]))
    joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_NOT_ASKED)
    app.allocate(gpus(1, 1, places={"*": 1}, strict=["*"]))
    app.hold(1)
    assert servers(joint, app, 1)[0].startswith("gpu-b1:")


# C27


def test_c27_a_host_in_capitals_is_the_same_host(joint: ServedJoint) -> None:
    app = registered(joint, "gang:1x1")
    app.allocate(on_hosts(1, 1, {"GPU-B2": 1}, ["/rack-b"]))
    app.hold(1)
    assert servers(joint, app, 1)[0].startswith("gpu-b2:")
    other = registered(joint, "gang:4x4")
    other.allocate(gpus(4, 4), blacklist=["GPU-A1"])
    sentence = joint.await_state(other.app_id, FULL)
    app.finish()
    sentence = joint.await_state(other.app_id, reason_pb2.WAITING_REASON_CODE_CONFINED)
    assert sentence.endswith("not gpu-a1")


@contextmanager
def ghost(joint: ServedJoint, name: str, address: str) -> Iterator[server_pb2.Server]:
    """Let a server register under this name; yields it as the service knows it."""
    with (joint.cluster.folder / "hosts").open("a") as hosts:
        hosts.write(f"{address} {name.partition(':')[0]}\n")
    # One GPU, no more: what was seen of the cluster counts until the service starts anew.
    joint.apps.ask("ghost", server=name, gpus=1)
    known = lambda: [one.server for one in joint.client.servers() if one.server.server_id == name]  # noqa: E731 - one line, used once
    try:
        yield joint.until(known, bool, f"the service knows {name}")[0]
    finally:
        joint.apps.ask("ghost_gone", server=name)


def test_c27_a_server_that_registers_in_capitals_is_found_in_small_letters(joint: ServedJoint) -> None:
    with ghost(joint, "GPU-Z9:45454", "127.0.9.9") as server:
        assert server.host == "gpu-z9"
        app = registered(joint, "gang:1x1")
        app.allocate(on_hosts(1, 1, {"gpu-z9": 1}, ["/default-rack"]))
        app.hold(1)
        assert servers(joint, app, 1) == [server.server_id]
        app.finish()


@pytest.mark.parametrize("asked", ["rack", "name"])
def test_c27_a_server_with_a_full_name_has_its_rack_and_is_met_by_that_name_however_it_is_written(
    joint: ServedJoint, asked: str
) -> None:
    holder = registered(joint, "gang:2x4")
    holder.allocate(gpus(2, 4, places={"/rack-b": 2, "*": 2}, strict=["*"]))
    assert {one["server"].partition(":")[0] for one in holder.hold(2)} == {"gpu-b1", "gpu-b2"}
    with ghost(joint, f"GPU-F-{asked}.Example.org:45454", RACK_B_ADDRESS) as server:
        assert (server.host, server.rack) == (f"gpu-f-{asked}.example.org", "/rack-b")
        short = registered(joint, "gang:1x1")
        short.allocate(on_hosts(1, 1, {f"gpu-f-{asked}": 1}, ["/rack-b"]))
        sentence = joint.await_state(short.app_id, reason_pb2.WAITING_REASON_CODE_CONFINED)
        assert sentence.endswith(f"only gpu-f-{asked}")
        app = registered(joint, "gang:1x1")
        if asked == "rack":
            app.allocate(gpus(1, 1, places={"/rack-b": 1, "*": 1}, strict=["*"]))
        else:
            app.allocate(on_hosts(1, 1, {f"Gpu-F-{asked}.EXAMPLE.org": 1}, ["/rack-b"]))
        app.hold(1)
        assert servers(joint, app, 1) == [server.server_id]
        app.finish()


def test_c27_a_full_name_that_no_server_bears_is_named_as_the_reason(joint: ServedJoint) -> None:
    app = registered(joint, "gang:1x1")
    app.allocate(on_hosts(1, 1, {"gpu-b2.Example.org": 1}, ["/rack-b"]))
    sentence = joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_CONFINED)
    assert sentence.endswith("only gpu-b2.example.org")


# C28


def test_c28_helpers_that_fill_the_servers_leave_every_gpu_its_share(joint: ServedJoint) -> None:
    share_mb = 1843  # of each GPU: 8192 MB, less a tenth, by 4
    helpers = registered(joint)
    helpers.allocate(plain(200, memory_mb=192))
    helpers.hold(30)
    joint.await_state(helpers.app_id, reason_pb2.WAITING_REASON_CODE_OTHER_RESOURCES)
    spread = lambda: {server.split(":")[0] for server, _ in joint.placed_now(helpers.app_id).values()}  # noqa: E731 - one line, used once
    joint.until(spread, {"gpu-a1", "gpu-a2", "gpu-b1", "gpu-b2", CPU_HOST}.__eq__, "they are everywhere")
    gang = registered(joint, "gang:16x1")
    gang.allocate(gpus(16, 1, memory_mb=share_mb // 64 * 64))
    gang.hold(16)
