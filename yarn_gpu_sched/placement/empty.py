"""What the usable servers would hold if they were empty. Domains that are made alike are looked at once."""

from yarn_gpu_sched.placement.kind import Kind
from yarn_gpu_sched.placement.pack import Effort, Row, fewest_rows
from yarn_gpu_sched.placement.partition import Partition

ANSWERS_MAX = 4_096
ROWS_MAX = 512
"""Servers of a domain that are looked at for a gang of several kinds."""


def fewest_on_empty(partition: Partition, kinds: tuple[Kind, ...]) -> int | None:
    """Count the servers of one domain that would hold a gang; None if no domain would."""
    answers = partition.empty_answers
    if kinds not in answers:
        if len(answers) >= ANSWERS_MAX:
            answers.clear()
        effort = Effort()
        counts = [_fewest(partition, signature, kinds, effort) for signature in partition.signatures()]
        answers[kinds] = min((count for count in counts if count is not None), default=None)
    return answers[kinds]


def _fewest(
    partition: Partition, signature: tuple[tuple[Row, int], ...], kinds: tuple[Kind, ...], effort: Effort
) -> int | None:
    if len(kinds) == 1 and kinds[0].gpus:
        return _fewest_alike(signature, kinds[0])
    rows = [row for row, count in signature for _ in range(count) if row.gpus or partition.place_on_cpu_servers]
    return fewest_rows(rows[-ROWS_MAX:], kinds, effort, strict=plain_needs_spare(partition, kinds))


def _fewest_alike(signature: tuple[tuple[Row, int], ...], kind: Kind) -> int | None:
    left, servers = kind.containers, 0
    for room, count in sorted(((row.room(kind), count) for row, count in signature), reverse=True):
        if room <= 0:
            return None
        if left <= room * count:
            return servers - (-left // room)
        left -= room * count
        servers += count
    return None


def fits_somewhere_empty(partition: Partition, kinds: tuple[Kind, ...]) -> bool:
    """Tell whether all usable servers together would hold a gang; for several kinds, whether nothing speaks against it."""
    capacities = partition.capacities()
    if sum(kind.containers * kind.gpus for kind in kinds) > sum(row.gpus * count for row, count in capacities):
        return False
    return all(sum(row.room(kind) * count for row, count in capacities) >= kind.containers for kind in kinds)


def plain_needs_spare(partition: Partition, kinds: tuple[Kind, ...]) -> bool:
    """Tell whether containers without GPUs must leave the free GPUs' share alone.

    Not where even an empty server could not hold one beside all of its GPUs' shares: on a cluster of such small servers nothing
    would ever start. There they may take from the share, and some GPUs may wait until they end.
    """
    plain = [kind for kind in kinds if not kind.gpus]
    return all(any(row.spare_holds(kind) for row, _ in partition.capacities()) for kind in plain)
