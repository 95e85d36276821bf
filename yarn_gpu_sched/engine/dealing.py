"""Which of a server's free GPUs each container gets.

Where telemetry says how well GPUs are connected, those that a gang gets on a server are the best connected of the free ones; of
equally good choices the one that leaves the others best connected. The number of free GPUs is the same either way, so nothing is
fragmented for it.
"""

from functools import lru_cache
from itertools import combinations
from math import comb

from yarn_gpu_sched.model.server_use import ServerUse, indices_of, mask_of

CHOICES_MAX = 5_000
"""Sets of GPUs that are compared for one container; where there are more, they are taken one by one."""

Links = tuple[tuple[int, ...], ...]
Dealt = tuple[int, tuple[tuple[int, ...], ...]]
"""The mask of all GPUs that are dealt, and the indices of each container."""


def deal(use: ServerUse, gpus: int, containers: int) -> Dealt:
    """Take of a server's free GPUs so many for each container: the best connected ones, else the lowest."""
    links, free = use.fitness.links, use.free_mask
    if not links or not gpus:
        return lowest(free, gpus, containers)
    return best_connected(free, gpus, containers, links)


@lru_cache(maxsize=65_536)
def lowest(mask: int, gpus: int, containers: int) -> Dealt:
    """Take the lowest GPUs of a mask, so many for each container."""
    indices = [place for place in range(mask.bit_length()) if mask >> place & 1][: gpus * containers]
    each = tuple(tuple(indices[gpus * number : gpus * (number + 1)]) for number in range(containers))
    return mask_of(tuple(indices)), each


@lru_cache(maxsize=16_384)
def best_connected(mask: int, gpus: int, containers: int, links: Links) -> Dealt:
    """Take the GPUs that are best connected with each other, and of these for each container likewise."""
    if mask.bit_count() < gpus * containers:
        return lowest(mask, gpus, containers)
    taken = left = _best(mask, gpus * containers, links)
    each = []
    for _ in range(containers):
        mine = _best(left, gpus, links)
        each.append(indices_of(mine))
        left &= ~mine
    return taken, tuple(sorted(each))


def _best(mask: int, gpus: int, links: Links) -> int:
    free = indices_of(mask)
    if gpus >= len(free):
        return mask
    if comb(len(free), gpus) > CHOICES_MAX:
        return _one_by_one(free, gpus, links)
    whole = set(free)
    chosen = max(
        combinations(free, gpus),
        key=lambda some: (
            _score(some, links),
            _score(tuple(sorted(whole - {*some})), links),
            tuple(-one for one in some),
        ),
    )
    return mask_of(chosen)


def _one_by_one(free: tuple[int, ...], gpus: int, links: Links) -> int:
    """Begin with the GPU that is best connected with all others, and add whichever is best connected with those taken."""
    taken = [max(free, key=lambda one: (sum(_link(one, other, links) for other in free), -one))]
    while len(taken) < gpus:
        rest = [one for one in free if one not in taken]
        taken.append(max(rest, key=lambda one: (sum(_link(one, other, links) for other in taken), -one)))
    return mask_of(tuple(taken))


def _score(some: tuple[int, ...], links: Links) -> int:
    return sum(_link(one, other, links) for one, other in combinations(some, 2))


def _link(one: int, other: int, links: Links) -> int:
    """Score a pair; a slot that nobody told of is connected with nothing."""
    return links[one][other] if max(one, other) < len(links) else 0
