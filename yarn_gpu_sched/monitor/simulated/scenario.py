"""What happens to simulated GPUs, and when: a TOML or JSON file.

    [[events]]
    at_s = 30            # seconds after the scenario began
    until_s = 90         # where it ends by itself; without it: never
    what = "throttle"
    gpu = 2              # the card's number: it does not change when others vanish
    reasons = ["hw_thermal_slowdown"]

Of two events that say the same of a card, the later one holds while it lasts.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import msgspec

from yarn_gpu_sched.monitor.reading import GPUS_MAX

FILE_BYTES_MAX: Final = 1 << 20
EVENTS_MAX: Final = 10_000

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
CardNumber = Annotated[int, msgspec.Meta(ge=0, lt=GPUS_MAX)]
Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]
MegaBytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 22)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Field = Literal[
    "uuid",
    "model",
    "minor",
    "pci_bus_id",
    "memory_used_mb",
    "memory_total_mb",
    "sm_percent",
    "memory_percent",
    "temperature_c",
    "power_w",
    "throttle_reasons",
    "ecc_corrected",
    "ecc_uncorrected",
    "mig_enabled",
    "processes",
    "pid",
    "links",
]
Throttle = Literal[
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clock_setting",
]


class BadScenario(ValueError):  # noqa: N818 - a name that says what is wrong
    """A scenario file does not say what it must; the text names file, place, value and what would be right."""


class Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="what"):
    """Something that happens."""

    at_s: Seconds

    def holds(self, seconds: float) -> bool:
        """Whether it is so at an instant."""
        until_s = getattr(self, "until_s", None)
        return self.at_s <= seconds and (until_s is None or seconds < until_s)


class Lasting(Event, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="what"):
    """Something that may end."""

    until_s: Seconds | None = None

    def __post_init__(self) -> None:
        """Refuse what ends before it begins."""
        if self.until_s is not None and self.until_s <= self.at_s:
            raise ValueError(f"until_s {self.until_s} must be greater than at_s {self.at_s}")


class Use(Lasting, frozen=True, kw_only=True, tag="use"):
    """Utilisation of one card, or of whatever cards a job or a container holds."""

    gpu: CardNumber | None = None
    job: Name | None = None
    container: Name | None = None
    sm_percent: Percent | None = None
    memory_percent: Percent | None = None
    memory_used_mb: MegaBytes | None = None

    def __post_init__(self) -> None:
        """Refuse what names nobody, or two."""
        Lasting.__post_init__(self)
        if sum(one is not None for one in (self.gpu, self.job, self.container)) != 1:
            raise ValueError("exactly one of gpu, job and container must be given")


class Ecc(Event, frozen=True, kw_only=True, tag="ecc"):
    """So many ECC errors more."""

    gpu: CardNumber
    corrected: Count = 0
    uncorrected: Count = 0


class XidError(Event, frozen=True, kw_only=True, tag="xid"):
    """The driver reports an Xid."""

    gpu: CardNumber
    xid: Annotated[int, msgspec.Meta(ge=1, le=65535)]


class Hang(Lasting, frozen=True, kw_only=True, tag="hang"):
    """The driver does not answer."""


class Mismatch(Lasting, frozen=True, kw_only=True, tag="mismatch"):
    """The library is of another version than the driver."""


class NoDriver(Lasting, frozen=True, kw_only=True, tag="no_driver"):
    """The driver is not loaded."""


class NoDevices(Lasting, frozen=True, kw_only=True, tag="no_devices"):
    """The driver finds no devices."""


class Vanish(Lasting, frozen=True, kw_only=True, tag="vanish"):
    """A card falls off the bus; after a while those behind it are counted anew. With ``until_s`` it comes back."""

    gpu: CardNumber
    renumber_after_s: Seconds = 0.0


class Zombie(Lasting, frozen=True, kw_only=True, tag="zombie"):
    """Memory stays taken, whoever ended; the driver names the process ``pid``, or none."""

    gpu: CardNumber
    memory_used_mb: MegaBytes
    pid: Annotated[int, msgspec.Meta(ge=1, le=1 << 22)] | None = None


class Throttled(Lasting, frozen=True, kw_only=True, tag="throttle"):
    """Clocks are held down."""

    gpu: CardNumber
    reasons: tuple[Throttle, ...]


class Hot(Lasting, frozen=True, kw_only=True, tag="temperature"):
    """A temperature."""

    gpu: CardNumber
    temperature_c: Annotated[int, msgspec.Meta(ge=0, le=150)]


class Mig(Lasting, frozen=True, kw_only=True, tag="mig"):
    """MIG is enabled, and the card is cut into so many devices."""

    gpu: CardNumber
    devices: Annotated[int, msgspec.Meta(ge=0, le=7)] = 0


class Missing(Lasting, frozen=True, kw_only=True, tag="missing"):
    """Calls that tell these fields fail; ``code`` 3: not supported."""

    gpu: CardNumber
    fields: tuple[Field, ...]
    code: Annotated[int, msgspec.Meta(ge=1, le=999)] = 3


class Impossible(Lasting, frozen=True, kw_only=True, tag="impossible"):
    """Fields with values as no hardware can mean them, in the library's units: bytes, milliwatts; a name in Latin-1."""

    gpu: CardNumber
    values: dict[Field, int | str]

    def __post_init__(self) -> None:
        """Refuse what the library could not tell even by mistake."""
        Lasting.__post_init__(self)
        for field, value in self.values.items():
            if field in _TEXTS and not isinstance(value, str):
                raise ValueError(f"values.{field} {value}: right would be a text")
            if field not in _TEXTS and not (isinstance(value, int) and -(1 << 63) <= value < 1 << 64):
                raise ValueError(f"values.{field} {value!r}: right would be a whole number of at most 64 bits")


