"""Ask to committed container, through a real ResourceManager, its shim and the service: tagged gangs, one at a time.

Counted twice: by the master, from before its asking call to after the reply that shows the gang, polling every
millisecond; and by the shim, from the ask's arrival to the commit's outcome.
"""

from __future__ import annotations

from typing import Any

from benchmarks import generator
from benchmarks.arena import GANG_SCHEDULER, arena
from benchmarks.figures import Figure, Measured
from benchmarks.real import SHIM, configuration, scratch, shim_quantiles, waiting
from benchmarks.tenant_queues import FULL, LEAF_QUEUES, WAITING, queues

# What a gang held is known to be free after its servers' next heartbeats: enough GPUs for the gangs of three seconds.
SERVERS, SERVER_GPUS = 256, 8
GANGS, GANG, GAP_MS = 600, 8, 20
_WARM_UP = 200
_P50_MS_MAX, _P99_MS_MAX = 10.0, 100.0


def measure() -> Measured:
    """Measure over 600 gangs of 8 on 256 servers."""
    options = {"servers": SERVERS, "server_gpus": SERVER_GPUS, "gang": GANG, "gpus": 1, "gap_ms": GAP_MS}
    settings = queues(SERVERS, SERVER_GPUS)
    with scratch() as folder, arena(folder, GANG_SCHEDULER, SERVERS, settings=settings) as ours:
        generator.run(ours.conf, "watch", **options, gangs=_WARM_UP, queues=LEAF_QUEUES)
        done = generator.run(
            ours.conf, "watch", **options, gangs=GANGS, queues=LEAF_QUEUES, waiting=WAITING, waiting_queue=FULL
        )
        figures = [*_seen(done), waiting(ours)]
        outcome = shim_quantiles(ours, "AskToOutcomeUs")
        last = f"the last minute's {outcome['count']:.0f}"
        lock_ms = ours.bean(SHIM)["LockHeldUsMax"] / 1000
        told = configuration(ours) | {"generator": options | {"gangs": GANGS, "poll_us": 1000}}
    figures += [
        Figure("ask to outcome by the shim, p50", outcome["p50_ms"], "ms", _P50_MS_MAX, note=last),
        Figure("ask to outcome by the shim, p99", outcome["p99_ms"], "ms", _P99_MS_MAX, note=last),
        Figure("longest hold of the scheduler's lock", lock_ms, "ms", note="aim: about 5 ms; warm-up included"),
    ]
    return Measured(tuple(figures), told)


def _seen(done: generator.Run) -> list[Figure]:
    seen: dict[str, Any] = done.event("ask_to_seen")
    name, count = "ask to gang seen by its master", f"{seen['count']} gangs of {GANG}"
    return [
        Figure(f"{name}, p50", seen["p50_ms"], "ms", _P50_MS_MAX, note=count),
        Figure(f"{name}, p99", seen["p99_ms"], "ms", _P99_MS_MAX, note=count),
        Figure(f"{name}, p99.9", seen["p999_ms"], "ms", note=count),
        Figure("polls that saw a part of a gang", done.event("watch")["partial_views"], "polls", 0.0),
    ]
