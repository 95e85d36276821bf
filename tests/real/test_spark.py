"""Real Spark finishes beside GPU gangs, whatever becomes of the service: its containers ask for no GPU."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.real import beside
from tests.real.joint import ServedJoint
from tests.real.spark import DYNAMIC, STATIC, SparkRun, spark_folder

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.both,
    pytest.mark.timeout(600),
    pytest.mark.skipif("YGS_SOAK" not in os.environ, reason="long: set YGS_SOAK=1"),
    pytest.mark.skipif(not spark_folder().is_dir(), reason="Spark is not here: `make spark` fetches it (400 MB)"),
]
COUNTS = {"gang": 160, "of": 80, "and": 80, "words": 160}
WAIT_S = 240.0


@contextmanager
def submitted(joint: ServedJoint, folder: Path, mode: str, settings: dict[str, str]) -> Iterator[SparkRun]:
    run = SparkRun(joint.cluster, folder, mode, settings)
    try:
        yield run
    finally:
        run.end()


@pytest.fixture
def gangs(joint: ServedJoint) -> Iterator[None]:
    with beside.gangs(joint):
        yield


@pytest.fixture
def service_away(joint: ServedJoint, gangs: None) -> Iterator[None]:
    del gangs  # they come before the service goes
    with beside.service_away(joint):
        yield


def counted(joint: ServedJoint, run: SparkRun, name: str) -> dict[str, Any]:
    """Wait for a file of the job, which it writes at once."""
    file = run.folder / name

    def look() -> bool:
        assert run.ended() in (None, 0), run.log
        return file.exists() and file.read_text().endswith("}")

    joint.until(look, bool, f"Spark has written {file}", WAIT_S)
    told: dict[str, Any] = json.loads(file.read_text())
    assert told["counts"] == COUNTS
    return told


def finishes(joint: ServedJoint, run: SparkRun) -> tuple[dict[str, Any], dict[str, Any]]:
    """Let the job go on to its end; return what it tells of the time before and after."""
    before = counted(joint, run, "counted")
    listening = run.listening()
    assert any(listening.values()), "the driver listens, and executors"
    for process, addresses in listening.items():
        assert all(one.startswith(("127.", "::ffff:127.", "::1")) for one in addresses), f"{process}: {addresses}"
    if "spark.dynamicAllocation.enabled" in run.settings:
        joint.until(lambda: containers(joint, run), lambda left: left == 1, "idle executors are released", WAIT_S)
    (run.folder / "go").touch()
    after = counted(joint, run, "ended")
    assert joint.until(run.ended, lambda code: code is not None, "spark-submit ends", WAIT_S) == 0, run.log
    ended = joint.until(
        lambda: joint.app(run.app_id), lambda app: app["state"] == "FINISHED", f"{run.app_id} has ended"
    )
    assert ended["finalStatus"] == "SUCCEEDED"
    return before, after


def containers(joint: ServedJoint, run: SparkRun) -> int:
    """Return how many containers the job has, its master's included."""
    return int(joint.app(run.app_id)["runningContainers"])


@pytest.mark.usefixtures("gangs")
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_spark_with_a_fixed_number_of_executors_finishes_beside_gangs(
    joint: ServedJoint, workers: Path, mode: str
) -> None:
    with submitted(joint, workers / "spark", mode, STATIC) as run:
        before, after = finishes(joint, run)
    assert before["busy"] == after["busy"] == 3


@pytest.mark.usefixtures("gangs")
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_spark_that_grows_and_shrinks_finishes_beside_gangs(joint: ServedJoint, workers: Path, mode: str) -> None:
    with submitted(joint, workers / "spark", mode, DYNAMIC) as run:
        before, after = finishes(joint, run)
    assert min(before["busy"], after["busy"]) > 1, "it has grown, shrunk to none and grown again"


@pytest.mark.usefixtures("service_away")
@pytest.mark.parametrize("settings", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_spark_finishes_while_the_service_is_away(joint: ServedJoint, workers: Path, settings: dict[str, str]) -> None:
    with submitted(joint, workers / "spark", "cluster", settings) as run:
        finishes(joint, run)
