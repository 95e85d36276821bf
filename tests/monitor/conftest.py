"""What all tests of the node monitor share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logs_as_they_are_by_default() -> Iterator[None]:
    """Take back how a test, or what it ran, has configured the log."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
