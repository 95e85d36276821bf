"""Random tests that are short in `make test` and long in `make soak`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

SOAK = "YGS_SOAK" in os.environ
Test = TypeVar("Test", bound=Callable[..., None])


def fuzzed(examples: int, examples_of_soak: int) -> Callable[[Test], Test]:
    """Draw so many examples, the same ones every time unless YGS_RANDOM is set; in the soak the test is one of the slow ones."""
    drawn = settings(
        max_examples=examples_of_soak if SOAK else examples,
        deadline=None,
        derandomize="YGS_RANDOM" not in os.environ,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )

    def decorate(test: Test) -> Test:
        if SOAK:
            test = pytest.mark.slow(pytest.mark.timeout(1_800)(test))
        return drawn(test)

    return decorate
