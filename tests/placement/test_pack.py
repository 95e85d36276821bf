"""Packing by itself: what fits on a row, what keeps the share, the fewest rows, and how much may be looked at."""

from __future__ import annotations

import random
from itertools import product

import pytest

from tests.engine.world import server
from tests.placement.clusters import gang
from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement import Kind
from yarn_gpu_sched.placement import pack as pack_module
from yarn_gpu_sched.placement.pack import (
    EXACT_KINDS_MAX,
    EXACT_ROWS_MAX,
    EXACT_STEPS_MAX,
    Effort,
    Packed,
    Row,
    fewest_rows,
    pack,
)

ROW = Row(4, 1_000, 20, 200, 4)


def test_a_row_tells_what_is_free_or_what_would_be() -> None:
    use = ServerUse(server("s", 4, memory_mb=1_000, vcores=20), 0.2)
    use.take(100, 3, 0b11, 2)
    assert Row.free_of(use) == Row(2, 900, 17, 200, 4)
    assert Row.empty_of(use) == Row(4, 1_000, 20, 200, 4)


@pytest.mark.parametrize(
    ("kind", "room"),
    [
        (gang(9, 1, 0, 0), 4),
        (gang(3, 1, 0, 0), 3),
        (gang(9, 3, 0, 0), 1),
        (gang(9, 5, 0, 0), 0),
        (gang(9, 1, 300, 0), 3),
        (gang(9, 1, 0, 7), 2),
        (gang(99, 0, 100, 0), 10),
        (gang(99, 0, 0, 1), 20),
        (gang(99, 0, 0, 0), 99),
    ],
)
def test_room_is_what_the_scarcest_resource_allows(kind: Kind, room: int) -> None:
    assert ROW.room(kind) == room


def test_an_over_committed_row_has_no_room() -> None:
    assert Row(4, -10, 20, 0, 0).room(gang(9, 1, 5, 0)) == 0


@pytest.mark.parametrize(
    ("row", "keeps"),
    [
        (Row(4, 800, 16, 200, 4), True),
        (Row(4, 799, 16, 200, 4), False),
        (Row(4, 800, 15, 200, 4), False),
        (Row(0, 0, 0, 200, 4), True),
    ],
)
def test_the_share_of_every_free_gpu(row: Row, keeps: bool) -> None:  # noqa: FBT001 # a column of the table
    assert row.keeps_share() is keeps


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        (gang(1, 0, 200, 4), True),
        (gang(5, 0, 200, 4), True),
        (gang(1, 0, 201, 4), False),
        (gang(1, 0, 200, 5), False),
        (gang(1, 4, 1_000, 20), True),
        (gang(1, 5, 1, 1), False),
    ],
)
def test_one_fits_beside_the_share(kind: Kind, holds: bool) -> None:  # noqa: FBT001 # a column of the table
    assert ROW.spare_holds(kind) is holds


@pytest.mark.parametrize(
    ("counts", "strict", "left"),
    [
        ((0, 0), True, ROW),
        ((2, 0), True, Row(2, 900, 18, 200, 4)),
        ((4, 0), True, Row(0, 800, 16, 200, 4)),
        ((5, 0), True, None),
        ((0, 2), True, Row(4, 800, 16, 200, 4)),
        ((0, 3), True, None),
        ((0, 3), False, Row(4, 700, 14, 200, 4)),
        ((1, 3), True, Row(3, 650, 13, 200, 4)),
        ((1, 4), True, None),
        ((2, 3), True, Row(2, 600, 12, 200, 4)),
        ((0, 10), False, Row(4, 0, 0, 200, 4)),
        ((0, 11), False, None),
    ],
)
def test_what_is_left_by_so_many_of_each(counts: tuple[int, int], strict: bool, left: Row | None) -> None:  # noqa: FBT001 # a column of the table
    found = ROW.left_by((gang(9, 1, 50, 1), gang(9, 0, 100, 2)), counts, strict=strict)
    assert (found and found[:5]) == (left and left[:5])


def test_a_row_takes_no_more_than_it_may() -> None:
    row = ROW._replace(most=2)
    assert row.room(gang(9, 1, 50, 1)) == 2
    assert row.left_by((gang(9, 1, 50, 1), gang(9, 0, 100, 2)), (1, 2), strict=False) is None
    left = row.left_by((gang(9, 1, 50, 1), gang(9, 0, 100, 2)), (1, 1), strict=False)
    assert left is not None
    assert left.most == 0


@pytest.mark.parametrize("counts", [(1, 0), (0, 1)])
def test_no_resource_may_be_less_than_nothing(counts: tuple[int, int]) -> None:
    assert ROW.left_by((gang(1, 1, 1_001, 1), gang(1, 1, 1, 21)), counts, strict=False) is None


