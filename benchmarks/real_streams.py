"""Containers a second through a real ResourceManager, counted at the commit over half a minute: ours, and stock beside.

Simulated servers and unmanaged masters from the load generator; its containers end at once, so each is committed,
pulled, launched, reported complete by its server and released within about two seconds. A gang's tags are its
application's, so a stream of gangs needs as many applications, and they are prepared before the clock starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks import generator
from benchmarks.arena import GANG_SCHEDULER, STOCK_SCHEDULER, Arena, arena
from benchmarks.figures import Figure, Measured
from benchmarks.real import configuration, scratch, took
from benchmarks.tenant_queues import FULL, LEAF_QUEUES, WAITING, queues

SERVERS = {"servers": 512, "server_gpus": 16, "beat_ms": 1000}
WINDOW_S = 30
SINGLES = {"applications": 8, "outstanding": 300, "poll_ms": 50, "warm_up": 10_000}
# Enough for warm-up, window and what is under way at its end, at the rate beyond which none is asked for. Each
# application is an open connection, and so a file, on both sides.
GANGS = {
    "gang": 8,
    "applications": 18_000,
    "under_way": 900,
    "poll_ms": 500,
    "warm_up": 1_500,
    "per_s_max": 3_800,
}
# Stock placement walks all active applications at each heartbeat, asking or not: with all of them it would take hours.
STOCK_GANGS = {**GANGS, "applications": 4_000, "warm_up": 100}
_OFF_SWITCH = "yarn.scheduler.capacity.per-node-heartbeat.maximum-offswitch-assignments"


@dataclass(frozen=True, slots=True)
class Contender:
    """A scheduler, what is set for it alone, and its limits in containers a second for gangs of 1 and of 8."""

    name: str
    scheduler: str
    gangs: Mapping[str, int]
    singles_least: float | None = None
    gangs_least: float | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


CONTENDERS = (
    Contender("ours", GANG_SCHEDULER, GANGS, 1_000.0, 3_000.0),
    Contender("stock", STOCK_SCHEDULER, STOCK_GANGS),
    # By default stock places one such container a heartbeat, which caps it at one a server and second.
    Contender("stock, 100 a heartbeat", STOCK_SCHEDULER, STOCK_GANGS, settings={_OFF_SWITCH: "100"}),
)


def measure() -> Measured:
    """Measure gangs of 1 and of 8 with each contender, on a ResourceManager of its own."""
    figures: list[Figure] = []
    told: dict[str, Any] = {"servers": SERVERS, "singles": SINGLES, "window_s": WINDOW_S}
    tenants = queues(SERVERS["servers"], SERVERS["server_gpus"])
    for contender in CONTENDERS:
        with (
            scratch() as folder,
            arena(
                folder, contender.scheduler, SERVERS["servers"], settings={**tenants, **contender.settings}
            ) as running,
        ):
            figures += _stream(running, "singles", SINGLES, f"gangs of 1, {contender.name}", contender.singles_least)
            gangs = f"gangs of {GANGS['gang']}, {contender.name}"
            figures += _stream(running, "gangs", contender.gangs, gangs, contender.gangs_least)
            told[contender.name] = {
                **configuration(running),
                "gangs": dict(contender.gangs),
                "settings": dict(contender.settings),
            }
    return Measured(tuple(figures), told)


def _stream(
    running: Arena, scenario: str, options: Mapping[str, int], name: str, least: float | None
) -> Iterator[Figure]:
    with took(running) as taken:
        done = generator.run(
            running.conf,
            scenario,
            **SERVERS,
            **options,
            queues=LEAF_QUEUES,
            waiting=WAITING,
            waiting_queue=FULL,
            window_s=WINDOW_S,
        )
    stream = done.event("gang_stream" if scenario == "gangs" else "single_stream")
    note = f"{stream['committed']} in {stream['seconds']:.1f} s"
    if done.exit_code != generator.HELD:
        note += f"; NOT A FULL WINDOW: {stream}"
    yield Figure(name, stream["containers_per_s"], "containers/s", least, at_least=True, note=note)
    yield Figure(f"{name}, slowest second", stream["slowest_second"], "containers/s")
    for process, cpu_s in taken.cpu_s.items():
        yield Figure(f"{name}, processor of {process}", cpu_s, "s", note=f"of {taken.seconds:.0f} s, preparation too")
