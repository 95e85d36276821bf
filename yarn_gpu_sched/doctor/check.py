"""A check: its name, what it looks at, what it means when it finds something, and how it looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from yarn_gpu_sched.doctor.finding import CannotLook, Finding, Result, Verdict, result, unseen
from yarn_gpu_sched.doctor.installation import Installation

Look = Callable[[Installation], Iterable[Finding]]


class Check(msgspec.Struct, frozen=True):
    """One thing that is examined. ``looks_at``, ``means`` and ``do`` are what docs/doctor.md says of it."""

    name: str
    looks_at: str
    means: str
    do: str
    look: Look

    def run(self, installation: Installation) -> Result:
        """Look. What cannot be looked at is said; a check that fails on what it is told says so and keeps no other from looking."""
        return result(self.name, self._found(installation))

    def _found(self, installation: Installation) -> Iterator[Finding]:
        try:
            yield from self.look(installation)
        except CannotLook as why:
            yield unseen(str(why), why.do)
        except Exception as error:  # noqa: BLE001 - whatever daemons answer, the other checks go on
            yield Finding(
                Verdict.UNSEEN,
                f"this check failed on what it was told: {type(error).__name__}: {error}",
                "report it, with the pages that it looks at (docs/doctor.md)",
            )
