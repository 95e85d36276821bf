"""Whatever the bytes: a trace, or an error that says where and what; in bounded memory."""

import gzip
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice, repeat
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.replay.traces import HELIOS_HEADER, JOBS_HEADER, OPENB_HEADER, philly_job, written
from yarn_gpu_sched.replay import TraceError, read_quotas, read_servers, read_trace

SOAK = "YGS_SOAK" in os.environ
MIB = 1 << 20
GROWTH_MIB_MAX = 64
RUBBISH_BYTES = 1024 * MIB if SOAK else 96 * MIB
SLOW = ("empty rows", "a list of blanks")
"""Kinds that are read to the end, which takes a minute a GiB and more."""

READER = """
import resource, sys
from yarn_gpu_sched.replay import TraceError, read_trace
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    trace = read_trace("/dev/stdin", skip_bad_rows=sys.argv[1] == "skip")
    said = f"jobs {len(trace.jobs)}, bad rows {trace.bad_rows_count}"
except TraceError as problem:
    said = str(problem)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, said)
"""

T = TypeVar("T")
FIELDS = st.sampled_from(
    [
        "",
        "0",
        "1",
        "-1",
        "1e9",
        "nan",
        "None",
        "1e999",
        '"',
        "x",
        "2020-06-09 10:00:00",
        "2020-06-09 10:00:01",
        "é",
        "\x00",
    ]
)
HEADERS = st.sampled_from(
    [JOBS_HEADER, HELIOS_HEADER, OPENB_HEADER, "sn,gpu", "vc,quota_gpus", "machineId,number of GPUs"]
)


def outcome(read: Callable[[], T]) -> tuple[T | None, str]:
    """Return what was read, or what was said to be wrong with it."""
    try:
        return read(), ""
    except TraceError as problem:
        return None, str(problem)


@st.composite
def near_misses(draw: st.DrawFn) -> bytes:
    """Make a table whose header is known and whose fields are almost right."""
    header = draw(HEADERS)
    count = header.count(",") + 1
    rows = draw(st.lists(st.lists(FIELDS, min_size=count - 1, max_size=count + 1).map(",".join), max_size=6))
    return draw(st.sampled_from(["\n", "\r\n", "\r"])).join([header, *rows]).encode()


@st.composite
def torn_logs(draw: st.DrawFn) -> bytes:
    """Make a log of jobs, of which a piece is cut out or replaced."""
    values = st.recursive(
        st.none() | st.text(max_size=5) | st.integers() | st.just("2017-10-07 01:12:09"),
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["gpus", "ip", "start_time"]), inner)
        ),
        max_leaves=4,
    )
    changes = draw(st.dictionaries(st.sampled_from(["jobid", "vc", "attempts", "submitted_time", "status"]), values))
    raw = json.dumps([philly_job(), philly_job(**changes)]).encode()
    start = draw(st.integers(0, len(raw)))
    return raw[:start] + draw(st.binary(max_size=3)) + raw[start + draw(st.sampled_from([0, 1, 50, len(raw)])) :]


ANY_BYTES = st.one_of(st.binary(max_size=300), near_misses(), torn_logs(), near_misses().map(gzip.compress))


