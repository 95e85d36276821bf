"""The error for a message that can be read but must not be believed."""

from collections.abc import Sized

_SHOWN_CHARACTERS_MAX = 120


def shown(value: object) -> str:
    """Show a value in an error: escaped, so that no control sequence survives, and cut."""
    text = ascii(value)
    if len(text) <= _SHOWN_CHARACTERS_MAX:
        return text
    length = f" ({len(value)} long)" if isinstance(value, Sized) else ""
    return text[:_SHOWN_CHARACTERS_MAX] + "…" + length


class BadField(ValueError):  # noqa: N818 - a name that says what is wrong, as KeyError's cousins do
    """A field of a message breaks a rule that the protocol states.

    ``field`` is the path from the outermost message, ``value`` what stood there (escaped and
    cut), ``right`` what would be right.
    """

    def __init__(self, field: str, value: object, right: str) -> None:
        self.field = field
        self.value = value if isinstance(value, _Shown) else _Shown(shown(value))
        self.right = right
        super().__init__(f"{field}: {self.value} must be {right}")

    def within(self, path: str) -> "BadField":
        """Name the message that holds the field: ``vcores`` within ``ask.resource``.

        A bare value has no field of its own: its field is empty until it is within something.
        """
        return BadField(f"{path}.{self.field}" if self.field else path, self.value, self.right)


class _Shown(str):
    """A value that is already escaped and cut."""

    __slots__ = ()
