"""One simulated card in the words of nvidia-smi: each value as text, with its unit by itself, or not available."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from yarn_gpu_sched.monitor.simulated.state import THROTTLE_BITS, GpuState

_MIB: Final = 1 << 20
COMPUTE_MODE: Final = "Default"
TEMPERATURE_MAX_C: Final = 90
TEMPERATURE_SLOW_C: Final = 87


class Text(msgspec.Struct, frozen=True):
    """A value and its unit; ``value`` None: not available."""

    value: str | None
    unit: str = ""


class Shown(msgspec.Struct, frozen=True):
    """A card and its place in the order of nvidia-smi."""

    index: int
    gpu: GpuState

    def text(self, field: str, value: object, unit: str = "", scale: int = 1) -> Text:
        """Return a value of the card, as the scenario bends it: what it says in the library's units is scaled to ours."""
        if field in self.gpu.missing:
            return Text(None, unit)
        bent = self.gpu.impossible.get(field)
        if bent is None:
            return Text(str(value), unit)
        return Text(str(bent // scale if isinstance(bent, int) else bent), unit)


def uuid(shown: Shown) -> Text:
    """Tell who it is."""
    return shown.text("uuid", shown.gpu.card.uuid)


def name(shown: Shown) -> Text:
    """Tell the model."""
    return shown.text("model", shown.gpu.card.model.name)


def minor(shown: Shown) -> Text:
    """Tell the minor number of its device file."""
    return shown.text("minor", shown.gpu.card.minor)


def bus_id(shown: Shown) -> Text:
    """Tell the PCI bus id."""
    return shown.text("pci_bus_id", shown.gpu.card.pci_bus_id)


def memory_total(shown: Shown) -> Text:
    """Tell its memory."""
    return shown.text("memory_total_mb", shown.gpu.card.model.memory_mb, "MiB", _MIB)


def memory_used(shown: Shown) -> Text:
    """Tell the memory in use."""
    return shown.text("memory_used_mb", shown.gpu.memory_used_mb, "MiB", _MIB)


def memory_free(shown: Shown) -> Text:
    """Tell the memory that is free."""
    used, total = memory_used(shown).value, memory_total(shown).value
    return Text(str(max(0, int(total) - int(used))) if used and total else None, "MiB")


def sm(shown: Shown) -> Text:
    """Tell how much of the time kernels ran."""
    return shown.text("sm_percent", shown.gpu.sm_percent, "%")


def memory_use(shown: Shown) -> Text:
    """Tell how much of the time memory was read or written."""
    return shown.text("memory_percent", shown.gpu.memory_percent, "%")


def temperature(shown: Shown) -> Text:
    """Tell the temperature."""
    return shown.text("temperature_c", shown.gpu.temperature_c)


def power(shown: Shown) -> Text:
    """Tell the power."""
    return shown.text("power_w", f"{shown.gpu.power_w:.2f}", "W", 1000)


def power_limit(shown: Shown) -> Text:
    """Tell the most power."""
    return Text(None if "power_w" in shown.gpu.missing else f"{shown.gpu.card.model.power_max_w:.2f}", "W")


def ecc_corrected(shown: Shown) -> Text:
    """Count the ECC errors that were corrected."""
    return shown.text("ecc_corrected", shown.gpu.ecc_corrected)


def ecc_uncorrected(shown: Shown) -> Text:
    """Count the ECC errors that were not."""
    return shown.text("ecc_uncorrected", shown.gpu.ecc_uncorrected)


def mig(shown: Shown) -> Text:
    """Tell whether MIG is enabled."""
    return shown.text("mig_enabled", "Disabled" if shown.gpu.mig_devices is None else "Enabled")


def reasons(shown: Shown) -> Text:
    """Tell why clocks are held down, as bits."""
    found = shown.text("throttle_reasons", shown.gpu.throttle_bits)
    return Text(found.value and f"0x{int(found.value) & 0xFFFFFFFFFFFFFFFF:016X}")


def reason(bit: int) -> Callable[[Shown], Text]:
    """Make what tells whether clocks are held down for one reason."""

    def active(shown: Shown) -> Text:
        bits = shown.text("throttle_reasons", shown.gpu.throttle_bits).value
        return Text(bits and ("Active" if int(bits) & bit else "Not Active"))

    return active


REASONS: Final[dict[str, Callable[[Shown], Text]]] = {
    f"clocks_event_reason_{name}": reason(bit) for name, bit in THROTTLE_BITS.items()
}
