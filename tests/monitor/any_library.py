"""A driver's library that answers anything: any code, any bytes in whatever it is to fill."""

from __future__ import annotations

import ctypes
import functools
import random
from typing import Any

import pynvml

CODES = [*range(1, 31), 999, 4242, -1, 1 << 31, (1 << 32) - 1]
COUNTS = ("nvmlDeviceGetCount_v2", "nvmlDeviceGetMaxMigDeviceCount")


class AnyLibrary:
    """Answers as its seed says. ``good_percent``: how often a call succeeds; ``kept_percent``: how often what it fills is small."""

    def __init__(self, seed: int, good_percent: int, kept_percent: int) -> None:
        self._random = random.Random(seed)
        self._good_percent = good_percent
        self._kept_percent = kept_percent
        self.gone = self._random.choice(
            [(), ("nvmlEventSetCreate",), ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetUUID")]
        )

    def __getattr__(self, name: str) -> functools.partial[Any]:
        if name in self.gone or not name.startswith("nvml"):
            raise AttributeError(name)
        return functools.partial(self._call, name)

    def _call(self, name: str, *arguments: Any) -> Any:  # noqa: ANN401 - as ctypes takes them
        if name == "nvmlErrorString":
            return self._random.choice([None, b"", b"words", b"\xf8\xff", b"x" * 5000])
        if self._random.randrange(100) >= self._good_percent:
            return self._random.choice(CODES)
        for argument in arguments:
            target = getattr(argument, "_obj", argument)
            if isinstance(target, ctypes.Array | ctypes.Structure) or hasattr(argument, "_obj"):
                self._fill(name, target)
        # A list that does not fit is what makes the caller come again with more room.
        lists = name.endswith(("RunningProcesses_v2", "RunningProcesses_v3")) and arguments[-1] is None
        return self._random.choice([0, 7]) if lists else 0

    def _fill(self, name: str, target: Any) -> None:  # noqa: ANN401 - anything of ctypes
        small = self._random.randrange(100) < self._kept_percent
        if isinstance(target, ctypes._Pointer):
            where = 0x1000 + self._random.randrange(8 if small else 1 << 40)
            ctypes.cast(ctypes.pointer(target), ctypes.POINTER(ctypes.c_void_p)).contents.value = where
        elif isinstance(target, ctypes.Array | ctypes.Structure):
            size = ctypes.sizeof(target)
            raw = self._random.randbytes(size)
            if small and isinstance(target, ctypes.Array) and target._type_ is ctypes.c_char:
                raw = b"GPU-%d" % self._random.randrange(6)
            ctypes.memmove(ctypes.addressof(target), raw.ljust(size, b"\0"), size)
            if small:
                self._make_possible(target)
        elif small or name in COUNTS:
            target.value = self._random.randrange(5 if small else 70)
        else:
            target.value = self._random.getrandbits(64)

    def _make_possible(self, target: Any) -> None:  # noqa: ANN401 - anything of ctypes
        """Let processes and events look like some, so that not all of them are thrown away at the first look."""
        if isinstance(target, pynvml.c_nvmlEventData_t):
            self._fill("", target.device)
            target.eventType, target.eventData = 8, self._random.randrange(100)
        elif isinstance(target, ctypes.Array) and hasattr(target, "_type_") and hasattr(target._type_, "pid"):
            for process in target[:5]:
                process.pid, process.usedGpuMemory = self._random.randrange(5), self._random.randrange(1 << 40)
