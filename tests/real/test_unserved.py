"""What nobody serves on servers with GPUs is refused when it is asked; elsewhere it is Hadoop's, as ever."""

from __future__ import annotations

import json
import urllib.request

import pytest

from tests.real.apps import Answer, App, AppError, gpus, on_hosts, pending, plain
from tests.real.joint import Held, ServedJoint
from yarn_gpu_sched.protocol.v1 import reason_pb2

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.timeout(300)]
SLEEP = "sleep 300"


def holding(joint: ServedJoint, ask: dict[str, object], *tags: str) -> tuple[App, Answer]:
    """Let an application hold one running container."""
    app = joint.apps.submit(tags=list(tags)).register()
    app.allocate(ask)
    (container,) = app.hold(1)
    app.launch(SLEEP)
    state = lambda: joint.node(container["server"].split(":")[0])["numContainers"]  # noqa: E731 - one line, used once
    joint.until(state, lambda count: count == 1, "its server knows the container")
    return app, container


def sizes(joint: ServedJoint, app: App) -> list[int]:
    return [one.resource.memory_mb for one in joint.view(app.app_id).containers]


def change(kind: str, container: Answer, memory_mb: int = 256, **more: int) -> dict[str, object]:
    """Return an update of a container to this size."""
    return {"kind": kind, "container": container["container"], "memory_mb": memory_mb, "vcores": 1, **more}


def refused(app: App, joint: ServedJoint, *told: str, **request: object) -> None:
    """Ask something refused, with an ask beside it: the sentence tells what it must, nothing is applied, the master may go on."""
    with pytest.raises(AppError) as problem:
        app.allocate(gpus(1, 2, key=9), **request)  # type: ignore[arg-type] # requests by name
    assert "InvalidResourceRequestException" in str(problem.value)
    for words in told:
        assert words in str(problem.value)
    assert pending(joint.app(app.app_id)) == [], "the ask beside it was applied"
    assert app.allocate()["allocated"] == []


def test_a_constraint_with_gpus_is_refused_and_what_is_right_is_said(joint: ServedJoint) -> None:
    app = joint.apps.submit().register()
    joint.await_state(app.app_id, reason_pb2.WAITING_REASON_CODE_NOT_ASKED)
    refused(app, joint, "scheduling request 7", "apart", "yarn.io/gpu: 2", constrained=[gpus(2, 2, key=7)])
    assert joint.held().containers == 0
    app.allocate(gpus(1, 2, key=9))
    app.hold(1)


def test_a_constraint_without_gpus_is_served_by_stock_placement(joint: ServedJoint) -> None:
    app = joint.apps.submit().register()
    app.allocate(constrained=[plain(2, key=7)])
    (container,) = app.hold(1)
    assert container["server"].startswith("cpu-1:")
    for _ in range(5):  # the other must not be beside it, and no other server is stock placement's
        assert app.allocate()["allocated"] == []
    assert joint.held().containers == 1


@pytest.mark.parametrize("more", [{"memory_mb": 512, "gpus": 1}, {"memory_mb": 256, "gpus": 2}], ids=["memory", "GPUs"])
def test_an_increase_where_gpus_are_is_refused(joint: ServedJoint, more: dict[str, int]) -> None:
    app, container = holding(joint, gpus(1), "gang:1x1")
    update = change("INCREASE_RESOURCE", container, **more)
    refused(app, joint, container["container"], container["server"], "with its 1 GPUs", updates=[update])
    assert joint.held() == Held(1, 0, 256, 1, 0)


def test_an_increase_of_a_container_without_gpus_beside_gpus_is_refused(joint: ServedJoint) -> None:
    app, container = holding(joint, on_hosts(1, 0, {"gpu-a1": 1}, ["/rack-a"]))
    refused(app, joint, "INCREASE_RESOURCE", updates=[change("INCREASE_RESOURCE", container, 512)])
    refused(app, joint, "DEMOTE_EXECUTION_TYPE", updates=[change("DEMOTE_EXECUTION_TYPE", container)])


