"""Quotas in percent and as weights, in whole units."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from yarn_gpu_sched.model.capacity_text import Amount, Measure
from yarn_gpu_sched.model.shares import Part, maxima, translate


def absolute(value: int) -> Amount:
    return Amount(Measure.ABSOLUTE, value)


def percent(value: float) -> Amount:
    return Amount(Measure.PERCENT, value)


def weight(value: float) -> Amount:
    return Amount(Measure.WEIGHT, value)


def test_percentages_are_of_the_parent_and_what_rounding_leaves_goes_to_the_largest_fractions() -> None:
    amounts = {
        "root.a": percent(33.4),
        "root.b": percent(33.3),
        "root.c": percent(33.3),
        "root.a.x": percent(50),
        "root.a.y": percent(50),
    }
    assert translate(amounts, 10) == {
        "root.a": Part(4, translated=True),
        "root.b": Part(3, translated=True),
        "root.c": Part(3, translated=True),
        "root.a.x": Part(2, translated=True),
        "root.a.y": Part(2, translated=True),
    }


def test_weights_share_what_the_rest_leaves() -> None:
    amounts = {"root.a": absolute(4), "root.b": percent(25), "root.c": weight(1), "root.d": weight(3)}
    assert {path: part.units for path, part in translate(amounts, 16).items()} == {
        "root.a": 4,
        "root.b": 4,
        "root.c": 2,
        "root.d": 6,
    }


def test_who_names_none_has_none_and_what_is_part_of_it_has_none() -> None:
    amounts = {"root.a": None, "root.a.x": percent(50), "root.a.y": absolute(2), "root.b": absolute(0)}
    assert {path: part.units for path, part in translate(amounts, 16).items()} == {
        "root.a": None,
        "root.a.x": None,
        "root.a.y": 2,
        "root.b": 0,
    }


def test_weights_beside_more_than_there_is_share_nothing() -> None:
    assert translate({"root.a": absolute(20), "root.b": weight(1)}, 16)["root.b"] == Part(0, translated=True)


def test_maxima_are_of_the_parents_maximum_and_all_of_it_is_no_limit() -> None:
    limits = {
        "root.a": percent(50),
        "root.a.x": percent(50),
        "root.b": percent(100),
        "root.b.y": absolute(3),
        "root.c": None,
    }
    assert maxima(limits, 16) == {"root.a": 8, "root.a.x": 4, "root.b": None, "root.b.y": 3, "root.c": None}


paths = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(lambda names: ".".join(["root", *names]))
measured = st.one_of(
    st.none(),
    st.integers(0, 50).map(absolute),
    st.integers(0, 1000).map(lambda tenths: percent(tenths / 10)),
    st.integers(0, 9).map(weight),
)


@given(st.dictionaries(paths, measured, max_size=12), st.integers(0, 1000))
def test_every_queue_has_a_part_and_translated_siblings_have_no_more_than_their_exact_shares(
    amounts: dict[str, Amount | None], total: int
) -> None:
    parts = translate(amounts, total)
    assert parts.keys() == amounts.keys()
    exact: dict[str, float] = defaultdict(float)
    units: dict[str, int] = defaultdict(int)
    for path, amount in amounts.items():
        above = path.rpartition(".")[0]
        part = parts[path]
        if amount is not None and amount.measure is Measure.PERCENT and part.units is not None:
            has = total if above == "root" or above not in amounts else parts[above].units
            exact[above if above in amounts else "root"] += (has or 0) * amount.value / 100
            units[above if above in amounts else "root"] += part.units
    for above, most in exact.items():
        assert units[above] <= most + 1
