"""What a check found: a verdict, a sentence with numbers, and what to do."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

FINDINGS_MAX = 12
"""Findings of a check that are told; the rest is counted."""


class Verdict(enum.StrEnum):
    """From good to bad."""

    OK = "ok"
    UNSEEN = "unseen"
    WARNING = "warning"
    FAULT = "fault"


_BAD = tuple(Verdict)


class CannotLook(Exception):  # noqa: N818 - a name that says what happened
    """What a check looks at cannot be had; the text says why, ``do`` what would let it."""

    def __init__(self, why: str, do: str = "") -> None:
        super().__init__(why)
        self.do = do


class Finding(msgspec.Struct, frozen=True):
    """One thing seen. ``do``: the exact key, value or command; empty where nothing has to be done."""

    verdict: Verdict
    sentence: str
    do: str = ""


class Result(msgspec.Struct, frozen=True):
    """What a check found, the worst first."""

    check: str
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of what was found."""
        return self.findings[0].verdict


def ok(sentence: str) -> Finding:
    """Say that something is as it should be, with what was seen."""
    return Finding(Verdict.OK, sentence)


def unseen(sentence: str, do: str = "") -> Finding:
    """Say that something could not be looked at, and why."""
    return Finding(Verdict.UNSEEN, sentence, do)


def warning(sentence: str, do: str) -> Finding:
    """Say that something works and will cause trouble."""
    return Finding(Verdict.WARNING, sentence, do)


def fault(sentence: str, do: str) -> Finding:
    """Say that something does not work."""
    return Finding(Verdict.FAULT, sentence, do)


def result(check: str, findings: Iterable[Finding]) -> Result:
    """Put the worst first, in the order in which they were found, and count what is too much to tell."""
    ordered = sorted(findings, key=lambda one: -_BAD.index(one.verdict))
    if not ordered:
        ordered = [unseen("there was nothing to look at")]
    more = len(ordered) - FINDINGS_MAX
    if more > 0:
        ordered = [*ordered[:FINDINGS_MAX], Finding(ordered[FINDINGS_MAX].verdict, f"and {more} more findings")]
    return Result(check, tuple(ordered))


def named(names: Iterable[str], count_max: int = 8) -> str:
    """Join names; of many the first, and how many more."""
    listed = list(names)
    rest = f" and {len(listed) - count_max} more" if len(listed) > count_max else ""
    return ", ".join(listed[:count_max]) + rest


def counted(count: int, noun: str) -> str:
    """Say how many of something there are: 1 queue, 2 queues."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
