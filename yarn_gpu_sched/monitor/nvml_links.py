"""How the GPUs of a server reach each other, by NVML: NVLinks counted one by one, PCIe where there are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import pynvml

from yarn_gpu_sched.monitor.nvml_calls import GpuLost, Handle, ask
from yarn_gpu_sched.monitor.reading import GpuLink, LinkKind

_LEVELS: Final = {
    pynvml.NVML_TOPOLOGY_INTERNAL: LinkKind.INTERNAL,
    pynvml.NVML_TOPOLOGY_SINGLE: LinkKind.SINGLE,
    pynvml.NVML_TOPOLOGY_MULTIPLE: LinkKind.MULTIPLE,
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: LinkKind.HOSTBRIDGE,
    pynvml.NVML_TOPOLOGY_NODE: LinkKind.NODE,
    pynvml.NVML_TOPOLOGY_SYSTEM: LinkKind.SYSTEM,
}

Place = tuple[int, int, int]
"""PCI domain, bus and device."""


class End(msgspec.Struct, frozen=True):
    """A GPU of which links are asked."""

    uuid: str
    place: Place | None
    handle: Any


class _Nvlinks(msgspec.Struct):
    """NVLinks of one GPU, counted by what is at their far end."""

    gpus: Counter[Place]
    switches: Counter[Place]


def read_links(ends: Sequence[End]) -> dict[str, tuple[GpuLink, ...]]:
    """Read how each GPU reaches the others, by UUID. A pair of which nothing is known is not there."""
    nvlinks = [_nvlinks(end.handle) for end in ends]
    links: dict[str, list[GpuLink]] = {end.uuid: [] for end in ends}
    for second, end in enumerate(ends):
        for first, other in enumerate(ends[:second]):
            lanes = _lanes(nvlinks[first], other, nvlinks[second], end)
            kind = LinkKind.NVLINK if lanes else _level(other.handle, end.handle)
            if kind is not None:
                links[end.uuid].append(GpuLink(other.uuid, kind, lanes))
                links[other.uuid].append(GpuLink(end.uuid, kind, lanes))
    return {uuid: tuple(found) for uuid, found in links.items()}


def _lanes(one: _Nvlinks, first: End, other: _Nvlinks, second: End) -> int:
    """Count the NVLinks between two GPUs; through switches as many as either has to those that both reach."""
    direct = max(
        one.gpus[second.place] if second.place is not None else 0,
        other.gpus[first.place] if first.place is not None else 0,
    )
    shared = one.switches.keys() & other.switches.keys()
    return direct + min(sum(one.switches[place] for place in shared), sum(other.switches[place] for place in shared))


def _level(one: Handle, other: Handle) -> LinkKind | None:
    try:
        return _LEVELS.get(ask(pynvml.nvmlDeviceGetTopologyCommonAncestor, one, other))
    except GpuLost:
        return None


def _nvlinks(handle: Handle) -> _Nvlinks:
    found = _Nvlinks(Counter(), Counter())
    try:
        for kind, place in _far_ends(handle):
            (found.switches if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH else found.gpus)[place] += 1
    except GpuLost:
        pass
    return found


def _far_ends(handle: Handle) -> Iterator[tuple[int | None, Place]]:
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state = ask(pynvml.nvmlDeviceGetNvLinkState, handle, link)
        if state is None and link == 0:
            return  # none at all: no use in asking for the others
        if state == pynvml.NVML_FEATURE_ENABLED:
            pci = ask(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
            if pci is not None:
                yield ask(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link), place_of(pci)


def place_of(pci: Any) -> Place:  # noqa: ANN401 - a structure of pynvml
    """Return where a device is."""
    return int(pci.domain), int(pci.bus), int(pci.device)
