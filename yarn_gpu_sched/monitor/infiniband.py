"""The ports below `/sys/class/infiniband`, one by one: a file that cannot be read or says nothing sensible costs its field only.

Counters are as the kernel counts them: those of data in words of four bytes. A port whose link layer is Ethernet (RoCE, iWARP)
is told as such: it is no evidence of an RDMA domain.
"""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

from yarn_gpu_sched.monitor.reading import Port
from yarn_gpu_sched.monitor.small_file import read_small

DEVICES_MAX = 64
PORTS_MAX = 16
"""Of one device."""
COUNTERS_MAX = 128
"""Of one port."""
FILE_BYTES_MAX = 4_096
_LISTED_MAX = 1_024
_COUNTER_MAX = 2**64 - 1

_DEVICE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")
_PORT = re.compile(r"[1-9][0-9]{0,2}\Z")
_COUNTER = re.compile(r"[A-Za-z0-9_]{1,64}\Z")
_WORD = re.compile(r"[0-9]{1,3}: ([A-Za-z][A-Za-z0-9 _-]{0,30})\Z")
_RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) Gb/sec(?: |\Z)")
_LAYERS = {"InfiniBand": True, "Ethernet": False}
# A setting beside the counters: for how long the driver may repeat what it read before.
_NO_COUNTERS = frozenset({"lifespan"})


def read_ports(root: Path = Path("/sys/class/infiniband")) -> tuple[Port, ...]:
    """Return the ports of all devices, by device and port; none where there is no InfiniBand."""
    return tuple(
        _read_port(root / device / "ports" / port, device)
        for device in _listed(root, _DEVICE)[:DEVICES_MAX]
        for port in sorted(_listed(root / device / "ports", _PORT), key=int)[:PORTS_MAX]
    )


def _listed(folder: Path, fit: re.Pattern[str]) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in itertools.islice(entries, _LISTED_MAX) if fit.match(entry.name))
    except OSError:
        return []


def _read_port(folder: Path, device: str) -> Port:
    rate = _RATE.match(_text(folder / "rate"))
    counters = _counters(folder / "hw_counters") | _counters(folder / "counters")
    return Port(
        device=device,
        port=int(folder.name),
        infiniband=_LAYERS.get(_text(folder / "link_layer")),
        state=_word(folder / "state"),
        physical_state=_word(folder / "phys_state"),
        rate_gbps=float(rate[1]) if rate else None,
        counters=dict(itertools.islice(sorted(counters.items()), COUNTERS_MAX)),
    )


def _text(file: Path) -> str:
    return (read_small(file, FILE_BYTES_MAX) or b"").decode("ascii", "replace").strip()


def _word(file: Path) -> str | None:
    """Read a state such as ``4: ACTIVE``."""
    found = _WORD.match(_text(file))
    return found[1] if found else None


def _counters(folder: Path) -> dict[str, int]:
    found = {}
    for name in _listed(folder, _COUNTER)[: 2 * COUNTERS_MAX]:
        text = _text(folder / name)
        # "N/A (no PMA)" is what some devices say of what they do not count.
        if name not in _NO_COUNTERS and re.fullmatch(r"[0-9]{1,20}", text) and int(text) <= _COUNTER_MAX:
            found[name] = int(text)
    return found
