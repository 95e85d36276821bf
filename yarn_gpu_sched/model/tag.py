"""Application tags that are read: ``key:value``, the key trimmed and case-blind (YARN lower-cases tags itself)."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

_SHOWN_MAX = 100


class TagError(ValueError):
    """A tag that cannot be read, or two that disagree. The text shows the tag."""


def shown(text: str) -> str:
    """Make text from anybody fit for a message: no control characters, bounded."""
    clean = "".join(char if char.isprintable() else "?" for char in text[: _SHOWN_MAX + 1])
    return clean if len(clean) <= _SHOWN_MAX else f"{clean[:_SHOWN_MAX]}…"


@lru_cache(maxsize=4_096)
def _said(tag: str) -> tuple[str, str]:
    """Split a tag into its key and value; no key where it has none."""
    key, colon, value = tag.partition(":")
    return (key.strip().lower(), value.strip().lower()) if colon else ("", "")


def values_of(tags: tuple[str, ...], readers: Mapping[str, Callable[[str, str], Any]]) -> dict[str, Any]:
    """Read the tags of some keys, each by ``read(tag, value)``; a key that no tag has is left out.

    Raises TagError for what is unreadable or contradictory: it is never guessed.
    """
    found: dict[str, Any] = {}
    for tag in tags:
        key, value = _said(tag)
        read = readers.get(key)
        if read is not None and found.setdefault(key, now := read(tag, value)) != now:
            first = next(one for one in tags if _said(one)[0] == key)
            raise TagError(f'tags "{shown(first)}" and "{shown(tag)}" contradict each other: give one {key} tag')
    return found
