"""What `nvidia-smi -x -q` prints, in the shape that the NodeManager's GPU plugin and others read."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from yarn_gpu_sched.monitor.simulated import smi_text as text
from yarn_gpu_sched.monitor.simulated.smi_text import Shown, Text

Tree = str | Text | list[tuple[str, "Tree"]]


def document(cards: Sequence[Shown], driver_version: str, when: str) -> str:
    """Return the whole document."""
    head: list[tuple[str, Tree]] = [
        ("timestamp", when),
        ("driver_version", driver_version),
        ("cuda_version", "12.2"),
        ("attached_gpus", str(len(cards))),
    ]
    body = "".join(_element(name, value, "\t") for name, value in head)
    gpus = "".join(_gpu(shown) for shown in cards)
    kind = '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">'
    return f'<?xml version="1.0" ?>\n{kind}\n<nvidia_smi_log>\n{body}{gpus}</nvidia_smi_log>\n'


def _gpu(shown: Shown) -> str:
    inner = "".join(_element(name, value, "\t\t") for name, value in _parts(shown))
    return f"\t<gpu id={quoteattr(shown.gpu.card.pci_bus_id)}>\n{inner}\t</gpu>\n"


def _element(name: str, value: Tree, indent: str) -> str:
    if isinstance(value, list):
        inner = "".join(_element(one, content, indent + "\t") for one, content in value)
        return f"{indent}<{name}>\n{inner}{indent}</{name}>\n"
    return f"{indent}<{name}>{escape(_shown(value))}</{name}>\n"


def _shown(value: str | Text) -> str:
    if isinstance(value, str):
        return value
    if value.value is None:
        return "N/A"
    return f"{value.value} {value.unit}" if value.unit else value.value


def _parts(shown: Shown) -> list[tuple[str, Tree]]:
    gpu, mig = shown.gpu, text.mig(shown)
    return [
        ("product_name", text.name(shown)),
        ("product_brand", "Quadro" if gpu.card.model.display else "Tesla"),
        ("display_mode", "Enabled" if gpu.card.model.display else "Disabled"),
        ("persistence_mode", "Enabled"),
        ("mig_mode", [("current_mig", mig), ("pending_mig", mig)]),
        ("mig_devices", _mig_devices(gpu.mig_devices or 0)),
        ("uuid", text.uuid(shown)),
        ("minor_number", text.minor(shown)),
        ("pci", _pci(shown)),
        ("clocks_event_reasons", [(name, active(shown)) for name, active in text.REASONS.items()]),
        ("fb_memory_usage", _memory(shown)),
        ("compute_mode", text.COMPUTE_MODE),
        ("utilization", [("gpu_util", text.sm(shown)), ("memory_util", text.memory_use(shown))]),
        ("ecc_mode", _ecc_mode(shown)),
        ("ecc_errors", [("volatile", _ecc(shown)), ("aggregate", _ecc(shown))]),
        ("temperature", _temperature(shown)),
        ("gpu_power_readings", _power(shown)),
        ("processes", _processes(shown)),
    ]


def _mig_devices(count: int) -> Tree:
    if not count:
        return "None"
    return [("mig_device", [("index", str(index)), ("gpu_instance_id", str(index + 1))]) for index in range(count)]


def _pci(shown: Shown) -> Tree:
    card = shown.gpu.card
    return [
        ("pci_bus", f"{card.pci_bus:02X}"),
        ("pci_device", "00"),
        ("pci_domain", "0000"),
        ("pci_device_id", f"{card.model.pci_device_id:08X}"),
        ("pci_bus_id", text.bus_id(shown)),
    ]


def _memory(shown: Shown) -> Tree:
    return [
        ("total", text.memory_total(shown)),
        ("reserved", Text("0", "MiB")),
        ("used", text.memory_used(shown)),
        ("free", text.memory_free(shown)),
    ]


def _ecc_mode(shown: Shown) -> Tree:
    enabled = Text("Enabled" if shown.gpu.card.model.ecc else None)
    return [("current_ecc", enabled), ("pending_ecc", enabled)]


def _ecc(shown: Shown) -> Tree:
    none = Text("0" if shown.gpu.card.model.ecc else None)
    return [
        ("sram_correctable", none),
        ("sram_uncorrectable", none),
        ("dram_correctable", text.ecc_corrected(shown)),
        ("dram_uncorrectable", text.ecc_uncorrected(shown)),
    ]


def _temperature(shown: Shown) -> Tree:
    now = text.temperature(shown)
    return [
        ("gpu_temp", Text(now.value, "C")),
        ("gpu_temp_max_threshold", Text(str(text.TEMPERATURE_MAX_C), "C")),
        ("gpu_temp_slow_threshold", Text(str(text.TEMPERATURE_SLOW_C), "C")),
    ]


def _power(shown: Shown) -> Tree:
    state = "P0" if shown.gpu.sm_percent else "P8"
    return [
        ("power_state", state),
        ("power_draw", text.power(shown)),
        ("current_power_limit", text.power_limit(shown)),
    ]


def _processes(shown: Shown) -> Tree:
    if "processes" in shown.gpu.missing:
        return Text(None)
    return [
        (
            "process_info",
            [
                ("pid", shown.text("pid", pid)),
                ("type", "C"),
                ("process_name", "[Not Found]"),
                ("used_memory", Text(str(memory_mb), "MiB")),
            ],
        )
        for pid, memory_mb in shown.gpu.processes
    ]
