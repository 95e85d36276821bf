"""Processors and memory of the server, from /proc."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from yarn_gpu_sched.monitor.host import HostSource
from yarn_gpu_sched.monitor.reading import HostReading

MEMORY = "MemTotal:       16384000 kB\nMemFree:          100000 kB\nMemAvailable:    6144000 kB\nSwapTotal: 0 kB\n"


class Server:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = HostSource(folder, folder / "infiniband")

    def read(self, cpu: str | None = None, memory: str = MEMORY) -> HostReading:
        if cpu is not None:
            (self.folder / "stat").write_text(f"cpu  {cpu}\ncpu0 {cpu}\nintr 1\n")
        (self.folder / "meminfo").write_text(memory)
        return self.source.read()


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_busy_time_is_that_since_the_look_before(server: Server) -> None:
    percents = [
        server.read(cpu).cpu_percent
        for cpu in (
            "100 0 100 800 0 0 0 0 0 0",
            "150 0 120 930 0 0 0 0 0 0",  # 70 of 200
            "150 10 120 930 90 0 0 0 0 0",  # 10 of 100, the rest waited for disks
            "250 10 120 1030 90 0 0 0 100 0",  # a guest's time is in user
            "250 10 120 1031 90 1 1 1 100 0",
        )
    ]
    assert percents == [None, 35.0, 10.0, 50.0, 75.0]


def test_impossible_times_give_no_percentage(server: Server) -> None:
    percents = [
        server.read(cpu).cpu_percent
        for cpu in (
            "100 0 100 800 50 0 0 0",
            "100 0 100 800 50 0 0 0",  # no time has passed
            "200 0 100 800 40 0 0 0",  # waiting ran backwards
            "10 0 10 80 0 0 0 0",  # all did
            "10 0 10 x 0 0 0 0",
            "20 0 20 100 0 0 0 0",  # the look before is not known
            "30 0 20 110 0 0 0 0",
        )
    ]
    assert percents == [None, None, None, None, None, None, 50.0]


@pytest.mark.timeout(20)
def test_line_of_digits_without_end_takes_no_time(server: Server) -> None:
    assert [server.read("9" * 5_000 + "x").cpu_percent for _ in range(2)] == [None, None]
    assert [server.read("9 " * 5_000 + "x").cpu_percent for _ in range(2)] == [None, None]


def test_old_kernels_short_line_is_read(server: Server) -> None:
    assert [server.read(cpu).cpu_percent for cpu in ("1 0 1 8", "2 0 1 9", "2 0 x")] == [None, 50.0, None]


def test_memory_in_use_is_what_programs_cannot_have(server: Server) -> None:
    reading = server.read()
    assert (reading.memory_total_mb, reading.memory_used_mb) == (16_000, 10_000)


@pytest.mark.parametrize(
    ("memory", "total_mb"),
    [
        ("", None),
        ("MemTotal: 16384000 kB\n", 16_000),
        ("MemTotal: 16384000 kB\nMemAvailable: 16384001 kB\n", 16_000),
        ("MemTotal: 16384000 kB\nMemAvailable: -1 kB\n", 16_000),
        ("MemTotal: N/A kB\nMemAvailable: 1 kB\n", None),
        ("MemTotal: 0 kB\nMemAvailable: 0 kB\n", None),
        ("MemTotal: 99999999999999999999 kB\n", None),
        ("XMemTotal: 1 kB\n", None),
    ],
)
def test_memory_that_cannot_be_known_is_absent_never_zero(server: Server, memory: str, total_mb: int | None) -> None:
    reading = server.read(memory=memory)
    assert (reading.memory_total_mb, reading.memory_used_mb) == (total_mb, None)


def test_server_without_proc_gives_a_reading_of_nothing(tmp_path: Path) -> None:
    assert HostSource(tmp_path / "none", tmp_path / "none").read() == HostReading()


def test_this_machine_is_read() -> None:
    source = HostSource()
    source.read()
    before_s = sum(psutil.cpu_times())
    while sum(psutil.cpu_times()) - before_s < 0.1:  # the kernel counts in ticks of 10 ms; CPU time always passes
        pass
    reading = source.read()
    memory = psutil.virtual_memory()
    assert reading.memory_total_mb == memory.total // 2**20
    assert reading.memory_used_mb is not None
    assert 0 < reading.memory_used_mb < memory.total // 2**20
    assert reading.cpu_percent is not None
    assert 0 < reading.cpu_percent <= 100


LINES = st.sampled_from(
    ["cpu  ", "cpu0 1 2 3 4\n", "1 2 3 4 5 6 7 8", "-1", "9" * 30, "MemTotal:", "MemAvailable:", " 100 kB", "\n", "x"]
)
CONTENT = (
    st.lists(LINES | st.text(max_size=3), max_size=12).map("".join).map(lambda text: text.encode("utf-8", "replace"))
)


@fuzzed(150, 5_000)
@given(contents=st.lists(st.tuples(CONTENT, CONTENT), min_size=2, max_size=3))
def test_whatever_proc_says_nothing_impossible_is_told(tmp_path: Path, contents: list[tuple[bytes, bytes]]) -> None:
    source = HostSource(tmp_path, tmp_path / "none")
    for stat, memory in contents:
        (tmp_path / "stat").write_bytes(stat)
        (tmp_path / "meminfo").write_bytes(memory)
        reading = source.read()
        assert reading.cpu_percent is None or 0 <= reading.cpu_percent <= 100
        assert reading.memory_used_mb is None or 0 <= reading.memory_used_mb <= (reading.memory_total_mb or -1)
