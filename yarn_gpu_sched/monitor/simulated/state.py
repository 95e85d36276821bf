"""What simulated cards look like at an instant: a pure function of cards, scenario, seconds and who is on them."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from yarn_gpu_sched.monitor.reading import PROCESSES_MAX
from yarn_gpu_sched.monitor.simulated import scenario as happenings
from yarn_gpu_sched.monitor.simulated.scenario import Event, Scenario
from yarn_gpu_sched.monitor.simulated.spec import Card

DRIVER_VERSION: Final = "535.261.03"
THROTTLE_BITS: Final[dict[str, int]] = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clock_setting": 0x100,
}
_IDLE_MEMORY_MB = 4
_IDLE_TEMPERATURE_C = 34
_BUSY_TEMPERATURE_C = 38
"""What full load adds."""


class Trouble(enum.Enum):
    """What is the matter with the whole server, the worst first."""

    HANG = "hang"
    MISMATCH = "mismatch"
    NO_DRIVER = "no_driver"
    NO_DEVICES = "no_devices"


class Holder(msgspec.Struct, frozen=True):
    """A real process, the container it is of, and the numbers of the cards that it names."""

    pid: int
    container_id: str
    numbers: tuple[int, ...]


class GpuState(msgspec.Struct, frozen=True, kw_only=True):
    """One card at an instant. ``missing`` maps fields to the error of the calls that tell them."""

    card: Card
    sm_percent: int
    memory_percent: int
    memory_used_mb: int
    temperature_c: int
    power_w: float
    throttle_reasons: tuple[str, ...]
    ecc_corrected: int = 0
    ecc_uncorrected: int = 0
    mig_devices: int | None = None
    processes: tuple[tuple[int, int], ...] = ()
    """Process id and memory in MiB."""
    missing: Mapping[str, int] = {}
    impossible: Mapping[str, int | str] = {}

    @property
    def throttle_bits(self) -> int:
        """The reasons as NVML's bits."""
        return sum(THROTTLE_BITS[reason] for reason in self.throttle_reasons)


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """All cards at an instant, by number; ``order``: the numbers as nvidia-smi counts, ``lost``: those that do not answer."""

    gpus: tuple[GpuState, ...]
    order: tuple[int, ...]
    lost: frozenset[int]
    trouble: Trouble | None = None


def state_at(cards: Sequence[Card], scenario: Scenario, seconds: float, holders: Iterable[Holder] = ()) -> ServerState:
    """Tell what the cards look like so many seconds after the scenario began."""
    now = [event for event in scenario.events if event.holds(seconds)]
    on_card: dict[int, list[Holder]] = {card.number: [] for card in cards}
    for holder in holders:
        for number in holder.numbers:
            if number in on_card:
                on_card[number].append(holder)
    return ServerState(
        gpus=tuple(_gpu(card, scenario, now, on_card[card.number]) for card in cards),
        order=order_at(cards, scenario, seconds),
        lost=frozenset(event.gpu for event in now if isinstance(event, happenings.Vanish)),
        trouble=_trouble(now),
    )


def order_at(cards: Sequence[Card], scenario: Scenario, seconds: float) -> tuple[int, ...]:
    """Tell which cards nvidia-smi counts at an instant, in its order: one that vanished is counted until it renumbers."""
    gone = {
        event.gpu
        for event in scenario.events
        if isinstance(event, happenings.Vanish)
        and event.holds(seconds)
        and event.at_s + event.renumber_after_s <= seconds
    }
    return tuple(card.number for card in cards if card.number not in gone)


def lost_since(scenario: Scenario, since_s: float, seconds: float) -> frozenset[int]:
    """Tell which cards were off the bus at any time between two instants: a handle does not survive that."""
    return frozenset(
        event.gpu
        for event in scenario.events
        if isinstance(event, happenings.Vanish)
        and event.at_s <= seconds
        and (event.until_s is None or event.until_s > since_s)
    )


def _trouble(now: Sequence[Event]) -> Trouble | None:
    kinds = {event.__struct_config__.tag for event in now}
    return next((trouble for trouble in Trouble if trouble.value in kinds), None)


