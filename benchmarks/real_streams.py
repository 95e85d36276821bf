"""Containers a second through a real ResourceManager, counted at the commit over half a minute: ours, and stock beside.

Simulated servers and unmanaged masters from the load generator; its containers end at once, so each is committed,
pulled, launched, reported complete by its server and released within about a second. A gang's tags are its
application's, so a stream of gangs needs as many applications, and they are prepared before the clock starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import generator
from benchmarks.arena import GANG_SCHEDULER, STOCK_SCHEDULER, Arena, arena
from benchmarks.figures import Figure, Measured
from benchmarks.real import configuration, scratch, took

SERVERS = {"servers": 512, "server_gpus": 16, "beat_ms": 1000}
WINDOW_S = 30
SINGLES = {"applications": 8, "outstanding": 300, "poll_ms": 50}
GANGS = {"gang": 8, "applications": 15_000, "under_way": 700, "poll_ms": 1000}
# Stock placement walks all active applications at each heartbeat, asking or not: with all of them it would take hours.
STOCK_GANGS = {**GANGS, "applications": 2_000}
_SINGLES_LIMIT, _GANGS_LIMIT = 1_000.0, 3_000.0


def measure() -> Measured:
    """Measure gangs of 1 and of 8, with our scheduler and with stock."""
    figures: list[Figure] = []
    told: dict[str, Any] = {"servers": SERVERS, "singles": SINGLES, "window_s": WINDOW_S}
    for name, scheduler, gangs in (("ours", GANG_SCHEDULER, GANGS), ("stock", STOCK_SCHEDULER, STOCK_GANGS)):
        limited = scheduler == GANG_SCHEDULER
        with scratch() as folder, arena(folder, scheduler, SERVERS["servers"]) as running:
            singles, gangs_of = f"gangs of 1, {name}", f"gangs of {GANGS['gang']}, {name}"
            figures += _stream(running, "singles", SINGLES, singles, _SINGLES_LIMIT if limited else None)
            figures += _stream(running, "gangs", gangs, gangs_of, _GANGS_LIMIT if limited else None)
            told[name] = {**configuration(running), "gangs": gangs}
    return Measured(tuple(figures), told)


def _stream(running: Arena, scenario: str, options: dict[str, int], name: str, limit: float | None) -> Iterator[Figure]:
    with took(running) as taken:
        done = generator.run(running.conf, scenario, **SERVERS, **options, window_s=WINDOW_S)
    stream = done.event("gang_stream" if scenario == "gangs" else "single_stream")
    note = f"{stream['committed']} in {stream['seconds']:.1f} s"
    if done.exit_code != generator.HELD:
        note += f"; NOT A FULL WINDOW, {stream}"
    yield Figure(name, stream["containers_per_s"], "containers/s", limit, at_least=True, note=note)
    yield Figure(f"{name}, slowest second", stream["slowest_second"], "containers/s")
    for process, cpu_s in taken.cpu_s.items():
        yield Figure(f"{name}, processor of {process}", cpu_s, "s", note=f"of {taken.seconds:.0f} s, preparation too")
