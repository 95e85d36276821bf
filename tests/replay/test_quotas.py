"""Quotas in a plain file; Helios's sizes by day are in test_helios.py."""

from pathlib import Path

import pytest

from tests.replay.traces import JOBS_HEADER, PHILLY_QUOTAS, PHILLY_WEEK, written
from yarn_gpu_sched.replay import Scenario, TraceError, read_quotas, read_trace, replay
from yarn_gpu_sched.replay.trace import Trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return read_trace(written(tmp_path, JOBS_HEADER, "a,0,1,5,x", "b,0,1,5,y", "c,0,1,5,y"))


def test_quotas_of_the_carried_trace_are_whole() -> None:
    quotas = read_quotas(PHILLY_QUOTAS, read_trace(PHILLY_WEEK), 480)
    assert (len(quotas.by_vc), sum(quotas.by_vc.values()), quotas.noted) == (11, 480, [])


def test_quotas_are_written_down_and_said_not_to_be_kept(tmp_path: Path, trace: Trace) -> None:
    quotas = read_quotas(written(tmp_path, "vc,quota_gpus", "x,0", "z,9", name="quotas.csv"), trace, 8)
    summary = replay(trace, Scenario("1x8", quotas=quotas)).summary
    assert summary.quotas == {"x": 0, "z": 9}
    assert summary.warnings == [
        "quotas are NOT kept: policy fifo knows none",
        "virtual clusters without a quota, theirs is 0: 1, with 2 jobs",
        "in virtual clusters with a quota of 0: 1 job",
        "the quotas add up to 9 GPUs, the cluster has 8",
    ]


@pytest.mark.parametrize(
    ("lines", "line", "column", "right"),
    [
        (("vc,quota_gpus", "x,8", "x,9"), 3, "vc", "a virtual cluster that occurs once"),
        (("vc,quota_gpus", "x,-1"), 2, "quota_gpus", "a number from 0"),
        (("vc,quota_gpus", "x,1.5"), 2, "quota_gpus", "a whole number"),
        (("vc,quota_gpus", "x,"), 2, "quota_gpus", "a value"),
        (("vc,quota_gpus", ",1"), 2, "vc", "a value"),
        (("vc,quota_gpus", "a\x1b,1"), 2, "vc", "printable characters"),
        (("vc,quota_gpus",), 0, "", "at least one virtual cluster"),
        (("vc,gpus", "x,1"), 1, "header", "columns vc and quota_gpus, or Helios's"),
        (("date,x,total", "2020-01-01,1,1"), 1, "header", "this trace tells no dates"),
    ],
)
def test_bad_quotas_are_named(
    tmp_path: Path, trace: Trace, lines: tuple[str, ...], line: int, column: str, right: str
) -> None:
    with pytest.raises(TraceError, match=right) as caught:
        read_quotas(written(tmp_path, *lines, name="quotas.csv"), trace, 8)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_too_many_virtual_clusters_are_an_error(tmp_path: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.replay.quotas.VCS_MAX", 2)
    path = written(tmp_path, "vc,quota_gpus", "x,1", "y,1", "z,1", name="quotas.csv")
    with pytest.raises(TraceError, match="line 4: vc 'z': at most 2 virtual clusters"):
        read_quotas(path, trace, 8)
