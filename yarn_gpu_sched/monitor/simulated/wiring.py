"""How the cards of a simulated server reach each other: NVLink, and PCIe in pairs below switches, fours on a socket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from yarn_gpu_sched.monitor.simulated.models import Fabric
from yarn_gpu_sched.monitor.simulated.spec import Card

SWITCH_BUS: Final = 0xE0
"""PCI bus of the first NVLink switch; the next ones follow."""
SWITCHES: Final = 6

# Links between the eight GPUs of a hybrid cube mesh: each has six, to four others.
_MESH: Final = (
    (0, 1, 1, 2, 2, 0, 0, 0),
    (1, 0, 2, 1, 0, 2, 0, 0),
    (1, 2, 0, 2, 0, 0, 1, 0),
    (2, 1, 2, 0, 0, 0, 0, 1),
    (2, 0, 0, 0, 0, 1, 1, 2),
    (0, 2, 0, 0, 1, 0, 2, 1),
    (0, 0, 1, 0, 1, 2, 0, 2),
    (0, 0, 0, 1, 2, 1, 2, 0),
)
_EIGHT: Final = 8

INTERNAL, SINGLE, MULTIPLE, HOSTBRIDGE, NODE, SYSTEM = 0, 10, 20, 30, 40, 50


def far_ends(card: Card, cards: Sequence[Card]) -> list[tuple[int, bool]]:
    """List what the NVLinks of a card lead to, link by link: the PCI bus of the other end, and whether it is a switch."""
    if card.model.fabric is Fabric.SWITCH:
        return [(SWITCH_BUS + link % SWITCHES, True) for link in range(card.model.lanes)]
    if card.model.fabric is Fabric.MESH:
        return [(other.pci_bus, False) for other in cards for _ in range(mesh_lanes(card, other, cards))]
    return []


def mesh_lanes(card: Card, other: Card, cards: Sequence[Card]) -> int:
    """Count the NVLinks between two cards of a mesh: their places among the cards of their model say it."""
    if card.model != other.model:
        return 0
    alike = [one.number for one in cards if one.model == card.model]
    first, second = alike.index(card.number), alike.index(other.number)
    if first // _EIGHT != second // _EIGHT:
        return 0
    return _MESH[first % _EIGHT][second % _EIGHT]


def common_ancestor(card: Card, other: Card) -> int:
    """Tell the level of PCIe where two cards meet, as `nvmlGpuTopologyLevel_t` counts."""
    if card.number == other.number:
        return INTERNAL
    if card.number // 2 == other.number // 2:
        return SINGLE
    return NODE if card.number // 4 == other.number // 4 else SYSTEM
