"""How much a search looked at."""


class Visits:
    """``entries``: index entries visited by all searches so far (buckets looked up, servers and domains looked at)."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries = 0
