"""What NVML tells of one GPU: each call by itself, so that one that fails costs what it tells and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pynvml

from yarn_gpu_sched.monitor.nvml_calls import Handle, ask
from yarn_gpu_sched.monitor.reading import PROCESSES_MAX, GpuProcess

_MIB: Final = 1 << 20
_MIG_DEVICES_MAX: Final = 64
REASONS: Final = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clock_setting",
    "board_limit",
    "reliability",
)
"""Why clocks are held down, bit by bit."""

Values = dict[str, Any]
Listing = Callable[[Handle], list[Any]]

_ALSO: Final[tuple[tuple[Listing, Listing], ...]] = (
    (pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3, pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2),
    (pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2),
)


def read_fields(handle: Handle) -> Values:
    """Read all that changes; what is not available is not in the result."""
    values: Values = {}
    for call in _CALLS:
        values |= ask(call, handle) or {}
    return values


def _memory(handle: Handle) -> Values:
    """Memory in use and in all. What the driver keeps for itself counts as used in the older call alone."""
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, handle, version=pynvml.nvmlMemory_v2)
    if memory is None:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return {"memory_used_mb": memory.used // _MIB, "memory_total_mb": memory.total // _MIB}


def _utilisation(handle: Handle) -> Values:
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return {"sm_percent": rates.gpu, "memory_percent": rates.memory}


def _temperature(handle: Handle) -> Values:
    return {"temperature_c": pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)}


def _power(handle: Handle) -> Values:
    return {"power_w": pynvml.nvmlDeviceGetPowerUsage(handle) / 1000}


def _throttle(handle: Handle) -> Values:
    bits = ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if bits is None:  # drivers before 535 know it by its older name
        bits = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return {"throttle_reasons": tuple(_reasons(bits))}


def _reasons(bits: int) -> Iterator[str]:
    for bit in range(bits.bit_length()):
        if bits >> bit & 1:
            yield REASONS[bit] if bit < len(REASONS) else f"bit_{bit}"


def _ecc_corrected(handle: Handle) -> Values:
    kind = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
    return {"ecc_corrected": pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, pynvml.NVML_VOLATILE_ECC)}


def _ecc_uncorrected(handle: Handle) -> Values:
    kind = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    return {"ecc_uncorrected": pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, pynvml.NVML_VOLATILE_ECC)}


def _mig(handle: Handle) -> Values:
    mode, _pending = pynvml.nvmlDeviceGetMigMode(handle)
    enabled = mode == pynvml.NVML_DEVICE_MIG_ENABLE
    if not enabled and mode != pynvml.NVML_DEVICE_MIG_DISABLE:
        return {}
    return {"mig_enabled": enabled, "mig_devices": _mig_devices(handle) if enabled else 0}


def _mig_devices(handle: Handle) -> int:
    places = min(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0, _MIG_DEVICES_MAX)
    found = (ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place) for place in range(places))
    return sum(device is not None for device in found)


def _processes(handle: Handle) -> Values:
    """Tell who holds the GPU, each process once: those that compute must be told, graphics and MPS clients where they are."""
    listed = _listed(
        pynvml.nvmlDeviceGetComputeRunningProcesses_v3, pynvml.nvmlDeviceGetComputeRunningProcesses_v2, handle
    )
    if listed is None:
        return {}
    for newer, older in _ALSO:
        listed += _listed(newer, older, handle) or []
    memory: dict[int, int | None] = {}
    for process in listed:
        used = process.usedGpuMemory
        memory[process.pid] = _more(memory.get(process.pid), None if used is None else used // _MIB)
    return {"processes": tuple(GpuProcess(pid, memory[pid]) for pid in sorted(memory)[:PROCESSES_MAX])}


def _listed(newer: Listing, older: Listing, handle: Handle) -> list[Any] | None:
    """List processes by the newer of two calls, where the driver has it."""
    found = ask(newer, handle)
    return ask(older, handle) if found is None else found


def _more(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)


_CALLS: Final[tuple[Callable[[Handle], Values], ...]] = (
    _memory,
    _utilisation,
    _temperature,
    _power,
    _throttle,
    _ecc_corrected,
    _ecc_uncorrected,
    _mig,
    _processes,
)