def random_pack(rng: random.Random) -> tuple[list[Row], tuple[Kind, ...], bool]:
    rows = [
        Row(rng.randint(0, 4), rng.randint(-1, 12), rng.randint(0, 9), rng.randint(0, 2), rng.randint(0, 1))
        for _ in range(rng.randint(1, 4))
    ]
    kinds = tuple(
        Kind(rng.randint(1, 3), rng.choice((0, 1, 2)), rng.randint(1, 4), rng.randint(0, 3))
        for _ in range(rng.randint(1, 3))
    )
    return rows, kinds, rng.random() < 0.5


def exhaustive(rows: list[Row], kinds: tuple[Kind, ...], *, strict: bool) -> int | None:
    """Try every way to give each row some of each kind; the fewest rows used, or None."""
    best: dict[tuple[int, ...], int] = {tuple(kind.containers for kind in kinds): 0}
    for row in rows:
        after = dict(best)
        for left, used in best.items():
            for counts in product(*(range(one + 1) for one in left)):
                if any(counts) and row.left_by(kinds, counts, strict=strict) is not None:
                    rest = tuple(one - count for one, count in zip(left, counts, strict=True))
                    after[rest] = min(after.get(rest, 99), used + 1)
        best = after
    return best.get((0,) * len(kinds))


def check(rows: list[Row], kinds: tuple[Kind, ...], packed: Packed, *, strict: bool) -> None:
    numbers = [number for number, _ in packed]
    assert numbers == sorted(set(numbers))
    for number, counts in packed:
        assert any(counts)
        assert rows[number].left_by(kinds, counts, strict=strict) is not None
    totals = [sum(counts[place] for _, counts in packed) for place in range(len(kinds))]
    assert totals == [kind.containers for kind in kinds]


def test_few_rows_are_packed_as_well_as_can_be() -> None:
    rng = random.Random(11)
    seen: dict[int | None, int] = {}
    for _ in range(800):
        rows, kinds, strict = random_pack(rng)
        packed = pack(rows, kinds, Effort(), strict=strict)
        if packed is not None:
            check(rows, kinds, packed, strict=strict)
        fewest = exhaustive(rows, kinds, strict=strict)
        assert (None if packed is None else len(packed)) == fewest, (rows, kinds, strict)
        assert fewest_rows(rows, kinds, Effort(), strict=strict) == fewest
        seen[fewest] = seen.get(fewest, 0) + 1
    assert min(seen.get(count, 0) for count in (None, 1, 2, 3)) > 10, seen


def test_many_rows_are_packed_without_breaking_a_rule() -> None:
    """Not always as well as can be, and perhaps not at all; but never what is not allowed."""
    rng = random.Random(12)
    found = 0
    for _ in range(300):
        _, kinds, strict = random_pack(rng)
        rows = [row for _ in range(4) for row in random_pack(rng)[0]]
        rows = [*rows, *([Row(0, 0, 0, 0, 0)] * EXACT_ROWS_MAX)]
        packed = pack(rows, kinds, Effort(), strict=strict)
        if packed is not None:
            check(rows, kinds, packed, strict=strict)
            found += 1
    assert found > 200


ROWS_THAT_NEED_THOUGHT = [Row(4, 100, 100, 0, 0), Row(3, 100, 100, 0, 0)]
KINDS_THAT_NEED_THOUGHT = (gang(1, 3), gang(2, 2))
"""The largest first takes the emptiest row for the 3 and has no room for both 2: exactly one way is left."""


def test_the_largest_first_is_corrected_where_rows_are_few() -> None:
    packed = pack(ROWS_THAT_NEED_THOUGHT, KINDS_THAT_NEED_THOUGHT, Effort(), strict=True)
    assert packed == [(0, (0, 2)), (1, (1, 0))]


@pytest.mark.parametrize(("rows_more", "found"), [(EXACT_ROWS_MAX - 2, True), (EXACT_ROWS_MAX - 1, False)])
def test_more_rows_than_so_many_are_not_looked_at_exactly(rows_more: int, found: bool) -> None:  # noqa: FBT001 # a column of the table
    rows = ROWS_THAT_NEED_THOUGHT + [Row(0, 0, 0, 0, 0)] * rows_more
    assert (pack(rows, KINDS_THAT_NEED_THOUGHT, Effort(), strict=True) is not None) is found


@pytest.mark.parametrize(("kinds_more", "found"), [(EXACT_KINDS_MAX - 2, True), (EXACT_KINDS_MAX - 1, False)])
def test_more_kinds_than_so_many_neither(kinds_more: int, found: bool) -> None:  # noqa: FBT001 # a column of the table
    kinds = KINDS_THAT_NEED_THOUGHT + tuple(gang(1, 0, 1, 1 + number) for number in range(kinds_more))
    assert (pack(ROWS_THAT_NEED_THOUGHT, kinds, Effort(), strict=False) is not None) is found


