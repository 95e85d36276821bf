"""Application tags that are read: ``key:value``, the key trimmed and case-blind (YARN lower-cases tags itself)."""

from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
_SHOWN_MAX = 100


class TagError(ValueError):
    """A tag that cannot be read, or two that disagree. The text shows the tag."""


def shown(text: str) -> str:
    """Make text from anybody fit for a message: no control characters, bounded."""
    clean = "".join(char if char.isprintable() else "?" for char in text[: _SHOWN_MAX + 1])
    return clean if len(clean) <= _SHOWN_MAX else f"{clean[:_SHOWN_MAX]}…"


def value_of(tags: tuple[str, ...], key: str, read: Callable[[str, str], Value]) -> Value | None:
    """Read the tags of a key, each by ``read(tag, value)``; None if there is none.

    Raises TagError for what is unreadable or contradictory: it is never guessed.
    """
    found: dict[Value, str] = {}
    for tag in tags:
        name, colon, value = tag.partition(":")
        if colon and name.strip().lower() == key:
            found.setdefault(read(tag, value.strip().lower()), tag)
    if len(found) > 1:
        first, second = list(found.values())[:2]
        raise TagError(f'tags "{shown(first)}" and "{shown(second)}" contradict each other: give one {key} tag')
    return next(iter(found), None)
