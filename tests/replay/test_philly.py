"""Philly's `cluster_job_log`: attempts, ends, missing times, and errors that name the job and the field."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.replay.traces import attempt, philly_job, philly_log
from yarn_gpu_sched.replay import TraceError, TraceJob, read_trace
from yarn_gpu_sched.replay.json_list import JsonList
from yarn_gpu_sched.replay.source import Source

SECOND_S = 2 * 86_400 + 5 * 3_600 + 39 * 60 + 42
"""What the second attempt of `philly_job` lasts."""


def test_duration_is_the_sum_of_the_attempts_and_the_size_that_of_the_largest(tmp_path: Path) -> None:
    trace = read_trace(philly_log(tmp_path, philly_job()))
    assert trace.form == "philly"
    assert trace.jobs == [TraceJob("application_1506638472019_14199", 0, 16, 74 + SECOND_S, "ee9e8c")]
    assert trace.noted == {"had attempts of several sizes: the largest was taken": 1}


@pytest.mark.parametrize("status", ["Pass", "Killed", "Failed", "", "Unheard of"])
def test_every_end_counts_as_finished(tmp_path: Path, status: str) -> None:
    trace = read_trace(philly_log(tmp_path, philly_job(status=status)))
    assert trace.jobs[0].duration_s == 74 + SECOND_S
    assert trace.states == {status or "unknown": 1}
    assert "killed and failed jobs count as finished at the sum of their attempts" in trace.assumed


@pytest.mark.parametrize("missing", [None, "None", "", "null", " none "])
def test_attempt_without_a_time_is_left_out(tmp_path: Path, missing: str | None) -> None:
    first = attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23", m1=2)
    cut = [attempt(missing, "2017-10-07 02:00:00", m1=8), attempt("2017-10-07 02:00:00", missing, m1=8)]
    trace = read_trace(philly_log(tmp_path, philly_job(attempts=[first, *cut])))
    assert [(job.gpus, job.duration_s) for job in trace.jobs] == [(2, 74)]
    assert trace.noted == {"had attempts without a start or an end: these were left out": 1}


@pytest.mark.parametrize(
    "attempts", [[], [attempt(None, None, m1=8)], [attempt("2017-10-07 01:12:09", None, m1=8)], [{}]]
)
def test_job_that_never_started_is_skipped_and_counted(tmp_path: Path, attempts: list[dict[str, Any]]) -> None:
    trace = read_trace(philly_log(tmp_path, philly_job(), philly_job(jobid="b", attempts=attempts)))
    assert (len(trace.jobs), trace.skipped) == (1, {"never started": 1})


def test_job_without_gpus_or_submission_is_skipped_and_counted(tmp_path: Path) -> None:
    bare = philly_job(jobid="b", attempts=[attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23")])
    unsubmitted = [philly_job(jobid="c", submitted_time=time) for time in (None, "None")]
    trace = read_trace(philly_log(tmp_path, philly_job(), bare, *unsubmitted))
    assert trace.skipped == {"without GPUs": 1, "without a time of submission": 2}


def test_a_gpu_that_is_named_twice_is_one(tmp_path: Path) -> None:
    once = attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23", m1=2)
    once["detail"] *= 2
    assert read_trace(philly_log(tmp_path, philly_job(attempts=[once]))).jobs[0].gpus == 2


def test_times_count_from_the_first_submission_in_whatever_order_they_stand(tmp_path: Path) -> None:
    later = philly_job(jobid="later", submitted_time="2017-10-08 01:11:39")
    trace = read_trace(philly_log(tmp_path, later, philly_job()))
    assert [(job.job_id[:5], job.submit_s) for job in trace.jobs] == [("appli", 0), ("later", 86_400)]
    assert trace.first_s == 1_507_338_699


@pytest.mark.parametrize(
    ("changes", "field", "right"),
    [
        ({"vc": 7}, "job 2, vc", "Expected `str`, got `int`"),
        ({"vc": "x\n"}, "virtual cluster", "printable characters"),
        ({"jobid": "\ud800"}, "job 2, jobid", "printable characters"),
        ({"attempts": {}}, "job 2, attempts", "Expected `array`, got `object`"),
        ({"attempts": [{"detail": [{"gpus": "gpu0"}]}]}, "job 2, attempts[0].detail[0].gpus", "Expected `array`"),
        ({"submitted_time": "yesterday"}, "job 2, submitted_time", "YYYY-MM-DD HH:MM:SS"),
        ({"submitted_time": "2017-02-30 00:00:00"}, "job 2, submitted_time", "YYYY-MM-DD HH:MM:SS"),
        ({"attempts": [attempt("2017", None)]}, "job 2, attempts[0].start_time", "YYYY-MM-DD HH:MM:SS"),
        (
            {"attempts": [attempt("2017-10-07 01:12:09", "2017-10-07 01:12:08", m1=1)]},
            "job 2, attempts[0].end_time",
            "an end after the start",
        ),
        ({"jobid": "application_1506638472019_14199"}, "job 2, jobid", "an id that occurs once"),
    ],
)
def test_bad_job_is_named_by_line_number_and_field_or_skipped(
    tmp_path: Path, changes: dict[str, object], field: str, right: str
) -> None:
    path = philly_log(tmp_path, philly_job(), philly_job(**{"jobid": "b", **changes}))
    with pytest.raises(TraceError, match=right) as caught:
        read_trace(path)
    second = [number for number, line in enumerate(path.read_text().splitlines(), 1) if line == "    {"][1]
    assert (caught.value.line, caught.value.column) == (second, field)
    assert str(caught.value).isprintable()
    trace = read_trace(path, skip_bad_rows=True)
    assert (len(trace.jobs), trace.bad_rows_count) == (1, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "an object would be right: the file ends"),
        ("[1]", "'1]': an object would be right"),
        ("{}", "a list of jobs would be right"),
        ('[{"jobid": }]', "JSON would be right"),
        ('[{"jobid": "a"', "an object with its end would be right: the file ends in it"),
        ('[{"jobid": "a', "an object with its end would be right: the file ends in it"),
        ("[{}", "a comma, or the list's end, would be right: the file ends"),
        ("[{} {}]", "a comma, or the list's end, would be right"),
        ("[{},]", "an object would be right"),
        ("[] x", "nothing after the list would be right"),
        ('[{"a": ' + "9" * 5_000 + "}]", "an object that can be decoded would be right"),
        ('[{"a":' + "[" * 200_000, "an object that can be decoded would be right"),
    ],
)
def test_text_that_is_no_list_of_jobs_is_an_error_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "log"
    path.write_text(f"\n\n{text}")
    with pytest.raises(TraceError, match=f"line 3: .*{message}"):
        read_trace(path, skip_bad_rows=True)


def test_empty_list_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="at least one job would be right"):
        read_trace(philly_log(tmp_path))


@pytest.mark.parametrize("cut", [10, 60, 150, 300])
def test_truncated_log_is_an_error(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "log"
    path.write_text(json.dumps([philly_job(), philly_job(jobid="b")])[:-cut])
    with pytest.raises(TraceError, match=r"would be right"):
        read_trace(path, skip_bad_rows=True)


def test_log_is_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.replay.json_list.PIECE_CHARACTERS", 7)
    path = philly_log(tmp_path, *[philly_job(jobid=f"job{number}") for number in range(20)])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b" \r\n")
    assert [job.job_id for job in read_trace(path).jobs] == [f"job{number}" for number in range(20)]


def test_object_without_an_end_is_given_up_at_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.replay.json_list.OBJECT_CHARACTERS_MAX", 10_000)
    monkeypatch.setattr("yarn_gpu_sched.replay.json_list.PIECE_CHARACTERS", 4_000)
    path = tmp_path / "log"
    path.write_text('[{"jobid": "' + "x" * 1_000_000)
    with Source(path) as source:
        objects = JsonList(source)
        with pytest.raises(TraceError, match="JSON would be right"):
            list(objects)
        assert len(source.file.read()) > 900_000