@pytest.mark.parametrize(("choices", "found"), [(1_000, True), (2, False)])
def test_what_was_found_is_kept_when_the_effort_is_spent(choices: int, found: bool) -> None:  # noqa: FBT001 # a column of the table
    effort = Effort(choices=choices)
    packed = pack(ROWS_THAT_NEED_THOUGHT, KINDS_THAT_NEED_THOUGHT, effort, strict=True)
    assert (packed is not None) is found
    assert 0 <= effort.choices < choices


def test_one_place_takes_no_more_than_its_part_of_the_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_module, "EXACT_STEPS_MAX", 5)
    effort = Effort()
    assert pack([Row(4, 99, 99, 0, 0)] * 3, (gang(5, 2), gang(4, 1)), effort, strict=True) is None
    assert effort.choices == Effort().choices - 5
    assert Effort().choices > EXACT_STEPS_MAX


def test_each_try_counts() -> None:
    effort = Effort(tries=3)
    rows = [Row(1, 9, 9, 0, 0)] * 9
    assert pack(rows, (gang(3, 1),), effort, strict=True) == [(0, (1,)), (1, (1,)), (2, (1,))]
    assert effort.tries == 0
    assert pack(rows, (gang(3, 1),), Effort(tries=2), strict=True) is None


def test_members_without_gpus_go_on_rows_that_are_used_already() -> None:
    rows = [Row(8, 100, 100, 0, 0), Row(4, 100, 100, 0, 0)] + [Row(2, 100, 100, 0, 0)] * EXACT_ROWS_MAX
    assert pack(rows, (gang(1, 8), gang(2, 0, 40)), Effort(), strict=True) == [(0, (1, 2))]
    assert pack(rows, (gang(2, 0, 40), gang(1, 8)), Effort(), strict=True) == [(0, (2, 1))]
    assert pack(rows, (gang(1, 8), gang(3, 0, 40)), Effort(), strict=True) == [(0, (1, 2)), (1, (0, 1))]


def test_of_equally_empty_rows_the_one_with_more_memory_then_the_first() -> None:
    filler = [Row(0, 0, 0, 0, 0)] * EXACT_ROWS_MAX
    assert pack([Row(4, 10, 9, 0, 0), Row(4, 20, 9, 0, 0), *filler], (gang(1, 1),), Effort(), strict=True) == [
        (1, (1,))
    ]
    assert pack([Row(4, 20, 9, 0, 0), Row(4, 20, 9, 0, 0), *filler], (gang(1, 1),), Effort(), strict=True) == [
        (0, (1,))
    ]


NO_ROOM = [Row(0, 0, 0, 0, 0)] * EXACT_ROWS_MAX
"""So many rows that only the first way of packing is tried."""


@pytest.mark.parametrize("kinds", [(gang(9, 0, 100), gang(9, 0, 50)), (gang(9, 0, 100), gang(9, 1, 50))])
def test_the_share_is_kept_whichever_kind_would_take_from_it(kinds: tuple[Kind, ...]) -> None:
    row = Row(4, 1_000, 100, 200, 0)
    assert row.left_by(kinds, (2, 0), strict=True) is not None
    assert row.left_by(kinds, (3, 0), strict=True) is None


def test_of_kinds_with_as_many_gpus_the_one_with_more_memory_goes_first() -> None:
    rows = [Row(2, 60, 9, 0, 0), Row(2, 50, 9, 0, 0), *NO_ROOM]
    assert pack(rows, (gang(1, 1, 30), gang(1, 1, 60)), Effort(), strict=True) == [(0, (0, 1)), (1, (1, 0))]


def test_members_without_gpus_go_on_a_used_row_before_an_emptier_one() -> None:
    rows = [Row(8, 10, 9, 0, 0), Row(4, 100, 9, 0, 0), *NO_ROOM]
    assert pack(rows, (gang(1, 4, 50), gang(1, 0, 5)), Effort(), strict=True) == [(1, (1, 1))]


@pytest.mark.parametrize("row", [Row(1, -5, 9, 0, 0), Row(1, 9, -5, 0, 0)])
def test_nothing_goes_on_an_over_committed_row(row: Row) -> None:
    for kind in (gang(1, 1, 0, 1), gang(1, 1, 1, 0), gang(1, 1, 0, 0)):
        assert pack([row, *NO_ROOM], (kind,), Effort(), strict=True) is None


@pytest.mark.parametrize(("strict", "packed"), [(True, None), (False, [(0, (3,))])])
def test_where_nothing_must_be_spared_the_share_is_taken(strict: bool, packed: Packed | None) -> None:  # noqa: FBT001 # a column of the table
    assert pack([Row(4, 1_000, 9, 250, 0), *NO_ROOM], (gang(3, 0, 100),), Effort(), strict=strict) == packed