AnyEvent = (
    Use
    | Ecc
    | XidError
    | Hang
    | Mismatch
    | NoDriver
    | NoDevices
    | Vanish
    | Zombie
    | Throttled
    | Hot
    | Mig
    | Missing
    | Impossible
)


class Busy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a card does that a process holds and no event speaks of. Its processes share the memory."""

    sm_percent: Percent = 87
    memory_percent: Percent = 41
    memory_used_percent: Percent = 60


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that happens, in order of time. ``minors``: the minor numbers of the cards, where they are not in order."""

    events: Annotated[tuple[AnyEvent, ...], msgspec.Meta(max_length=EVENTS_MAX)] = ()
    minors: tuple[Annotated[int, msgspec.Meta(ge=0, lt=256)], ...] | None = None
    busy: Busy = Busy()

    def ordered(self) -> Scenario:
        """Return it with its events in order of time."""
        return msgspec.structs.replace(self, events=tuple(sorted(self.events, key=lambda event: event.at_s)))


def load(path: Path, cards: int) -> Scenario:
    """Read a scenario for a server with so many cards; `BadScenario` says what is wrong."""
    raw = _parsed(path)
    try:
        scenario = msgspec.convert(raw, Scenario)
    except msgspec.ValidationError as error:
        raise BadScenario(f"{path}: {_explained(str(error), raw)}") from error
    _check_cards(path, scenario, cards)
    return scenario.ordered()


def _parsed(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadScenario(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > FILE_BYTES_MAX:
        raise BadScenario(f"{path}: is larger than {FILE_BYTES_MAX} bytes, the most that a scenario may have")
    try:
        text = content.decode()
        return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML (or JSON, in a file named .json)"
        raise BadScenario(f"{path}: is no {kind}: {error}") from error


def _check_cards(path: Path, scenario: Scenario, cards: int) -> None:
    if scenario.minors is not None and len({*scenario.minors}) != cards:
        raise BadScenario(
            f"{path}: minors {list(scenario.minors)}: right would be {cards} different numbers, one a card"
        )
    for place, event in enumerate(scenario.events):
        gpu = getattr(event, "gpu", None)
        if gpu is not None and gpu >= cards:
            right = f"0 to {cards - 1}" if cards else "none, the server has no cards"
            raise BadScenario(f"{path}: events[{place}].gpu: {gpu}: right would be {right}")


def _explained(text: str, raw: object) -> str:
    """Turn msgspec's words into place, value, what is wrong and, for names, what would be right."""
    match = re.search(r" - at `(?:key` in `)?\$\.?([^`]*)`\Z", text)
    said = text[: match.start()] if match else text
    place = match[1] if match else ""
    value = _at(raw, place)
    shown = "" if isinstance(value, dict | list) else f"{value!r}: "
    return f"{place or 'the file'}: {shown}{said}{_right_names(place, said, value)}"


def _right_names(place: str, said: str, value: object) -> str:
    if place.endswith(".what") or "missing required field `what`" in said:
        return f"; right would be one of {', '.join(sorted(_KINDS))}"
    kind = _KINDS.get(str(value.get("what"))) if isinstance(value, dict) else None
    if kind is not None and "unknown field" in said:
        return f"; right would be what, {', '.join(field.name for field in msgspec.structs.fields(kind))}"
    literals = {"fields": Field, "values": Field, "reasons": Throttle}
    for name, literal in literals.items():
        if f".{name}" in place and "nvalid enum value" in said:
            return f"; right would be one of {', '.join(get_args(literal))}"
    return ""


def _at(raw: Any, place: str) -> Any:  # noqa: ANN401 - whatever the file holds
    for step in _steps(place):
        try:
            raw = raw[step]
        except (LookupError, TypeError):
            return {}
    return raw


def _steps(place: str) -> Iterator[str | int]:
    for name, number in re.findall(r"([A-Za-z_]\w*)|\[(\d+)\]", place):
        yield int(number) if number else name


_TEXTS: Final = frozenset({"uuid", "model", "pci_bus_id"})
_KINDS: Final[dict[str, type[Event]]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (
        Use,
        Ecc,
        XidError,
        Hang,
        Mismatch,
        NoDriver,
        NoDevices,
        Vanish,
        Zombie,
        Throttled,
        Hot,
        Mig,
        Missing,
        Impossible,
    )
}
