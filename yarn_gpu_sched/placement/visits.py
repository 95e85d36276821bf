"""How much a search looked at."""

from collections.abc import Iterator
from contextlib import contextmanager


class Visits:
    """How many index entries all searches so far have visited.

    ``entries`` are domains and servers that were looked at; that a bucket is empty is known without.
    """

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries = 0

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Count nothing meanwhile: somebody only wants to know."""
        entries = self.entries
        try:
            yield
        finally:
            self.entries = entries
