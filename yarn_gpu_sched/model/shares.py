"""Quotas and maxima in whole units, for queues that say them absolutely, in percent or as weights.

Of the largest capacity that a partition ever had, from the root down: percentages are of what the parent has, weights share what
the absolute amounts and percentages of their siblings leave. What comes out is rounded down, and what that leaves goes, a unit
each, to the largest fractions (ties: by path), so that siblings that have all of their parent in percent have all of it in units.
"""

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from yarn_gpu_sched.model.capacity_text import Amount, Measure

ROOT = "root"

ALL_PERCENT = 100


class Part(NamedTuple):
    """What a queue has of one resource type: whole units (None: no amount was named), and whether they were translated."""

    units: int | None
    translated: bool = False


def parent_of(path: str) -> str | None:
    """Name the queue above; None above the root."""
    above, dot, _ = path.rpartition(".")
    return above if dot else None


@lru_cache(maxsize=65_536)
def lineage(path: str) -> tuple[str, ...]:
    """List the queues from the one below the root down to this one."""
    names = [path]
    while (above := parent_of(names[-1])) is not None and above != ROOT:
        names.append(above)
    return tuple(names[::-1])


def translate(amounts: Mapping[str, Amount | None], total: int) -> dict[str, Part]:
    """Give each queue's amount in whole units, ``total`` being the root's. A queue whose parent is unknown hangs on the root."""
    children: dict[str, list[str]] = defaultdict(list)
    for path in sorted(amounts):
        above = parent_of(path)
        children[above if above is not None and above in amounts else ROOT].append(path)
    parts = {ROOT: Part(total)}
    todo = [ROOT]
    while todo:
        above = todo.pop()
        parts |= _siblings({path: amounts[path] for path in children[above]}, parts[above].units)
        todo += children[above]
    return {path: parts[path] for path in amounts if path in parts}


def _siblings(amounts: Mapping[str, Amount | None], has: int | None) -> dict[str, Part]:
    parts: dict[str, Part] = {}
    exact: dict[str, Fraction] = {}
    weights: dict[str, Fraction] = {}
    for path, amount in amounts.items():
        if amount is None or (has is None and amount.measure is not Measure.ABSOLUTE):
            parts[path] = Part(None)
        elif amount.measure is Measure.ABSOLUTE:
            parts[path] = Part(int(amount.value))
        elif amount.measure is Measure.PERCENT:
            exact[path] = Fraction(has or 0) * Fraction(str(amount.value)) / 100
        else:
            weights[path] = Fraction(str(amount.value))
    if weights:
        taken = sum(part.units or 0 for part in parts.values()) + sum(exact.values())
        left = max(Fraction(0), (has or 0) - taken)
        of = sum(weights.values()) or Fraction(1)
        exact |= {path: left * weight / of for path, weight in weights.items()}
    return parts | {path: Part(units, translated=True) for path, units in _whole(exact).items()}


def _whole(exact: Mapping[str, Fraction]) -> dict[str, int]:
    """Round down, and give what is left to the largest fractions."""
    units = {path: int(share) for path, share in exact.items()}
    left = int(sum(exact.values())) - sum(units.values())
    for path in _by_fraction(exact)[:left]:
        units[path] += 1
    return units


def _by_fraction(exact: Mapping[str, Fraction]) -> list[str]:
    return sorted(exact, key=lambda path: (-(exact[path] - int(exact[path])), path))


def maxima(limits: Mapping[str, Amount | None], total: int) -> dict[str, int | None]:
    """Give each queue's maximum in whole units, None where it has no limit of its own; percentages are of the parent's maximum."""
    found: dict[str, int | None] = {}
    for path in sorted(limits, key=lambda path: (path.count("."), path)):
        amount, above = limits[path], _nearest(parent_of(path), found)
        if amount is None:
            found[path] = None
        elif amount.measure is Measure.ABSOLUTE:
            found[path] = int(amount.value)
        else:
            of = total if above is None else above
            found[path] = None if amount.value >= ALL_PERCENT else int(Fraction(of) * Fraction(str(amount.value)) / 100)
    return found


def _nearest(path: str | None, found: Mapping[str, int | None]) -> int | None:
    while path is not None:
        if (units := found.get(path)) is not None:
            return units
        path = parent_of(path)
    return None
