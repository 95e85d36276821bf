"""Ask to committed container, through a real ResourceManager, its shim and the service: tagged gangs, one at a time.

Counted twice: by the master, from before its asking call to after the reply that shows the gang, polling every
millisecond; and by the shim, from the ask's arrival to the commit's outcome.
"""

from __future__ import annotations

from benchmarks import generator
from benchmarks.arena import GANG_SCHEDULER, arena
from benchmarks.figures import Figure, Measured
from benchmarks.real import SHIM, configuration, scratch

SERVERS, SERVER_GPUS = 50, 8
GANGS, GANG = 600, 8
_WARM_UP = 100


def measure() -> Measured:
    """Measure over 600 gangs of 8 on 50 servers."""
    options = {"servers": SERVERS, "server_gpus": SERVER_GPUS, "gang": GANG, "gpus": 1}
    with scratch() as folder, arena(folder, GANG_SCHEDULER, SERVERS) as ours:
        generator.run(ours.conf, "watch", **options, gangs=_WARM_UP)
        done = generator.run(ours.conf, "watch", **options, gangs=GANGS)
        if done.exit_code not in (generator.HELD, generator.BROKEN):
            raise RuntimeError(f"the load generator failed: {done.complaints[-4000:]}")
        shim = ours.bean(SHIM)
        told = configuration(ours)
    seen = done.event("ask_to_seen")
    figures = (
        Figure("ask to gang seen by its master, p50", seen["p50_ms"], "ms", 10.0),
        Figure("ask to gang seen by its master, p99", seen["p99_ms"], "ms", 100.0),
        Figure("ask to gang seen by its master, p99.9", seen["p999_ms"], "ms", note=f"{seen['count']} gangs of {GANG}"),
        Figure(
            "ask to outcome by the shim, p50", shim["AskToOutcomeUsP50"] / 1000, "ms", 10.0, note="warm-up included"
        ),
        Figure(
            "ask to outcome by the shim, p99", shim["AskToOutcomeUsP99"] / 1000, "ms", 100.0, note="warm-up included"
        ),
        Figure("scheduler's lock held, p99", shim["LockHeldUsP99"] / 1000, "ms", note="aim: about 5 ms"),
        Figure("polls that saw a part of a gang", done.event("watch")["partial_views"], "polls", 0.0),
    )
    return Measured(figures, {**told, "generator": options | {"gangs": GANGS, "poll_us": 1000}})
