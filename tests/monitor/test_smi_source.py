"""The program nvidia-smi is run: real processes in its place, some of which misbehave."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.monitor.smi_output import UUIDS, gpu, log
from yarn_gpu_sched.monitor.reading import Failure, FailureKind, GpusReading
from yarn_gpu_sched.monitor.smi import SmiSource
from yarn_gpu_sched.monitor.smi_csv import read_csv

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


def source(script: str, timeout_s: float = 30.0, bytes_max: int = 1_000_000) -> SmiSource:
    return SmiSource(["/bin/sh", "-c", script], timeout_s=timeout_s, output_bytes_max=bytes_max)


def ours() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def failure(reading: GpusReading) -> Failure:
    assert reading.gpus is None
    assert reading.failure is not None
    return reading.failure


def test_program_is_run_for_each_look(tmp_path: Path) -> None:
    file = tmp_path / "smi.xml"
    looking = SmiSource(["/bin/cat", str(file)])
    for number in (0, 1):
        file.write_text(log(gpu(number)))
        reading = looking.read()
        assert reading.failure is None
        assert [each.uuid for each in reading.gpus or ()] == [UUIDS[number]]
    looking.close()


def test_csv_is_read_where_that_is_asked() -> None:
    argv = ["/usr/bin/printf", f"uuid, utilization.gpu [%%]\\n{UUIDS[0]}, [N/A]\\n"]
    (found,) = SmiSource(argv, parse=read_csv).read().gpus or ()
    assert (found.uuid, found.sm_percent) == (UUIDS[0], None)


@pytest.mark.parametrize("redirect", ["", ">&2"])
def test_c16_driver_library_mismatch_is_named_on_either_output(redirect: str) -> None:
    found = failure(
        source(f"echo '{MISMATCH}' {redirect}; echo 'NVML library version: 550.1' {redirect}; exit 18").read()
    )
    assert found == Failure(FailureKind.DRIVER_MISMATCH, MISMATCH)


@pytest.mark.parametrize("redirect", ["", ">&2"])
def test_c16_no_devices_on_standard_output_is_no_reading_of_no_gpus(redirect: str) -> None:
    assert failure(source(f"echo 'No devices were found' {redirect}; exit 6").read()).kind is FailureKind.NO_DEVICES
    assert source(f"cat <<'EOF'\n{log()}EOF").read() == GpusReading(gpus=())


def test_c16_good_again_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "out"
    looking = SmiSource(["/bin/cat", str(file)])
    file.write_text(MISMATCH + "\n")
    assert failure(looking.read()).kind is FailureKind.DRIVER_MISMATCH
    file.write_text(log(gpu(0)))
    assert looking.read().gpus is not None


def test_missing_driver_or_program_is_named(tmp_path: Path) -> None:
    words = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    assert failure(source(f'echo "{words}"; exit 9').read()).kind is FailureKind.NO_DRIVER
    missing = failure(SmiSource([str(tmp_path / "nvidia-smi")]).read())
    assert (missing.kind, str(tmp_path) in missing.detail) == (FailureKind.NO_DRIVER, True)
    unset = failure(SmiSource(["nvidia\0smi"]).read())
    assert unset.kind is FailureKind.NO_DRIVER


def test_c17_half_a_file_is_unreadable_whatever_the_exit_code() -> None:
    found = failure(source(f"cat <<'EOF'\n{log(gpu(0))[:900]}\nEOF").read())
    assert found.kind is FailureKind.UNREADABLE
    assert "no XML" in found.detail


@pytest.mark.parametrize(
    "script", ["sleep 600", "exec sleep 600", "while :; do echo x; sleep 0.05; done", "while :; do echo x; done"]
)
def test_program_that_hangs_or_never_ends_its_answer_is_ended(script: str) -> None:
    before = ours()
    started_s = time.monotonic()
    found = failure(source(script, timeout_s=0.5, bytes_max=10**9).read())
    assert (found.kind, found.detail) == (FailureKind.TIMED_OUT, "no answer after 0.5 s")
    assert time.monotonic() - started_s < 10.0
    assert ours() == before


def test_what_the_program_started_is_ended_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    found = failure(source(f"sleep 600 & echo $! >{file}; wait", timeout_s=1.0).read())
    assert found.kind is FailureKind.TIMED_OUT
    with contextlib.suppress(psutil.NoSuchProcess):
        left = psutil.Process(int(file.read_text()))
        left.wait(10.0)  # raises when it is there still


def test_program_that_does_not_end_after_its_answer_is_ended() -> None:
    before = ours()
    script = f"cat <<'EOF'\n{log(gpu(0))}EOF\nexec >&- 2>&-; exec sleep 600"
    assert source(script).read().gpus is not None
    assert ours() == before


@pytest.mark.parametrize("script", ["exec cat /dev/zero", "exec cat /dev/zero >&2", f"yes '{MISMATCH}'"])
def test_endless_output_is_cut_and_unreadable(script: str) -> None:
    before = ours()
    found = failure(source(script, bytes_max=100_000).read())
    assert found.kind is FailureKind.UNREADABLE or "zero >&2" in script
    assert ours() == before


def test_program_that_cannot_be_ended_is_not_started_again() -> None:
    looking = source("exit 0")
    stuck = subprocess.Popen(
        ["/bin/sleep", "600"]
    )  # what waits for a driver in the kernel looks like this: it does not end
    looking._left = stuck
    found = failure(looking.read())
    assert found.kind is FailureKind.TIMED_OUT
    assert f"process {stuck.pid}, started before, does not end" in found.detail
    stuck.kill()
    stuck.wait()
    assert failure(looking.read()).kind is FailureKind.UNREADABLE


def test_detail_shows_no_control_characters() -> None:
    found = failure(source(r"printf 'Driver/library version mismatch\033[2J\n'").read())
    assert found.detail == "Driver/library version mismatch?[2J"
