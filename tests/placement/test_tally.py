"""Counts of all domains at once, compared with a list of whole numbers."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from yarn_gpu_sched.placement.tally import Tally, at_least, change, count_of, least, ones, plus

counts = st.lists(st.integers(0, 40), min_size=1, max_size=9)


def tally_of(numbers: list[int]) -> Tally:
    tally: Tally = []
    for place, number in enumerate(numbers):
        change(tally, 1 << place, 0, number)
    return tally


def told(tally: Tally, domains: int) -> list[int]:
    return [count_of(tally, 1 << place) for place in range(domains)]


def places(domains: int) -> set[int]:
    return set(ones(domains))


@pytest.mark.parametrize(("number", "expected"), [(0, ()), (1, (0,)), (0b1010, (1, 3)), (1 << 70, (70,))])
def test_ones_are_the_places_of_set_digits(number: int, expected: tuple[int, ...]) -> None:
    assert ones(number) == expected


@given(counts, st.data())
def test_a_count_is_what_it_was_last_changed_to(numbers: list[int], data: st.DataObject) -> None:
    tally = tally_of(numbers)
    assert told(tally, len(numbers)) == numbers
    place, after = data.draw(st.integers(0, len(numbers) - 1)), data.draw(st.integers(0, 40))
    change(tally, 1 << place, numbers[place], after)
    assert told(tally, len(numbers)) == [*numbers[:place], after, *numbers[place + 1 :]]


@given(counts, counts)
def test_tallies_are_added_domain_by_domain(some: list[int], others: list[int]) -> None:
    size = max(len(some), len(others))
    total = plus(tally_of(some), tally_of(others))
    padded = [numbers + [0] * (size - len(numbers)) for numbers in (some, others)]
    assert told(total, size) == [left + right for left, right in zip(*padded, strict=True)]


def test_a_sum_has_no_digit_too_many() -> None:
    assert plus([0b1], [0b1]) == [0, 0b1]
    assert plus([0b1], [0b10]) == [0b11]
    assert plus([], []) == []


@given(counts, st.integers(1, 80))
def test_those_with_at_least_so_many(numbers: list[int], count: int) -> None:
    found = at_least(tally_of(numbers), count)
    assert places(found) == {place for place, number in enumerate(numbers) if number >= count}


@given(counts, st.data())
def test_those_with_the_least_of_a_set(numbers: list[int], data: st.DataObject) -> None:
    domains = data.draw(st.integers(1, (1 << len(numbers)) - 1))
    among = {place: numbers[place] for place in places(domains)}
    lowest = min(among.values())
    assert places(least(tally_of(numbers), domains)) == {place for place, number in among.items() if number == lowest}
