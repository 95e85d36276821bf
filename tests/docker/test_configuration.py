"""The configuration of the cluster in containers comes from `hadoop-conf/`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docker import configuration
from yarn_gpu_sched.embedded.configuration import FILES, read

COMPOSE = (Path(configuration.__file__).parent / "compose.yaml").read_text()


@pytest.mark.parametrize("ha", [False, True])
def test_what_is_documented_is_what_runs(ha: bool) -> None:  # noqa: FBT001 - a parameter of the test
    files = configuration.cluster(ha=ha)
    for name in FILES:
        documented = read(name)
        changed = {key for key in documented if files[name].get(key) != documented[key]}
        mine = {"ygs.settle-s", "ygs.service-address", "yarn.nodemanager.admin-env"}
        if ha:
            mine.add("yarn.resourcemanager.store.class")
        queues = {key for key in documented if key.startswith("yarn.scheduler.capacity.root.")}
        assert changed <= mine | queues, name


def test_containers_bind_as_documented() -> None:
    documented = read("yarn-site")["yarn.nodemanager.admin-env"]
    assert configuration.cluster(ha=False)["yarn-site"]["yarn.nodemanager.admin-env"].startswith(documented + ",")


@pytest.mark.parametrize("ha", [False, True])
def test_a_client_has_no_key_of_ours(ha: bool) -> None:  # noqa: FBT001 - a parameter of the test
    files = configuration.client(configuration.cluster(ha=ha))
    ours = [key for values in files.values() for key, value in values.items() if "ygs." in key or "Gang" in value]
    assert ours == []
    assert files["resource-types"] == read("resource-types"), "without it a client cannot name GPUs"


def test_racks_are_those_of_the_compose_file() -> None:
    assert configuration.racks(COMPOSE, "10.0.0") == {
        "gpu-a1": "/rack-a",
        "gpu-a2": "/rack-a",
        "gpu-b1": "/rack-b",
        "10.0.0.21": "/rack-a",
        "10.0.0.22": "/rack-a",
        "10.0.0.31": "/rack-b",
    }


OF_ONE_COMPOSE_ONLY = (
    r"^(name|include|version|configs|secrets):",
    r"^ +start_interval:",
    r"^ +restart: true",
    r"^ +- path:",
    r"^ +content:",
    r"\$\{\w+:\+",
    r"!(reset|override)",
)
"""What docker-compose 1.29 or compose v2 refuses or ignores."""


@pytest.mark.parametrize("pattern", OF_ONE_COMPOSE_ONLY)
def test_both_kinds_of_compose_read_the_file(pattern: str) -> None:
    assert re.findall(pattern, COMPOSE, re.MULTILINE) == []


def test_quotas_are_the_whole_cluster() -> None:
    values = configuration.queues()
    quotas = [value for key, value in values.items() if key.endswith(".capacity")]
    assert quotas == [configuration.share(gpus) for gpus in (0, 8, 4)]
    assert configuration.share(12) == "[memory=24576,vcores=72,yarn.io/gpu=12]"


def test_files_are_replaced_as_a_whole(tmp_path: Path) -> None:
    configuration.write(tmp_path / "conf", {"core-site": {"a": "1"}}, "x\t/r\n")
    configuration.write(tmp_path / "conf", {"core-site": {"a": "2"}}, "x\t/r\n")
    assert "<value>2</value>" in (tmp_path / "conf" / "core-site.xml").read_text()
    assert sorted(path.name for path in (tmp_path / "conf").iterdir()) == [
        "core-site.xml",
        "log4j.properties",
        "topology.table",
    ]
