"""How the figures of `allocate` are made of calls; the calls themselves are in test_generator.py."""

from __future__ import annotations

import math

import pytest

from benchmarks.real_allocate import added, quantile, split


def test_calls_that_ask_are_told_apart_by_their_sign() -> None:
    assert split([3000, -2000, 1000, -9000, 0]) == ([0.0, 1.0, 3.0], [2.0, 9.0])


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50.0), (0.99, 99.0), (0.999, 100.0), (0.001, 1.0)])
def test_quantiles_are_by_nearest_rank(share: float, expected: float) -> None:
    assert quantile([float(number) for number in range(1, 101)], share) == expected


def test_nothing_has_no_quantile_and_holds_no_limit() -> None:
    figure = added("f", [[], [1.0], [1.0]], 0.5, 20.0)
    assert math.isnan(figure.value)
    assert not figure.held


def test_what_is_added_is_counted_from_both_stock_ones_together() -> None:
    figure = added("f", [[31.0, 32.0, 33.0], [9.0, 10.0, 11.0], [10.0, 12.0, 13.0]], 0.5, 20.0)
    assert figure.value == pytest.approx(22.0)
    assert not figure.held
    assert figure.note == "32.0; stock 10.0, control 12.0; 3 calls"
