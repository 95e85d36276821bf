"""The models of GPUs that can be simulated: what NVIDIA's own tools say of them."""

from __future__ import annotations

import enum
from typing import Final

import msgspec


class Fabric(enum.Enum):
    """How the GPUs of one server are linked by NVLink."""

    NONE = "none"
    MESH = "mesh"
    """Each with six links to four others of its eight, as in the first servers of this kind."""
    SWITCH = "switch"
    """All with all, through switches."""


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model of GPU. Memory as nvidia-smi shows it."""

    name: str
    memory_mb: int
    power_max_w: int
    pci_device_id: int
    fabric: Fabric = Fabric.NONE
    lanes: int = 0
    """NVLinks of one GPU."""
    ecc: bool = True
    mig: bool = False
    display: bool = False
    """A small card for a screen: it tells no utilisation, power or ECC."""


MODELS: Final[dict[str, Model]] = {
    "P400": Model(
        name="Quadro P400", memory_mb=2048, power_max_w=30, pci_device_id=0x1CB310DE, ecc=False, display=True
    ),
    "T400": Model(
        name="NVIDIA T400 4GB", memory_mb=4096, power_max_w=31, pci_device_id=0x1FF210DE, ecc=False, display=True
    ),
    "T4": Model(name="Tesla T4", memory_mb=15360, power_max_w=70, pci_device_id=0x1EB810DE),
    "P100": Model(name="Tesla P100-PCIE-16GB", memory_mb=16384, power_max_w=250, pci_device_id=0x15F810DE),
    "V100": Model(
        name="Tesla V100-SXM2-32GB",
        memory_mb=32768,
        power_max_w=300,
        pci_device_id=0x1DB510DE,
        fabric=Fabric.MESH,
        lanes=6,
    ),
    "V100-16GB": Model(
        name="Tesla V100-SXM2-16GB",
        memory_mb=16384,
        power_max_w=300,
        pci_device_id=0x1DB110DE,
        fabric=Fabric.MESH,
        lanes=6,
    ),
    "A10": Model(name="NVIDIA A10", memory_mb=23028, power_max_w=150, pci_device_id=0x223610DE),
    "RTX3090": Model(
        name="NVIDIA GeForce RTX 3090", memory_mb=24576, power_max_w=350, pci_device_id=0x220410DE, ecc=False
    ),
    "A100": Model(
        name="NVIDIA A100-SXM4-40GB",
        memory_mb=40960,
        power_max_w=400,
        pci_device_id=0x20B010DE,
        fabric=Fabric.SWITCH,
        lanes=12,
        mig=True,
    ),
    "A100-80GB": Model(
        name="NVIDIA A100-SXM4-80GB",
        memory_mb=81920,
        power_max_w=400,
        pci_device_id=0x20B210DE,
        fabric=Fabric.SWITCH,
        lanes=12,
        mig=True,
    ),
    "L40S": Model(name="NVIDIA L40S", memory_mb=46068, power_max_w=350, pci_device_id=0x26B910DE),
    "H100": Model(
        name="NVIDIA H100 80GB HBM3",
        memory_mb=81559,
        power_max_w=700,
        pci_device_id=0x233010DE,
        fabric=Fabric.SWITCH,
        lanes=18,
        mig=True,
    ),
    "H200": Model(
        name="NVIDIA H200",
        memory_mb=143771,
        power_max_w=700,
        pci_device_id=0x233510DE,
        fabric=Fabric.SWITCH,
        lanes=18,
        mig=True,
    ),
}
