"""How much a search looked at."""


class Visits:
    """How many index entries all searches so far have visited.

    ``entries`` are domains and servers that were looked at; that a bucket is empty is known without.
    """

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries = 0
