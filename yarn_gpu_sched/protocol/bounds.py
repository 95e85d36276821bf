"""Every bound that the protocol states, and the checks that hold messages to them.

The checks are called for each field of each message on the link, so they compare first and only
build an error when there is one.
"""

import math

from yarn_gpu_sched.protocol.bad_field import BadField

MESSAGE_BYTES_MAX = 1 << 20
CHANGES_MAX = 4_096
DECISIONS_MAX = 1_024
ASSIGNMENTS_MAX = 16_384

ID_CHARACTERS_MAX = 256
PATH_CHARACTERS_MAX = 1_024
QUEUE_LEVELS_MAX = 64
AGENT_CHARACTERS_MAX = 128
TEXT_CHARACTERS_MAX = 4_096
REASON_CHARACTERS_MAX = 500
CALLER_CHARACTERS_MAX = 128
TAGS_MAX = 100
PLACES_MAX = 4_096
PARTITIONS_MAX = 64
QUEUE_SETTINGS_MAX = 64

MEMORY_MB_MAX = 1 << 40
VCORES_MAX = 1 << 20
GPUS_MAX = 1_024
CONTAINERS_ASKED_MAX = 1_000_000
SETTLE_S_MAX = 3_600
PAGE_SIZE_MAX = 1_000
PAGE_SIZE_DEFAULT = 100


def checked_id(field: str, value: str) -> str:
    """Require 1 to 256 characters."""
    if 0 < len(value) <= ID_CHARACTERS_MAX:
        return value
    raise BadField(field, value, f"1 to {ID_CHARACTERS_MAX} characters")


def checked_queue(field: str, value: str) -> str:
    """Require 1 to 1,024 characters, in so many levels at most: a queue. Whatever a queue uses is counted at each level."""
    if value.count(".") < QUEUE_LEVELS_MAX:
        return checked_path(field, value)
    raise BadField(field, value, f"at most {QUEUE_LEVELS_MAX} levels, with a dot between them")


def checked_path(field: str, value: str) -> str:
    """Require 1 to 1,024 characters: a queue, a rack."""
    if 0 < len(value) <= PATH_CHARACTERS_MAX:
        return value
    raise BadField(field, value, f"1 to {PATH_CHARACTERS_MAX} characters")


def checked_text(field: str, value: str, characters_max: int = PATH_CHARACTERS_MAX) -> str:
    """Require at most so many characters; empty is allowed."""
    if len(value) <= characters_max:
        return value
    raise BadField(field, value, f"at most {characters_max} characters")


def checked_count(field: str, value: int, least: int, most: int) -> int:
    """Require a whole number in a range, both ends allowed."""
    if least <= value <= most:
        return value
    raise BadField(field, value, f"{least} to {most}")


def checked_seconds(field: str, value: float, most: float = math.inf) -> float:
    """Require a finite number of seconds, from 0 to a bound."""
    if 0 <= value <= most and math.isfinite(value):
        return value
    right = "a finite number, 0 or more" if math.isinf(most) else f"0 to {most:g}"
    raise BadField(field, value, right)


def one_line(text: str) -> str:
    """Cut a text from outside and replace what is not printable: it may reach a terminal."""
    cut = text[:TEXT_CHARACTERS_MAX]
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else " " for c in cut)
