"""All that an application's tags tell of it.

``gang:…``: see `gang_tag`. ``locality:CEILING[@SECONDS]``: never placed looser than level 0, 1 or 2, and so many seconds at a level
before the next. ``runtime:SECONDS``: how long the job says that it runs, once it has what it needs. ``checkpoint:SECONDS``: how
often it writes down what it has done.
"""

import re
from collections.abc import Callable
from functools import lru_cache

import msgspec

from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.gang_tag import GangTag, read_gang
from yarn_gpu_sched.model.tag import TagError, shown, values_of

SECONDS_MAX = 99_999_999
"""Most seconds that a tag may say: three years."""

_LOCALITY = re.compile(r"([012])(?:@(\d{1,8}))?", re.ASCII)
_SECONDS = re.compile(r"\d{1,8}", re.ASCII)


class LocalityTag(msgspec.Struct, frozen=True, gc=False):
    """``ceiling``: never looser. ``relax_after_s``: seconds a level; None leaves it to the virtual cluster."""

    ceiling: Level
    relax_after_s: int | None = None


class JobTags(msgspec.Struct, frozen=True, gc=False):
    """What the tags say; None where none of them speaks of it."""

    gang: GangTag | None = None
    locality: LocalityTag | None = None
    runtime_s: int | None = None
    checkpoint_every_s: int | None = None


@lru_cache(maxsize=4_096)
def job_tags(tags: tuple[str, ...]) -> JobTags:
    """Read an application's tags; those of others are nobody's business. Raises TagError."""
    found = values_of(tags, _READERS)
    return JobTags(found.get("gang"), found.get("locality"), found.get("runtime"), found.get("checkpoint"))


def _locality(tag: str, value: str) -> LocalityTag:
    match = _LOCALITY.fullmatch(value)
    if match is None:
        right = "use locality:LEVEL or locality:LEVEL@SECONDS, LEVEL 0, 1 or 2, in whole numbers"
        raise TagError(f'tag "{shown(tag)}" cannot be read: {right}')
    ceiling, relax_after_s = match.groups()
    return LocalityTag(Level(int(ceiling)), None if relax_after_s is None else int(relax_after_s))


def _seconds(tag: str, value: str) -> int:
    if _SECONDS.fullmatch(value) is None or not int(value):
        right = f"use {tag.partition(':')[0]}:SECONDS, 1 to {SECONDS_MAX}, a whole number"
        raise TagError(f'tag "{shown(tag)}" cannot be read: {right}')
    return int(value)


_READERS: dict[str, Callable[[str, str], object]] = {
    "checkpoint": _seconds,
    "gang": read_gang,
    "locality": _locality,
    "runtime": _seconds,
}
