"""Check of clocks: nothing of ours is timed by them, tokens and certificates are."""

from __future__ import annotations

from collections.abc import Iterator

from yarn_gpu_sched.doctor.finding import CannotLook, Finding, counted, fault, named, ok, unseen, warning
from yarn_gpu_sched.doctor.installation import Installation

NOTICED_S, WRONG_S = 5.0, 300.0
"""Beyond the first logs mislead; beyond the second Kerberos refuses, and NodeManagers soon refuse YARN's container tokens."""
_SET = "set the clocks by NTP: chronyc tracking, timedatectl"


def clocks(installation: Installation) -> Iterator[Finding]:
    """How far the clocks of all machines that can be asked are from this one's."""
    ahead: dict[str, float] = {}
    missing: list[str] = []
    for name, seen in (("ResourceManager", _of_rm(installation)), ("service", _of_service(installation))):
        if seen is None:
            missing.append(name)
        else:
            ahead[name] = seen
    try:
        ahead |= {pages.node.host: pages.ahead_s for pages in installation.node_pages if pages.ahead_s is not None}
    except CannotLook:
        missing.append("NodeManagers")
    yield from _judged(ahead)
    if missing:
        yield unseen(f"nobody says what time it is at: {named(missing)}")


def _of_rm(installation: Installation) -> float | None:
    try:
        return installation.rm[2]
    except CannotLook:
        return None


def _of_service(installation: Installation) -> float | None:
    try:
        return installation.told.ahead_s
    except CannotLook:
        return None


def _judged(ahead: dict[str, float]) -> Iterator[Finding]:
    odd = {name: off_s for name, off_s in ahead.items() if abs(off_s) > NOTICED_S}
    listed = [f"{name} {off_s:+.0f} s" for name, off_s in sorted(odd.items(), key=lambda item: -abs(item[1]))]
    if any(abs(off_s) > WRONG_S for off_s in odd.values()):
        yield fault(f"clocks differ from this machine's: {named(listed)}", _SET)
    elif odd:
        yield warning(f"clocks differ from this machine's: {named(listed)}", _SET)
    elif ahead:
        yield ok(
            f"{counted(len(ahead), 'clock')} within {max(1.0, *(abs(off_s) for off_s in ahead.values())):.0f} s of this machine's"
        )