def test_an_increase_without_gpus_is_served_by_stock_placement(joint: ServedJoint) -> None:
    app, container = holding(joint, on_hosts(1, 0, {"cpu-1": 1}, ["/rack-a"]))
    assert container["server"].startswith("cpu-1:")
    refused(
        app,
        joint,
        "to <memory:512, vCores:1, yarn.io/gpu: 1>",
        updates=[change("INCREASE_RESOURCE", container, 512, gpus=1)],
    )
    updated = app.allocate(updates=[change("INCREASE_RESOURCE", container, 512)])["updated"]
    while not updated:  # bounded by the test's own time
        updated = app.allocate()["updated"]
    assert [one["memory_mb"] for one in updated] == [512]
    joint.until(lambda: sizes(joint, app), lambda now: now == [512], "the service knows the new size")


def of_server(joint: ServedJoint, host: str, container_id: str) -> Answer:
    """Return a container as its server itself shows it."""
    address = next(one.address for one in joint.cluster.spec.server_list() if one.name == host)
    port = joint.node(host)["nodeHTTPAddress"].rsplit(":", 1)[1]
    with urllib.request.urlopen(f"http://{address}:{port}/ws/v1/node/containers/{container_id}", timeout=20) as answer:
        return dict(json.load(answer)["container"])


def test_a_decrease_is_followed_and_the_gpus_stay_what_they_were(joint: ServedJoint) -> None:
    """Restarted, the resource manager knows it from the server; and counts right again, which it does not after a decrease."""
    other = joint.apps.submit(tags=["gang:1x1"]).register()
    other.allocate(on_hosts(1, 1, {"gpu-a1": 1}, ["/rack-a"]))
    other.hold(1)
    app = joint.apps.submit(tags=["gang:1x2"]).register()
    app.allocate(on_hosts(1, 2, {"gpu-a1": 1}, ["/rack-a"], memory_mb=1024))
    (container,) = app.hold(1)
    app.launch(SLEEP)
    joint.until(lambda: joint.node("gpu-a1")["numContainers"], lambda count: count == 2, "both are there")
    before = joint.placed(app.app_id, 1)
    updated = app.allocate(updates=[change("DECREASE_RESOURCE", container, 512, gpus=2)])["updated"]
    assert [one["memory_mb"] for one in updated] == [512]
    joint.until(lambda: sizes(joint, app), lambda now: now == [512], "the service knows the new size")
    assert joint.placed_now(app.app_id) == before == {container["container"]: (container["server"], (1, 2))}
    assert sorted(joint.gpu_tags("gpu-a1")) == ["gpu_0", "gpu_1", "gpu_2"]
    assert joint.node("gpu-a1")["usedMemoryMB"] == 256 + 512
    granted = lambda: of_server(joint, "gpu-a1", container["container"])["totalMemoryNeededMB"]  # noqa: E731 - one line, used once
    joint.until(granted, lambda now: now == 512, "its server knows the new size")
    joint.cluster.kill("rm")
    joint.until(lambda: joint.client.cluster().connected, lambda up: not up, "the service has noticed")
    joint.cluster.start("rm")
    joint.cluster.await_servers(wait_s=90)
    joint.await_connected()
    joint.until(
        lambda: joint.placed_now(app.app_id), lambda now: now == before, f"the GPUs are those of before, {before}"
    )
    assert sizes(joint, app) == [512]


def test_a_decrease_of_gpus_is_refused(joint: ServedJoint) -> None:
    app, container = holding(joint, gpus(1, 2), "gang:1x2")
    refused(app, joint, "with its 2 GPUs", updates=[change("DECREASE_RESOURCE", container, 256, gpus=1)])
    assert joint.held() == Held(1, 0, 256, 2, 0)
