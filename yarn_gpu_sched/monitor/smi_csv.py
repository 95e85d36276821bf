"""What `nvidia-smi --query-gpu=… --format=csv` writes, as a reading.

The first line names the columns, with or without their units. Without a column ``uuid`` nothing is said of anybody. A line that is
cut might end within a number: the whole is dropped then, as it is when a line has other columns than the first, or none
follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from yarn_gpu_sched.monitor import smi_values as values
from yarn_gpu_sched.monitor.reading import GPUS_MAX, GpuReading, GpusReading
from yarn_gpu_sched.monitor.smi_xml import Unreadable

_UNIT = re.compile(r" \[[A-Za-z%]{1,8}\]\Z")
_FIELDS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "name": ("model", values.name),
    "gpu_name": ("model", values.name),
    "pci.bus_id": ("pci_bus_id", values.bus_id),
    "gpu_bus_id": ("pci_bus_id", values.bus_id),
    "memory.used": ("memory_used_mb", values.mebibytes),
    "memory.total": ("memory_total_mb", values.mebibytes),
    "utilization.gpu": ("sm_percent", values.percent),
    "utilization.memory": ("memory_percent", values.percent),
    "temperature.gpu": ("temperature_c", values.number),
    "power.draw": ("power_w", values.decimal),
    "ecc.errors.corrected.volatile.total": ("ecc_corrected", values.number),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected", values.number),
    "mig.mode.current": ("mig_enabled", values.switch),
}
_COLUMNS_MAX = 128


def read_csv(text: str) -> GpusReading:
    """Read the output; `Unreadable` says why it is none."""
    if not text.endswith("\n"):
        raise Unreadable("the last line of the output is cut")
    head, *lines = [[cell.strip() for cell in line.split(",")] for line in text[:-1].split("\n")[: GPUS_MAX + 2]]
    columns = [_UNIT.sub("", cell) for cell in head]
    if len(columns) > _COLUMNS_MAX or not {"uuid", "gpu_uuid"} & set(columns):
        raise Unreadable("the first line of the output should name the columns, uuid among them")
    if len(lines) > GPUS_MAX or any(len(cells) != len(columns) for cells in lines):
        raise Unreadable(f"each line of the output should have {len(columns)} columns, at most {GPUS_MAX} lines")
    rows = [dict(zip(columns, cells, strict=True)) for cells in lines]
    if any(values.number(row.get("count")) not in (None, len(rows)) for row in rows):
        raise Unreadable(f"{len(rows)} lines in the output, should be as many as the count of GPUs")
    return GpusReading(gpus=_gpus(rows))


def _gpus(rows: list[dict[str, str]]) -> tuple[GpuReading, ...]:
    gpus = tuple(gpu for place, row in enumerate(rows) if (gpu := _gpu(row, place)) is not None)
    if not gpus:
        raise Unreadable("no GPU in the output says its UUID")
    if len({gpu.uuid for gpu in gpus}) < len(gpus) or len({gpu.index for gpu in gpus}) < len(gpus):
        raise Unreadable("two GPUs in the output have the same UUID or index")
    return gpus


def _gpu(row: dict[str, str], place: int) -> GpuReading | None:
    if (uuid := values.uuid(row.get("uuid", row.get("gpu_uuid")))) is None:
        return None
    index = values.number(row.get("index"))
    told = {field: read(row[column]) for column, (field, read) in _FIELDS.items() if column in row}
    return GpuReading(uuid=uuid, index=index if index is not None and 0 <= index < GPUS_MAX else place, **told)
