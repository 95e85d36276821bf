"""What `nvidia-smi --query-gpu=… --format=csv` and `--query-compute-apps=…` print."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from yarn_gpu_sched.monitor.simulated import smi_text as text
from yarn_gpu_sched.monitor.simulated.smi_text import Shown, Text

Field = Callable[[Shown], Text]
_UNITS: Final = {
    "memory.total": "MiB",
    "memory.used": "MiB",
    "memory.free": "MiB",
    "utilization.gpu": "%",
    "utilization.memory": "%",
    "power.draw": "W",
    "power.limit": "W",
    "used_memory": "MiB",
    "used_gpu_memory": "MiB",
}
_SAME: Final = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "used_gpu_memory": "used_memory",
}


class BadQuery(ValueError):  # noqa: N818 - a name that says what is wrong
    """A query that nvidia-smi does not take, in its words."""


def gpus(cards: Sequence[Shown], fields: str, form: str, driver_version: str, when: str) -> str:
    """Return what is asked of cards."""
    constants = {
        "driver_version": driver_version,
        "count": str(len(cards)),
        "timestamp": when,
        "compute_mode": text.COMPUTE_MODE,
    }
    names = _names(fields, {*_FIELDS, *constants})

    def value(shown: Shown, name: str) -> Text:
        return Text(constants[name]) if name in constants else _FIELDS[name](shown)

    return _csv(names, form, ([value(shown, _SAME.get(name, name)) for name in names] for shown in cards))


def processes(cards: Sequence[Shown], fields: str, form: str) -> str:
    """Return what is asked of processes."""
    names = _names(fields, {"pid", "used_memory", "uuid", "name", "process_name", "pci.bus_id"})

    def value(shown: Shown, name: str, pid: int, memory_mb: int) -> Text:
        if name == "pid":
            return shown.text("pid", pid)
        if name == "used_memory":
            return Text(str(memory_mb), "MiB")
        return Text("[Not Found]") if name == "process_name" else _FIELDS[name](shown)

    rows = (
        [value(shown, _SAME.get(name, name), pid, memory_mb) for name in names]
        for shown in cards
        if "processes" not in shown.gpu.missing
        for pid, memory_mb in shown.gpu.processes
    )
    return _csv(names, form, rows)


def _names(fields: str, known: set[str]) -> list[str]:
    names = [name.strip() for name in fields.split(",")]
    for name in names:
        if _SAME.get(name, name) not in known:
            raise BadQuery(f'Field "{name}" is not a valid field to query.')
    return names


def _csv(names: Sequence[str], form: str, rows: Iterator[list[Text]]) -> str:
    options = {option.strip() for option in form.split(",")}
    if "csv" not in options or options - {"csv", "noheader", "nounits"}:
        raise BadQuery('"--format=" switch is missing "csv" or holds something else than "noheader" and "nounits".')
    lines = []
    if "noheader" not in options:
        lines.append(", ".join(f"{name} [{_UNITS[name]}]" if name in _UNITS else name for name in names))
    units = "nounits" not in options
    lines += [", ".join(_cell(value, units=units) for value in row) for row in rows]
    return "".join(f"{line}\n" for line in lines)


def _cell(value: Text, *, units: bool) -> str:
    if value.value is None:
        return "[N/A]"
    return f"{value.value} {value.unit}" if units and value.unit else value.value


_FIELDS: Final[dict[str, Field]] = {
    "index": lambda shown: Text(str(shown.index)),
    "name": text.name,
    "uuid": text.uuid,
    "pci.bus_id": text.bus_id,
    "memory.total": text.memory_total,
    "memory.used": text.memory_used,
    "memory.free": text.memory_free,
    "utilization.gpu": text.sm,
    "utilization.memory": text.memory_use,
    "temperature.gpu": text.temperature,
    "power.draw": text.power,
    "power.limit": text.power_limit,
    "mig.mode.current": text.mig,
    "ecc.errors.corrected.volatile.total": text.ecc_corrected,
    "ecc.errors.uncorrected.volatile.total": text.ecc_uncorrected,
    "clocks_event_reasons.active": text.reasons,
    "clocks_throttle_reasons.active": text.reasons,
    "pstate": lambda shown: Text("P0" if shown.gpu.sm_percent else "P8"),
}
