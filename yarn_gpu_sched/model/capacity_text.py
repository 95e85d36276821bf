"""How much of a partition a queue has, in the words of YARN's ``capacity-scheduler.xml`` (Hadoop: CapacitySchedulerConfiguration).

``40``: percent of what the parent has, of each resource type. ``4w``: a weight among its siblings. ``[memory=4Gi,yarn.io/gpu=8]``:
each type for itself, absolute, in percent or as a weight; a type that is not named has no amount of its own.
"""

import re
from enum import StrEnum

import msgspec

AMOUNT_MAX = 10**15
_SHOWN_MAX = 200
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_TYPES = {"memory": "memory", "memory-mb": "memory", "vcores": "vcores", "yarn.io/gpu": "gpus"}
_MIB = {"": 1, "mi": 1, "gi": 1024, "ti": 1024**2, "pi": 1024**3}
"""What a unit of memory has of MiB (Hadoop: UnitsConversionUtil); without one, memory is in MiB."""


class CapacityError(ValueError):
    """A capacity that cannot be read: the value, what is wrong, and what would be right."""


class Measure(StrEnum):
    """What an amount is counted in."""

    ABSOLUTE = "absolute"
    PERCENT = "percent"
    WEIGHT = "weight"


class Amount(msgspec.Struct, frozen=True, gc=False):
    """So much of a resource type: units (GPUs, MiB, vcores), percent of what the parent has, or a weight among siblings."""

    measure: Measure
    value: float


class Capacity(msgspec.Struct, frozen=True, gc=False):
    """Amounts by resource type; None: the type is not named."""

    gpus: Amount | None = None
    memory: Amount | None = None
    vcores: Amount | None = None


def read_capacity(text: str) -> Capacity:
    """Read a queue's capacity. Raises CapacityError; what is not understood is never taken for 0."""
    clean = text.strip()
    if not clean.startswith("["):
        one = _amount("capacity", clean, clean)
        if one.measure is Measure.ABSOLUTE:
            one = Amount(Measure.PERCENT, one.value)
        return Capacity(one, one, one)
    if not clean.endswith("]"):
        raise CapacityError(f'"{_cut(text)}": a closing bracket is missing, [memory=4096,yarn.io/gpu=8] would be right')
    found: dict[str, Amount] = {}
    for part in clean[1:-1].split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise CapacityError(f'"{_cut(text)}": "{_cut(part)}" says no amount, TYPE=AMOUNT would be right')
        _check_case(name, text)
        kind = _TYPES.get(name)
        if kind is None:
            continue  # a type that is not placed here
        if kind in found:
            raise CapacityError(f'"{_cut(text)}": {name} is there twice, once would be right')
        found[kind] = _amount(name, value, text)
    return Capacity(**found)


def read_maximum(text: str) -> Capacity:
    """Read a queue's maximum capacity, which is no weight (Hadoop knows weights only of capacities). Raises CapacityError."""
    read = read_capacity(text)
    if any(one is not None and one.measure is Measure.WEIGHT for one in (read.gpus, read.memory, read.vcores)):
        raise CapacityError(
            f'"{_cut(text)}": a maximum cannot be a weight, an amount or a percentage (40%) would be right'
        )
    return read


def _check_case(name: str, text: str) -> None:
    """YARN knows resource types by their exact names and takes others for types that it does not know."""
    lower = name.lower()
    if name != lower and lower in _TYPES:
        raise CapacityError(f'"{_cut(text)}": resource type "{_cut(name)}" is unknown, "{lower}" would be right')


def _amount(name: str, value: str, text: str) -> Amount:
    measure, number = Measure.ABSOLUTE, value
    for suffix, other in (("%", Measure.PERCENT), ("w", Measure.WEIGHT)):
        if value.lower().endswith(suffix):
            measure, number = other, value[: -len(suffix)].rstrip()
    factor = 1
    if measure is Measure.ABSOLUTE and _TYPES.get(name) == "memory":
        digits = number.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
        factor, number = _MIB.get(number[len(digits) :].lower(), 0), digits.rstrip()
    if not factor or _NUMBER.fullmatch(number) is None:
        right = "a number, a percentage (40%) or a weight (2w) would be right"
        raise CapacityError(f'"{_cut(text)}": {name} "{_cut(value)}" cannot be read, {right}')
    amount = float(number) * factor
    if measure is Measure.ABSOLUTE and name != "capacity" and amount != int(amount):
        raise CapacityError(f'"{_cut(text)}": {name} "{_cut(value)}" is not whole, a whole number would be right')
    if amount > AMOUNT_MAX:
        raise CapacityError(f'"{_cut(text)}": {name} "{_cut(value)}" is more than {AMOUNT_MAX}')
    return Amount(measure, amount)


def _cut(text: str) -> str:
    clean = "".join(char if char.isprintable() else "?" for char in text[: _SHOWN_MAX + 1])
    return clean if len(clean) <= _SHOWN_MAX else f"{clean[:_SHOWN_MAX]}…"
