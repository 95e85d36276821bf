"""What the demo's claims rest on: the workers' own logs, and what the ResourceManager and the service said meanwhile."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOG_BYTES_MAX = 64 * 1024
_LINE = re.compile(
    r"(?P<at>\d+\.\d+) event=(?P<event>start|end|stopped) container=(?P<container>\S+) host=(?P<host>\S+) gpus=(?P<gpus>\S*)"
)
_TAG = re.compile(r"gpu_(\d+)")
UNSET = "unset"
_WHOLE = (["start"], ["start", "end"], ["start", "stopped"])


class BadLogError(ValueError):
    """A worker's log is not what a worker writes."""


@dataclass(frozen=True)
class Run:
    """A worker by its own log: what it saw and when. ``gpus`` is None if CUDA_VISIBLE_DEVICES was not set at all.

    ``stopped``: it did not end by itself.
    """

    container_id: str
    host: str
    gpus: tuple[int, ...] | None
    started_s: float
    ended_s: float | None
    stopped: bool = False

    @property
    def attempt(self) -> int:
        """The application's attempt that it belongs to."""
        return attempt_of(self.container_id)


@dataclass(frozen=True)
class Given:
    """What the service says a container holds."""

    host: str
    gpus: tuple[int, ...]


@dataclass(frozen=True)
class TagSample:
    """The ResourceManager's allocation tags at one moment: host, GPU index, how many live containers carry it."""

    at_s: float
    holders: dict[str, dict[int, int]]


@dataclass(frozen=True)
class Share:
    """What the service says of a queue at one moment, in GPUs."""

    at_s: float
    path: str
    quota: int
    used: int
    borrowed: int


@dataclass(frozen=True)
class Wait:
    """Why a story waits, as the service says at one moment; ``relaxes_at_s``: when it may go to level ``next_level``."""

    at_s: float
    code: str
    next_level: int | None = None
    relaxes_at_s: float | None = None


@dataclass
class Evidence:
    """All that was seen.

    ``given`` is by story and container, ``peaks`` the most containers that a story held at a look, its master not
    counted, ``samples``, ``shares`` and, by story, ``waits`` in order of time, ``levels`` of locality by story;
    ``lifted_s``: when a queue's maximum began to be lifted, and had been; ``stopped_for``: by story the ids of the
    applications for which the service says that it was stopped; ``armed_s``: when that began to be allowed.
    """

    runs: dict[str, list[Run]] = field(default_factory=dict)
    given: dict[str, dict[str, Given]] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    samples: list[TagSample] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)
    waits: dict[str, list[Wait]] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    lifted_s: tuple[float, float] = (0.0, 0.0)
    stopped_for: dict[str, list[str]] = field(default_factory=dict)
    armed_s: float = 0.0


def attempt_of(container_id: str) -> int:
    """Return the number of a container's attempt, as YARN writes it into the container's id."""
    return int(container_id.split("_")[-2])


def read_runs(folder: Path) -> list[Run]:
    """Return what the workers that logged to ``folder`` wrote, by container id. Raises BadLogError."""
    return [read_run(path) for path in sorted(folder.glob("container_*.log"))]


def read_run(path: Path) -> Run:
    """Return what one worker wrote."""
    with path.open(errors="replace") as log:
        lines = log.read(LOG_BYTES_MAX).splitlines()
    found = [_LINE.fullmatch(line) for line in lines]
    if not found or not all(found) or [m["event"] for m in found if m] not in _WHOLE:
        raise BadLogError(f"{path}: expected one start and at most one end, found {lines!r:.200}")
    start = found[0]
    assert start is not None
    ended_s = float(found[1]["at"]) if len(found) > 1 and found[1] else None
    stopped = len(found) > 1 and found[1] is not None and found[1]["event"] == "stopped"
    return Run(start["container"], start["host"], _indices(start["gpus"]), float(start["at"]), ended_s, stopped)


def _indices(text: str) -> tuple[int, ...] | None:
    if text == UNSET:
        return None
    return tuple(int(index) for index in text.split(",") if index)


def tag_sample(at_s: float, nodes: dict[str, Any]) -> TagSample:
    """Return the GPU tags in the ResourceManager's `/ws/v1/cluster/nodes`."""
    listed = (nodes.get("nodes") or {}).get("node", [])
    return TagSample(at_s, {node["nodeHostName"]: _gpu_tags(node) for node in listed})


def _gpu_tags(node: dict[str, Any]) -> dict[int, int]:
    tags = (node.get("allocationTags") or {}).get("allocationTagInfo", [])
    found = ((_TAG.fullmatch(tag["allocationTag"]), int(tag["allocationsCount"])) for tag in tags)
    return {int(match[1]): count for match, count in found if match}
