"""The cluster in containers, brought up once; `make test-docker` asks for these tests, nothing else does."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.docker.compose import Compose

ASKED = os.environ.get("YGS_TEST_DOCKER", "") == "1"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a container engine, unless it is asked for."""
    if ASKED:
        return
    ours = [item for item in items if item.get_closest_marker("docker")]
    if ours:
        config.hook.pytest_deselected(items=ours)
        items[:] = [item for item in items if not item.get_closest_marker("docker")]


@pytest.fixture(scope="session")
def compose() -> Iterator[Compose]:
    """Return the cluster with one ResourceManager; its containers go afterwards."""
    cluster = Compose()
    cluster.up()
    yield cluster
    cluster.command("down")


@pytest.fixture
def cluster(compose: Compose) -> Iterator[Compose]:
    """Return the cluster; a test's jobs, and what it did to servers, are gone afterwards."""
    yield compose
    compose.as_it_was()
