"""The settings that a queue has for this scheduler, beside YARN's own: ``yarn.scheduler.capacity.<path>.ygs.<name>``.

What a queue does not say, the nearest queue above it does.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

SECONDS_MAX = 31_536_000
GPUS_MAX = 1_000_000
_WHOLE = re.compile(r"\d{1,9}", re.ASCII)


class QueueSettings(msgspec.Struct, frozen=True, gc=False):
    """What a queue sets; ``None``: nobody says.

    Seconds at a level of locality and the most that a job may ask for; the longest time that a job may run, and what it is taken to
    run if it says nothing; GPUs that a user, or a job, may use at once; whether users take turns.
    """

    debounce: bool = False
    relax_after_s: int | None = None
    relax_after_max_s: int | None = None
    max_runtime_s: int | None = None
    default_runtime_s: int | None = None
    max_gpus_per_user: int | None = None
    max_gpus_per_job: int | None = None
    user_fairness: bool = False


class SettingError(ValueError):
    """A setting that is not known, or a value that is none: name, value, and what would be right."""


def read_settings(pairs: Iterable[tuple[str, str]], above: QueueSettings) -> tuple[QueueSettings, list[str]]:
    """Read a queue's settings; also give, a sentence each, what is wrong with them: that counts as not said."""
    found: dict[str, Any] = {}
    wrong = []
    for name, value in pairs:
        try:
            field, read = _known(name)
            found[field] = read(name, value.strip().lower())
        except SettingError as problem:
            wrong.append(str(problem))
    return msgspec.structs.replace(above, **found), wrong


def _known(name: str) -> tuple[str, Callable[[str, str], Any]]:
    known = _READERS.get(name)
    if known is None:
        raise SettingError(f"ygs.{name} is not known, one of {', '.join(sorted(_READERS))} would be right")
    return known


def _seconds(name: str, value: str) -> int:
    return _whole(name, value, SECONDS_MAX, "seconds")


def _seconds_of_work(name: str, value: str) -> int:
    """No time at all would end every job: who writes 0 for "no limit" must not."""
    return _whole(name, value, SECONDS_MAX, "seconds", least=1)


def _gpus(name: str, value: str) -> int:
    return _whole(name, value, GPUS_MAX, "GPUs")


def _whole(name: str, value: str, most: int, unit: str, *, least: int = 0) -> int:
    if _WHOLE.fullmatch(value) is None or not least <= int(value) <= most:
        raise SettingError(f'ygs.{name} "{value[:40]}": {least} to {most} {unit}, a whole number, would be right')
    return int(value)


def _truth(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise SettingError(f'ygs.{name} "{value[:40]}": true or false would be right')
    return value == "true"


def _debounce(name: str, value: str) -> bool:
    if value not in ("none", "debounce"):
        raise SettingError(f'ygs.{name} "{value[:40]}": none or debounce would be right')
    return value == "debounce"


_READERS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "gang": ("debounce", _debounce),
    "relax-after-s": ("relax_after_s", _seconds),
    "relax-after-max-s": ("relax_after_max_s", _seconds),
    "max-runtime-s": ("max_runtime_s", _seconds_of_work),
    "default-runtime-s": ("default_runtime_s", _seconds),
    "max-gpus-per-user": ("max_gpus_per_user", _gpus),
    "max-gpus-per-job": ("max_gpus_per_job", _gpus),
    "user-fairness": ("user_fairness", _truth),
}


def known_settings() -> list[str]:
    """List the names of all settings."""
    return list(_READERS)
