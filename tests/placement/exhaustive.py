"""The search, done by trying everything: what small clusters hold, and how tightly."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement import Kind

Row = tuple[int, int, int, int, int]
"""Free GPUs, memory and vcores; share of memory and vcores that a free GPU keeps."""


def row_of(use: ServerUse, *, empty: bool) -> Row:
    if empty:
        capacity = use.server.capacity
        return (use.gpus_healthy, capacity.memory_mb, capacity.vcores, use.share_mb, use.share_vcores)
    return (use.gpus_free, use.memory_free_mb, use.vcores_free, use.share_mb, use.share_vcores)


def holds(row: Row, kinds: tuple[Kind, ...], counts: tuple[int, ...], *, strict: bool) -> bool:
    gpus = row[0] - sum(count * kind.gpus for count, kind in zip(counts, kinds, strict=True))
    memory = row[1] - sum(count * kind.memory_mb for count, kind in zip(counts, kinds, strict=True))
    vcores = row[2] - sum(count * kind.vcores for count, kind in zip(counts, kinds, strict=True))
    if min(gpus, memory, vcores) < 0:
        return False
    plain = any(count and not kind.gpus for count, kind in zip(counts, kinds, strict=True))
    return not (strict and plain) or (memory >= gpus * row[3] and vcores >= gpus * row[4])


def fewest(rows: list[Row], kinds: tuple[Kind, ...], *, strict: bool) -> int | None:
    """Count the fewest servers that hold all of it, by trying every number of every kind on every server."""
    start = tuple(kind.containers for kind in kinds)
    reached = {start: 0}
    for row in rows:
        after = dict(reached)
        for left, servers in reached.items():
            for counts in product(*(range(one + 1) for one in left)):
                if any(counts) and holds(row, kinds, counts, strict=strict):
                    rest = tuple(one - count for one, count in zip(left, counts, strict=True))
                    after[rest] = min(after.get(rest, 99), servers + 1)
        reached = after
    return reached.get((0,) * len(kinds))


def usable(uses: Iterable[ServerUse]) -> list[ServerUse]:
    """Keep the servers on which something may be placed, in order."""
    return sorted((use for use in uses if use.usable and use.gpus), key=lambda use: use.server_id)


def by_domain(uses: Iterable[ServerUse]) -> dict[str, list[ServerUse]]:
    """Tell servers apart by their domains."""
    domains: dict[str, list[ServerUse]] = {}
    for use in uses:
        domains.setdefault(use.server.domain, []).append(use)
    return domains


def spares(uses: list[ServerUse], kinds: tuple[Kind, ...]) -> bool:
    """Tell whether containers without GPUs leave every free GPU its share: where some empty server could hold one beside it."""
    return all(
        any(holds(row_of(use, empty=True), (kind._replace(containers=1),), (1,), strict=True) for use in uses)
        for kind in kinds
        if not kind.gpus
    )


def fewest_on_empty(uses: Iterable[ServerUse], kinds: tuple[Kind, ...]) -> int | None:
    """Count the servers of one domain that would hold it if all were empty; None if no domain would."""
    all_of_them = usable(uses)
    strict = spares(all_of_them, kinds)
    domains = by_domain(all_of_them).values()
    counts = [fewest([row_of(use, empty=True) for use in those], kinds, strict=strict) for those in domains]
    return min((count for count in counts if count is not None), default=None)


def expected(servers: Iterable[ServerUse], kinds: tuple[Kind, ...]) -> tuple[int, int] | None:
    """Give the tightest level there is now and the number of servers; None if there is no place."""
    uses = usable(servers)
    strict = spares(uses, kinds)
    best_empty = fewest_on_empty(uses, kinds)
    tightest = sorted(by_domain(uses).items(), key=lambda item: (sum(use.gpus_free for use in item[1]), item[0]))
    now = [fewest([row_of(use, empty=False) for use in those], kinds, strict=strict) for _, those in tightest]
    held = [count for count in now if count is not None]
    if best_empty is not None and min(held, default=99) <= best_empty:
        return 0, next(count for count in held if count <= best_empty)
    if held:
        return 1, held[0]
    everywhere = fewest([row_of(use, empty=False) for use in uses], kinds, strict=strict)
    return None if everywhere is None else (2, everywhere)
