"""A count for each domain of a partition, for all of them together.

A tally is a list of binary digits: bit i of ``tally[d]`` is digit d of the count of ``domains[i]``. A change flips the digits that
differ, and "which domains have at least n" looks once at each digit, however many domains there are.
"""

from functools import lru_cache
from itertools import zip_longest

Tally = list[int]


@lru_cache(maxsize=4_096)
def ones(number: int) -> tuple[int, ...]:
    """Give the places of the binary digits that are 1."""
    return tuple(place for place in range(number.bit_length()) if number >> place & 1)


def change(tally: Tally, domain: int, before: int, after: int) -> None:
    """Change the count of a domain, which is given by its bit."""
    for place in ones(before ^ after):
        while place >= len(tally):
            tally.append(0)
        tally[place] ^= domain


def plus(one: Tally, other: Tally) -> Tally:
    """Add two tallies, for all domains at once."""
    total = []
    carry = 0
    for left, right in zip_longest(one, other, fillvalue=0):
        half = left ^ right
        total.append(half ^ carry)
        carry = left & right | half & carry
    if carry:
        total.append(carry)
    return total


def at_least(tally: Tally, count: int) -> int:
    """Give the domains that have at least so many; ``count`` is above 0."""
    if count.bit_length() > len(tally):
        return 0
    more, equal = 0, -1
    for place in range(len(tally) - 1, -1, -1):
        if count >> place & 1:
            equal &= tally[place]
        else:
            more |= equal & tally[place]
    return more | equal


def least(tally: Tally, domains: int) -> int:
    """Give those of a set of domains that have the least."""
    for digit in reversed(tally):
        fewer = domains & ~digit
        if fewer:
            domains = fewer
    return domains


def count_of(tally: Tally, domain: int) -> int:
    """Give the count of a domain, which is given by its bit."""
    return sum(1 << place for place, digit in enumerate(tally) if digit & domain)
