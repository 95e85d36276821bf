"""The server beside its GPUs: how busy its processors are, its memory, its InfiniBand ports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from yarn_gpu_sched.monitor.infiniband import read_ports
from yarn_gpu_sched.monitor.reading import HostReading
from yarn_gpu_sched.monitor.small_file import read_small

FILE_BYTES_MAX = 1_048_576
_MEMORY = re.compile(rb"^(MemTotal|MemAvailable): +([0-9]{1,15}) kB$", re.MULTILINE)
# User, nice, system, idle, iowait, irq, softirq, steal. What follows, time of guests, is in user and nice already.
_COUNTED = 8
_COUNTED_MIN = 4
_TICKS_DIGITS_MAX = 20
_IDLE = slice(3, 5)


class _Ticks(NamedTuple):
    total: int
    idle: int


class HostSource:
    """Looks at this server. The first look knows of no percentage: that is of the time since the look before."""

    def __init__(self, proc_root: Path = Path("/proc"), infiniband_root: Path = Path("/sys/class/infiniband")) -> None:
        self._proc_root = proc_root
        self._infiniband_root = infiniband_root
        self._before: _Ticks | None = None

    def read(self) -> HostReading:
        """Look once; what cannot be read is None. Raises nothing."""
        total_mb, used_mb = self._memory()
        return HostReading(
            cpu_percent=self._cpu_percent(),
            memory_used_mb=used_mb,
            memory_total_mb=total_mb,
            ports=read_ports(self._infiniband_root),
        )

    def _cpu_percent(self) -> float | None:
        before, self._before = self._before, self._ticks()
        if before is None or self._before is None:
            return None
        total = self._before.total - before.total
        idle = self._before.idle - before.idle
        # The kernel's count of waiting may run backwards.
        return round(100 * (total - idle) / total, 1) if 0 <= idle <= total and total else None

    def _ticks(self) -> _Ticks | None:
        first = (read_small(self._proc_root / "stat", FILE_BYTES_MAX) or b"").partition(b"\n")[0]
        name, *words = first.split() or [b""]
        counted = words[:_COUNTED]
        fit = all(word.isdigit() and len(word) <= _TICKS_DIGITS_MAX for word in counted)
        if name != b"cpu" or len(counted) < _COUNTED_MIN or not fit:
            return None
        numbers = [int(word) for word in counted]
        return _Ticks(sum(numbers), sum(numbers[_IDLE]))

    def _memory(self) -> tuple[int | None, int | None]:
        """Return total and used, in MiB; used is what programs cannot have any more."""
        kb = dict(reversed(_MEMORY.findall(read_small(self._proc_root / "meminfo", FILE_BYTES_MAX) or b"")))
        if b"MemTotal" not in kb or not (total_kb := int(kb[b"MemTotal"])):
            return None, None
        free_kb = int(kb.get(b"MemAvailable", total_kb + 1))
        return total_kb // 1024, (total_kb - free_kb) // 1024 if free_kb <= total_kb else None