def _gpu(card: Card, scenario: Scenario, now: Sequence[Event], holders: Sequence[Holder]) -> GpuState:
    mine = [event for event in now if getattr(event, "gpu", None) == card.number]
    sm_percent, memory_percent, held_mb = _use(card, scenario, now, holders)
    zombies = [event for event in mine if isinstance(event, happenings.Zombie)]
    share_mb = held_mb // len(holders) if holders else 0
    processes = [(holder.pid, share_mb) for holder in holders]
    processes += [(zombie.pid, zombie.memory_used_mb) for zombie in zombies if zombie.pid is not None]
    used_mb = _IDLE_MEMORY_MB + held_mb + sum(zombie.memory_used_mb for zombie in zombies)
    throttled = [event.reasons for event in mine if isinstance(event, happenings.Throttled)]
    hot = [event.temperature_c for event in mine if isinstance(event, happenings.Hot)]
    mig = [event.devices for event in mine if isinstance(event, happenings.Mig)]
    return GpuState(
        card=card,
        sm_percent=sm_percent,
        memory_percent=memory_percent,
        memory_used_mb=min(used_mb, card.model.memory_mb),
        temperature_c=hot[-1] if hot else _IDLE_TEMPERATURE_C + _BUSY_TEMPERATURE_C * sm_percent // 100,
        power_w=round(card.model.power_max_w * (0.15 + 0.008 * sm_percent), 2),
        throttle_reasons=throttled[-1] if throttled else () if sm_percent else ("gpu_idle",),
        ecc_corrected=sum(event.corrected for event in mine if isinstance(event, happenings.Ecc)),
        ecc_uncorrected=sum(event.uncorrected for event in mine if isinstance(event, happenings.Ecc)),
        mig_devices=mig[-1] if mig else None,
        processes=tuple(processes[:PROCESSES_MAX]),
        missing=_missing(card, mine),
        impossible=_impossible(mine),
    )


def _use(card: Card, scenario: Scenario, now: Sequence[Event], holders: Sequence[Holder]) -> tuple[int, int, int]:
    """Tell utilisation of SMs and memory, and memory in use: by the last event that speaks of the card, else by who holds it."""
    busy = scenario.busy
    sm_percent, memory_percent, used_mb = 0, 0, 0
    if holders:
        sm_percent, memory_percent = busy.sm_percent, busy.memory_percent
        used_mb = card.model.memory_mb * busy.memory_used_percent // 100
    for event in now:
        if isinstance(event, happenings.Use) and _speaks_of(event, card, holders):
            sm_percent = sm_percent if event.sm_percent is None else event.sm_percent
            memory_percent = memory_percent if event.memory_percent is None else event.memory_percent
            used_mb = used_mb if event.memory_used_mb is None else event.memory_used_mb
    return sm_percent, memory_percent, used_mb


def _speaks_of(event: happenings.Use, card: Card, holders: Sequence[Holder]) -> bool:
    if event.gpu is not None:
        return event.gpu == card.number
    ids = {holder.container_id for holder in holders}
    return event.container in ids or event.job in {application_of(container_id) for container_id in ids}


def application_of(container_id: str) -> str:
    """Tell the application of `container_[eN_]CLUSTER_APPLICATION_ATTEMPT_NUMBER`; empty if it is none."""
    parts = [part for part in container_id.split("_")[1:] if not part.startswith("e")]
    return f"application_{parts[0]}_{parts[1]}" if len(parts) > 1 else ""


def _missing(card: Card, mine: Sequence[Event]) -> dict[str, int]:
    """Tell which fields fail: those that the model has not, that a card cut by MIG has not, and those of the scenario."""
    not_supported = 3
    fields: list[str] = []
    if not card.model.ecc:
        fields += ["ecc_corrected", "ecc_uncorrected"]
    if not card.model.mig:
        fields += ["mig_enabled"]
    if card.model.display:
        fields += ["sm_percent", "memory_percent", "power_w", "throttle_reasons", "processes"]
    missing = dict.fromkeys(fields, not_supported)
    for event in mine:
        if isinstance(event, happenings.Mig):
            missing |= {"sm_percent": not_supported, "memory_percent": not_supported}
            missing.pop("mig_enabled", None)
        elif isinstance(event, happenings.Missing):
            missing |= {str(field): event.code for field in event.fields}
    return missing


def _impossible(mine: Sequence[Event]) -> dict[str, int | str]:
    values: dict[str, int | str] = {}
    for event in mine:
        if isinstance(event, happenings.Impossible):
            values |= {str(field): value for field, value in event.values.items()}
    return values
