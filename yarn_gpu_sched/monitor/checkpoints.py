"""Looks which containers touched their checkpoint files, so that the service learns that their jobs' work is safe.

A bounded number of files is looked at each time, so with many containers a touch is seen later.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yarn_gpu_sched.binding import CheckpointFiles

LOOK_S = 2.0
FILES_MAX = 2_000


class Checkpoints:
    """Knows when each container's file was touched last."""

    def __init__(self, files: CheckpointFiles) -> None:
        self._files = files
        self._seen_ns: dict[str, int] = {}
        self._turn: dict[str, None] = {}

    def next_names(self, container_ids: Iterable[str]) -> list[str]:
        """Return the containers whose turn it is; those that are not named are forgotten."""
        there = dict.fromkeys(container_ids)
        self._turn = {name: None for name in self._turn if name in there} | there
        self._seen_ns = {name: at_ns for name, at_ns in self._seen_ns.items() if name in there}
        names = list(islice(self._turn, FILES_MAX))
        for name in names:
            self._turn[name] = self._turn.pop(name)
        return names

    def look(self, names: Iterable[str]) -> dict[str, int]:
        """Say when each was touched. May block."""
        return self._files.touched_ns(names)

    def news(self, touched_ns: dict[str, int]) -> list[str]:
        """List who touched its file since it was looked at last; what a monitor before saw is no news."""
        news = []
        for name, at_ns in touched_ns.items():
            before_ns = self._seen_ns.get(name)
            self._seen_ns[name] = at_ns
            if at_ns != before_ns and (before_ns is not None or name in self._files.made):
                news.append(name)
        return news
