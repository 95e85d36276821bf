"""`ygs doctor`: examines an installation end to end and says what to do.

A check is a function that looks at one thing (`CHECKS` has all of them, docs/doctor.md tells them); it yields findings, each
with a verdict, a sentence with numbers, and what to do. Nothing is changed, but for a small file that is written into HDFS and
removed again, where HDFS was named. Checks are independent: what cannot be looked at is said, and the others go on. Everything
is bounded in time together.
"""

from __future__ import annotations

from collections.abc import Iterator

from yarn_gpu_sched.doctor.catalogue import CHECKS
from yarn_gpu_sched.doctor.check import Check
from yarn_gpu_sched.doctor.finding import CannotLook, Finding, Result, Verdict
from yarn_gpu_sched.doctor.installation import Installation, OpenClient, Places


def examine(installation: Installation) -> Iterator[Result]:
    """Make all checks, one after the other."""
    for check in CHECKS:
        yield check.run(installation)


__all__ = [
    "CHECKS",
    "CannotLook",
    "Check",
    "Finding",
    "Installation",
    "OpenClient",
    "Places",
    "Result",
    "Verdict",
    "examine",
]