@settings(
    max_examples=2_000 if SOAK else 150,
    derandomize="YGS_RANDOM" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(raw=ANY_BYTES, skip=st.booleans())
def test_any_bytes_give_a_trace_or_an_error_that_can_be_shown(tmp_path: Path, raw: bytes, skip: bool) -> None:  # noqa: FBT001 - drawn by hypothesis
    path = tmp_path / "trace"
    path.write_bytes(raw)
    trace, problem = outcome(lambda: read_trace(path, skip_bad_rows=skip))
    if trace is None:
        assert problem.startswith(str(path))
        assert problem.isprintable()
    else:
        assert trace.jobs
        assert all(job.job_id and job.gpus >= 1 and job.duration_s >= 1 and job.submit_s >= 0 for job in trace.jobs)
        assert skip or not trace.bad_rows_count


@settings(
    max_examples=500 if SOAK else 60,
    derandomize="YGS_RANDOM" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(raw=ANY_BYTES)
def test_any_bytes_give_servers_and_quotas_or_an_error(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "list"
    path.write_bytes(raw)
    trace = read_trace(written(tmp_path, JOBS_HEADER, "a,0,1,5,x"))
    for servers, problem in (outcome(lambda: read_servers(path)), outcome(lambda: read_quotas(path, trace, 8))):
        assert servers or problem
        assert problem.isprintable()


@pytest.mark.parametrize("damage", ["cut", "flipped", "followed"])
def test_damaged_gzip_is_an_error(tmp_path: Path, damage: str) -> None:
    rows = [f"{number},{number},1,{random.Random(number).randrange(9_999)},x" for number in range(2_000)]
    packed = gzip.compress("\n".join([JOBS_HEADER, *rows]).encode())
    middle = len(packed) // 2
    raw = {
        "cut": packed[:middle],
        "flipped": packed[:middle] + bytes([packed[middle] ^ 0xFF]) + packed[middle + 1 :],
        "followed": packed + b"rubbish",
    }[damage]
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(raw)
    with pytest.raises(TraceError, match="would be right"):
        read_trace(path)


def test_gzip_bomb_stops_at_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.replay.source.BYTES_MAX", 20 * MIB)
    path = tmp_path / "trace.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(f"{JOBS_HEADER}\na,0,1,5,x\n".encode())
        for _ in range(40):
            file.write(b"x" * MIB)
    assert path.stat().st_size < MIB
    with pytest.raises(TraceError, match=f"at most {20 * MIB} bytes, unpacked, would be right"):
        read_trace(path, skip_bad_rows=True)


def test_too_many_lines_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.replay.source.LINES_MAX", 3)
    assert (
        len(read_trace(written(tmp_path, JOBS_HEADER, "a,0,1,5,x", "b,0,1,5,x")).jobs) == 2
    )  # as many as there may be
    with pytest.raises(TraceError, match="line 4: at most 3 lines would be right"):
        read_trace(written(tmp_path, JOBS_HEADER, "a,0,1,5,x", "b,0,1,5,x", "c,0,1,5,x"), skip_bad_rows=True)


def noise() -> Iterator[bytes]:
    """Make bytes without an end, a MiB a piece."""
    dice = random.Random(1)
    while True:
        yield dice.randbytes(MIB)


RUBBISH = {
    "noise": (b"", noise, "skip"),
    "noise in rows": (f"{JOBS_HEADER}\n".encode(), noise, "skip"),
    "a row without an end": (f"{JOBS_HEADER}\na,0,1,5,x\n".encode(), lambda: repeat(b"x" * MIB), "skip"),
    "empty rows": (f"{JOBS_HEADER}\n".encode(), lambda: repeat(b"\n" * MIB), "skip"),
    "short rows": (f"{JOBS_HEADER}\n".encode(), lambda: repeat(b"1,2\n" * (MIB // 4)), "skip"),
    "blanks": (b"", lambda: repeat(b" " * MIB), "stop"),
    "a list of blanks": (b"[", lambda: repeat(b" \n" * (MIB // 2)), "stop"),
    "a text without an end": (b'[{"jobid": "', lambda: repeat(b"x" * MIB), "stop"),
    "brackets": (b"", lambda: repeat(b"[" * MIB), "stop"),
    "objects that are no jobs": (b"[{}", lambda: repeat(b",{}" * (MIB // 3)), "skip"),
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", RUBBISH)
def test_rubbish_through_a_pipe_takes_bounded_memory(kind: str) -> None:
    begin, pieces, mode = RUBBISH[kind]
    process = subprocess.Popen(
        [sys.executable, "-c", READER, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    count = RUBBISH_BYTES // MIB if SOAK or kind not in SLOW else 2
    feeding = threading.Thread(target=_feed, args=(process, begin, islice(pieces(), count)))
    feeding.start()
    assert process.stdout is not None
    with process.stdout:
        said = process.stdout.read().decode()
    feeding.join()
    assert process.wait() == 0, said
    growth_kib, _, message = said.partition(" ")
    assert ("jobs 1, bad rows 1" if kind == "a row without an end" else "would be right") in message, said
    assert int(growth_kib) < GROWTH_MIB_MAX * 1024, said


def _feed(process: "subprocess.Popen[bytes]", begin: bytes, pieces: Iterator[bytes]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # the reader has seen enough
        process.stdin.write(begin)
        for piece in pieces:
            process.stdin.write(piece)
    with suppress(BrokenPipeError):
        process.stdin.close()
