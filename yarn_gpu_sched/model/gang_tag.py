"""The shape of a gang, as an application's tags declare it.

``gang:N`` are the first N containers besides the application master, of any key and kind; ``gang:NxG`` are N containers of G GPUs
each; ``gang:NxG+H`` has H members without GPUs beside them. What is asked beyond the gang is growth.
"""

import re
from functools import lru_cache

import msgspec

from yarn_gpu_sched.model.tag import TagError, shown, values_of

CONTAINERS_MAX = 16_384
"""Most containers that one gang may have (the link carries a gang in one message)."""

GPUS_PER_CONTAINER_MAX = 1_024
"""Most GPUs that one container may have."""

_SHAPE = re.compile(r"(\d{1,6})(?:x(\d{1,6})(?:\+(\d{1,6}))?)?", re.ASCII)


class GangTag(msgspec.Struct, frozen=True, gc=False):
    """A declared gang: ``containers`` in all; ``gpus_each`` is None for ``gang:N``, else ``plain`` of them have no GPUs.

    ``implied``: no tag says so, it is what the job asked with GPUs (see `yarn_gpu_sched.engine.gathering`).
    """

    containers: int
    gpus_each: int | None = None
    plain: int = 0
    implied: bool = False

    @property
    def gpu_containers(self) -> int:
        """Containers that have GPUs; 0 where the tag does not say."""
        return 0 if self.gpus_each is None else self.containers - self.plain

    @property
    def gpus(self) -> int:
        """GPUs of the whole gang; 0 where the tag does not say."""
        return 0 if self.gpus_each is None else (self.containers - self.plain) * self.gpus_each

    def __str__(self) -> str:
        """Write the tag in its plainest form."""
        if self.implied:
            return f"of all {self.containers} containers with GPUs that were asked"
        if self.gpus_each is None:
            return f"gang:{self.containers}"
        extra = f"+{self.plain}" if self.plain else ""
        return f"gang:{self.gpu_containers}x{self.gpus_each}{extra}"


def gang_tag(tags: tuple[str, ...]) -> GangTag | None:
    """Read the gang from an application's tags; None if no tag speaks of one. Raises TagError."""
    found: GangTag | None = values_of(tags, {"gang": read_gang}).get("gang")
    return found


@lru_cache(maxsize=1_024)
def read_gang(tag: str, value: str) -> GangTag:
    """Read the value of a gang's tag. Raises TagError."""
    match = _SHAPE.fullmatch(value)
    if match is None:
        raise TagError(f'tag "{shown(tag)}" cannot be read: use gang:N, gang:NxG or gang:NxG+H in whole numbers')
    count, gpus_each, plain = (None if part is None else int(part) for part in match.groups())
    containers = (count or 0) + (plain or 0)
    if not count or containers > CONTAINERS_MAX:
        raise TagError(f'tag "{shown(tag)}": a gang has 1 to {CONTAINERS_MAX} containers')
    if gpus_each is not None and not 1 <= gpus_each <= GPUS_PER_CONTAINER_MAX:
        raise TagError(f'tag "{shown(tag)}": a container of a gang has 1 to {GPUS_PER_CONTAINER_MAX} GPUs')
    return GangTag(containers, gpus_each, plain or 0)
