"""Which of a server's free GPUs each container gets."""

from functools import lru_cache

from yarn_gpu_sched.model.server_use import mask_of


@lru_cache(maxsize=65_536)
def lowest(mask: int, gpus: int, containers: int) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """Take the lowest GPUs of a mask, so many for each container: the mask of all of them, and the indices of each."""
    indices = [place for place in range(mask.bit_length()) if mask >> place & 1][: gpus * containers]
    each = tuple(tuple(indices[gpus * number : gpus * (number + 1)]) for number in range(containers))
    return mask_of(tuple(indices)), each
