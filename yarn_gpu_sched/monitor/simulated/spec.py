"""Which cards a simulated server has, from a few words: `4xV100`, or `1xP400+4xV100` in the order of nvidia-smi."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import msgspec

from yarn_gpu_sched.monitor.reading import GPUS_MAX
from yarn_gpu_sched.monitor.simulated.models import MODELS, Model

_GROUP = re.compile(r"(?:([0-9]{1,4})x)?([A-Za-z0-9-]{1,32})\Z")
_BUS_FIRST = 0x06
_BUS_STEP = 3


class BadSpec(ValueError):  # noqa: N818 - a name that says what is wrong
    """The words do not name cards."""


class Card(msgspec.Struct, frozen=True):
    """One card. ``number`` is its place in the order of nvidia-smi while no card is missing."""

    number: int
    uuid: str
    minor: int
    pci_bus: int
    model: Model

    @property
    def pci_bus_id(self) -> str:
        """The PCI bus id as NVIDIA's tools write it."""
        return f"00000000:{self.pci_bus:02X}:00.0"


def parse(text: str, host: str = "localhost") -> tuple[Card, ...]:
    """Return the cards of ``host``; `BadSpec` if the text names none. `0` is a server without cards."""
    if text.strip() == "0":
        return ()
    models = [model for group in text.split("+") for model in _group(group.strip(), text)]
    if len(models) > GPUS_MAX:
        raise BadSpec(f"simulate {text!r}: {len(models)} GPUs; a server has at most {GPUS_MAX}")
    return tuple(
        Card(number, _uuid(host, number), number, _BUS_FIRST + _BUS_STEP * number, model)
        for number, model in enumerate(models)
    )


def with_minors(cards: Sequence[Card], minors: Sequence[int]) -> tuple[Card, ...]:
    """Give the cards other minor numbers (`/dev/nvidia3`): they need not be in the order of nvidia-smi."""
    return tuple(msgspec.structs.replace(card, minor=minor) for card, minor in zip(cards, minors, strict=True))


def _group(group: str, text: str) -> list[Model]:
    match = _GROUP.match(group)
    names = {name.lower(): model for name, model in MODELS.items()}
    model = names.get(match[2].lower()) if match else None
    if match is None or model is None:
        raise BadSpec(
            f"simulate {text!r}: {group!r} is no group of GPUs; right would be a number, x and a model, such as 4xV100,"
            f" groups joined by +; models: {', '.join(MODELS)}"
        )
    count = int(match[1] or 1)
    if not 1 <= count <= GPUS_MAX:
        raise BadSpec(f"simulate {text!r}: {count} GPUs; right would be 1 to {GPUS_MAX}")
    return [model] * count


def _uuid(host: str, number: int) -> str:
    """Make a UUID that is the same for the same card of the same host, and another one anywhere else."""
    digest = hashlib.sha256(f"{host.lower()}/{number}".encode()).hexdigest()
    return f"GPU-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
