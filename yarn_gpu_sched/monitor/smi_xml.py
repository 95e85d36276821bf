"""What `nvidia-smi -x -q` writes, as a reading.

The whole is believed or dropped: XML that is broken or cut, a count of GPUs that is not theirs, an identity that two share. Within
it each value stands by itself. A GPU that does not say its UUID cannot be told from others and is left out; the rest keep their
places.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError

from defusedxml import ElementTree

from yarn_gpu_sched.monitor import smi_values as values
from yarn_gpu_sched.monitor.reading import GPUS_MAX, PROCESSES_MAX, GpuProcess, GpuReading, GpusReading

_ROOT = "nvidia_smi_log"
_END = f"</{_ROOT}>"
# Older drivers speak of throttling, newer ones of events; of the prefix only the reason is kept.
_REASONS = ("clocks_event_reasons", "clocks_throttle_reasons")
_PREFIXES = ("clocks_event_reason_", "clocks_throttle_reason_")
_NVML_CALLS_IT = {"display_clocks_setting": "display_clock_setting"}
_POWER = ("gpu_power_readings", "power_readings", "module_power_readings")
_DRAWN = ("power_draw", "instant_power_draw", "average_power_draw")
_CORRECTED = ("sram_correctable", "dram_correctable")
_UNCORRECTED = ("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded", "dram_uncorrectable")
_MIG_DEVICES_MAX = 1_024


class Unreadable(ValueError):  # noqa: N818 - a name that says what is wrong
    """What was written is no reading."""


def read_xml(text: str) -> GpusReading:
    """Read the output; `Unreadable` says why it is none."""
    # Warnings may follow the log; a log that is cut has no end.
    log = _parsed(text[: text.rfind(_END) + len(_END)] if _END in text else text)
    cards = log.findall("gpu")
    attached = values.number(log.findtext("attached_gpus"))
    if (attached is None and not cards) or attached not in (None, len(cards)) or len(cards) > GPUS_MAX:
        raise Unreadable(f"{len(cards)} GPUs in the output, should be as many as attached_gpus, at most {GPUS_MAX}")
    gpus = tuple(gpu for index, card in enumerate(cards) if (gpu := _gpu(card, index)) is not None)
    if cards and not gpus:
        raise Unreadable("no GPU in the output says its UUID")
    if len({gpu.uuid for gpu in gpus}) < len(gpus):
        raise Unreadable("two GPUs in the output have the same UUID")
    return GpusReading(gpus=gpus)


def _parsed(text: str) -> Element:
    try:
        log = ElementTree.fromstring(text.strip())
    except (ParseError, ValueError, LookupError) as error:
        raise Unreadable(f"the output is no XML: {error}") from error
    if log.tag != _ROOT:
        raise Unreadable(f"the output is {log.tag[:40]!r}, should be {_ROOT}")
    return log


def _gpu(card: Element, index: int) -> GpuReading | None:
    text = card.findtext
    if (uuid := values.uuid(text("uuid"))) is None:
        return None
    mig = card.find("mig_devices")
    return GpuReading(
        uuid=uuid,
        index=index,
        model=values.name(text("product_name")),
        minor=values.number(text("minor_number")),
        pci_bus_id=values.bus_id(text("pci/pci_bus_id")) or values.bus_id(card.get("id")),
        memory_used_mb=values.mebibytes(text("fb_memory_usage/used")),
        memory_total_mb=values.mebibytes(text("fb_memory_usage/total")),
        sm_percent=values.percent(text("utilization/gpu_util")),
        memory_percent=values.percent(text("utilization/memory_util")),
        temperature_c=values.number(text("temperature/gpu_temp"), "C"),
        power_w=_power(card),
        throttle_reasons=_throttle_reasons(card),
        ecc_corrected=_ecc(card, "single_bit", _CORRECTED),
        ecc_uncorrected=_ecc(card, "double_bit", _UNCORRECTED),
        mig_enabled=values.switch(text("mig_mode/current_mig")),
        mig_devices=len(mig.findall("mig_device")[:_MIG_DEVICES_MAX]) if mig is not None else 0,
        processes=_processes(card),
    )


def _power(card: Element) -> float | None:
    drawn = (values.decimal(card.findtext(f"{part}/{name}")) for part in _POWER for name in _DRAWN)
    return next((watts for watts in drawn if watts is not None), None)


def _throttle_reasons(card: Element) -> tuple[str, ...] | None:
    told = [each for part in _REASONS for each in card.findall(f"{part}/*") if each.text in ("Active", "Not Active")]
    if not told:
        return None
    active = (_reason(each.tag) for each in told if each.text == "Active")
    return tuple(dict.fromkeys(active))


def _reason(tag: str) -> str:
    for prefix in _PREFIXES:
        tag = tag.removeprefix(prefix)
    return _NVML_CALLS_IT.get(tag, tag)


def _ecc(card: Element, total: str, parts: tuple[str, ...]) -> int | None:
    """Return errors since the driver was loaded: the total, or from Ampere on the sum of what is counted."""
    volatile = card.find("ecc_errors/volatile")
    if volatile is None:
        return None
    if (count := values.number(volatile.findtext(f"{total}/total"))) is not None:
        return count
    counts = [count for part in parts if (count := values.number(volatile.findtext(part))) is not None]
    return sum(counts) if counts else None


def _processes(card: Element) -> tuple[GpuProcess, ...] | None:
    """Return who holds the GPU; None where that is not told: nobody is claimed to be there, and nobody not to be."""
    part = card.find("processes")
    if part is None or (part.text or "").strip():
        return None
    entries = part.findall("process_info")
    found = tuple(_known(entries))
    return found[:PROCESSES_MAX] if found or not entries else None


def _known(entries: list[Element]) -> Iterator[GpuProcess]:
    for entry in entries:
        if (pid := values.number(entry.findtext("pid"))) is not None:
            yield GpuProcess(pid=pid, memory_mb=values.mebibytes(entry.findtext("used_memory")))
