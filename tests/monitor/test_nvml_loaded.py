"""A real shared library, found and loaded as the driver's is: by the child, through pynvml and ctypes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from yarn_gpu_sched.monitor import frames
from yarn_gpu_sched.monitor.reading import Failure, FailureKind, GpuReading, GpusReading

REPOSITORY = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("tiny_nvml.c")
COMPILER = shutil.which("cc") or shutil.which("tcc")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("library")
    command = [COMPILER, "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)]
    subprocess.run(command, check=True, timeout=60)
    return folder


def run_child(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "yarn_gpu_sched.monitor.reader", *arguments],
        input=frames.ASK,
        capture_output=True,
        env={"PYTHONPATH": str(REPOSITORY), "LD_LIBRARY_PATH": str(folder), **environment},
        check=True,
        timeout=60,
    )


def read_by_child(folder: Path, **environment: str) -> GpusReading:
    done = run_child(folder, **environment)
    length = frames.length_of(done.stdout[: frames.HEADER_BYTES])
    body = done.stdout[frames.HEADER_BYTES :]
    assert len(body) == length
    return frames.decode(body)


def test_loaded_library_is_read_and_what_it_has_not_is_not_available(library: Path) -> None:
    expected = GpuReading(
        uuid="GPU-tiny",
        index=0,
        memory_used_mb=24,
        memory_total_mb=1024,
        memory_percent=12,
        links=(),
        bad_fields=("model", "sm_percent"),
    )
    assert read_by_child(library) == GpusReading(gpus=(expected,))


def test_library_that_prints_does_not_spoil_the_answer(library: Path) -> None:
    assert b"a library that chats" in run_child(library).stderr


def test_child_takes_no_more_than_a_bound_of_memory(library: Path) -> None:
    few, many = (read_by_child(library, TINY_NVML_PROCESSES=str(count)).gpus for count in (1000, 30_000_000))
    assert few is not None
    assert many is not None
    assert (few[0].processes, many[0].processes) == ((), None)
    assert many[0].memory_percent == 12


def test_child_of_a_parent_that_has_ended_answers_nobody(library: Path) -> None:
    assert run_child(library, "--parent", "1").stdout == b""


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("18", Failure(FailureKind.DRIVER_MISMATCH, "RM has detected an NVML/RM version mismatch. (NVML code 18)")),
        ("9", Failure(FailureKind.NO_DRIVER, "Driver Not Loaded (NVML code 9)")),
        ("777", Failure(FailureKind.UNREADABLE, "tiny trouble (NVML code 777)")),
    ],
)
def test_c16_trouble_of_a_loaded_library_is_named(library: Path, code: str, failure: Failure) -> None:
    assert read_by_child(library, TINY_NVML_CODE=code) == GpusReading(gpus=None, failure=failure)


def test_library_that_is_none_is_no_driver(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"\x7fELF rubbish")
    failure = read_by_child(tmp_path).failure
    assert failure is not None
    assert failure.kind is FailureKind.NO_DRIVER
