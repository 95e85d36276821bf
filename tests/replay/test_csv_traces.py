"""One row a job: both styles of columns, what is right in odd files, and errors that name line, column and value."""

import gzip
import hashlib
from pathlib import Path

import pytest

from tests.replay.traces import ITP, JOBS_HEADER, PHILLY_WEEK, written
from yarn_gpu_sched.replay import TraceError, TraceJob, deal_vcs, read_trace
from yarn_gpu_sched.replay.schedule import write_csv
from yarn_gpu_sched.replay.trace import JOBS_MAX


def test_philly_week_is_read_whole(tmp_path: Path) -> None:
    trace = read_trace(PHILLY_WEEK)
    assert (trace.form, len(trace.jobs), trace.without_vc) == ("jobs", 10_650, 0)
    assert trace.jobs[0] == TraceJob("0", 0, 1, 30, "6214e9")
    assert len({job.vc for job in trace.jobs}) == 11
    assert not trace.noted
    assert not trace.skipped
    write_csv(tmp_path / "again.csv", ("job_id", "submit", "num_gpus", "duration", "cluster"), trace.jobs)
    assert (tmp_path / "again.csv").read_bytes() == gzip.decompress(PHILLY_WEEK.read_bytes())


def test_clusters_of_the_other_style_are_read_whole_and_name_no_virtual_cluster() -> None:
    traces = [read_trace(ITP / f"cluster{number}.csv.gz") for number in ("01", "03", "05", "06", "10")]
    assert sum(len(trace.jobs) for trace in traces) == 10_891
    assert all(trace.without_vc == len(trace.jobs) for trace in traces)
    assert all('jobs without a virtual cluster are of one, "all" (--vcs)' in trace.assumed for trace in traces)
    first = TraceJob("965d744f-0445-c1a8-12af-97e4c536c66e", 1_932_025, 64, 2_429, "all")
    assert traces[0].jobs[0] == first


def test_times_are_rounded_and_a_job_lasts_a_second_at_least(tmp_path: Path) -> None:
    path = written(tmp_path, JOBS_HEADER, "a,0.4,1,0,x", "b,1.6,2,0.4,x", "c,2.5,3,61.5,x")
    jobs = read_trace(path).jobs
    assert [(job.submit_s, job.gpus, job.duration_s) for job in jobs] == [(0, 1, 1), (2, 2, 1), (2, 3, 62)]


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "marked"])
@pytest.mark.parametrize("packed", [False, True])
def test_marks_line_ends_and_packing_make_no_difference(tmp_path: Path, ends: str, mark: bytes, packed: bool) -> None:  # noqa: FBT001 - a parameter
    raw = mark + ends.join([JOBS_HEADER, "a,0,1,5,x", "", '"b",1,2,6,"x, y"']).encode()
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(raw) if packed else raw)
    assert read_trace(path).jobs == [TraceJob("a", 0, 1, 5, "x"), TraceJob("b", 1, 2, 6, "x, y")]


def test_packed_and_plain_files_have_one_hash(tmp_path: Path) -> None:
    raw = f"{JOBS_HEADER}\na,0,1,5,x\n".encode()
    (tmp_path / "plain").write_bytes(raw)
    (tmp_path / "packed").write_bytes(gzip.compress(raw))
    digest = hashlib.sha256(raw).hexdigest()
    assert (read_trace(tmp_path / "plain").sha256, read_trace(tmp_path / "packed").sha256) == (digest, digest)


def test_unsorted_jobs_are_sorted_ties_as_in_the_file_and_counted(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, JOBS_HEADER, "a,9,1,5,x", "b,3,1,5,x", "c,9,1,5,x", "d,3,1,5,x"))
    assert "".join(job.job_id for job in trace.jobs) == "bdac"
    assert trace.noted == {"stood after a job that was submitted later: the order of submission counts": 2}


def test_columns_may_stand_in_any_order_among_others(tmp_path: Path) -> None:
    path = written(tmp_path, "duration, user ,num_gpu,submission_time,job_id", "5,me,4,7,a")
    assert read_trace(path).jobs == [TraceJob("a", 7, 4, 5, "all")]


@pytest.mark.parametrize(
    ("row", "column", "value", "right"),
    [
        ("a,0,1,-5,x", "duration", "-5", "a number from 0 to"),
        ("a,-1,1,5,x", "submit", "-1", "a number from 0 to"),
        ("a,0,0,5,x", "num_gpus", "0", "a number from 1 to 1,000,000,000"),
        ("a,0,1000000001,5,x", "num_gpus", "1000000001", "a number from 1 to 1,000,000,000"),
        ("a,0,1.5,5,x", "num_gpus", "1.5", "a whole number"),
        ("a,0,one,5,x", "num_gpus", "one", "a number would be right"),
        ("a,nan,1,5,x", "submit", "nan", "a number would be right"),
        ("a,inf,1,5,x", "submit", "inf", "a number from 0 to"),
        ("a,0,1,1e400,x", "duration", "1e400", "a number from 0 to"),
        ("a,0,1_0,5,x", "num_gpus", "1_0", "a number would be right"),
        ("a,,1,5,x", "submit", "", "a value would be right"),
        (",0,1,5,x", "job_id", "", "a value would be right"),
        ("b,0,1,5,x", "job_id", "b", "an id that occurs once would be right"),
        ("a\x07,0,1,5,x", "job_id", "a\x07", "printable characters"),
        (f"{'a' * 201},0,1,5,x", "job_id", "a" * 201, "1 to 200 printable characters"),
        (f"a,0,1,5,{'x' * 201}", "virtual cluster", "x" * 201, "1 to 200 printable characters"),
        ("a,0,1,5", "", "a,0,1,5", "5 fields would be right, not 4"),
        ("a,0,1,5,x,y", "", "a,0,1,5,x,y", "5 fields would be right, not 6"),
        ('a,0,1,5,"x', "", 'a,0,1,5,"x', "a row of a CSV file would be right"),
        (f"a,0,1,5,{'x' * 70_000}", "", "a,0,1,5,xxx", "lines of at most 65536 bytes"),
    ],
)
def test_bad_row_is_named_or_skipped(tmp_path: Path, row: str, column: str, value: str, right: str) -> None:
    path = written(tmp_path, JOBS_HEADER, "b,0,1,5,x", row, "c,0,1,5,x")
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert (caught.value.line, caught.value.column) == (3, column)
    assert caught.value.value.startswith(value)
    assert right in caught.value.right
    shown = str(caught.value)
    assert shown.startswith(f"{path}, line 3: {column}")
    assert shown.isprintable()
    assert len(shown) < 400

    trace = read_trace(path, skip_bad_rows=True)
    assert [job.job_id for job in trace.jobs] == ["b", "c"]
    assert (trace.bad_rows, trace.bad_rows_count) == ([shown], 1)


def test_bytes_that_are_no_text_are_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(f"{JOBS_HEADER}\nb,0,1,5,x\n".encode() + b"\xff\xfe,0,1,5,x\nc,0,1,5,x\n")
    with pytest.raises(TraceError, match=r"line 3: .*xff.*: UTF-8 would be right"):
        read_trace(path)
    assert [job.job_id for job in read_trace(path, skip_bad_rows=True).jobs] == ["b", "c"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_file_in_another_encoding_is_an_error(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "trace"
    path.write_text(f"{JOBS_HEADER}\na,0,1,5,x\n", encoding=encoding)
    with pytest.raises(TraceError, match=r"line 1: .*xff.*: UTF-8 would be right"):
        read_trace(path)


def test_only_the_first_hundred_bad_rows_are_listed(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, JOBS_HEADER, "b,0,1,5,x", *["bad"] * 250), skip_bad_rows=True)
    assert (trace.bad_rows_count, len(trace.bad_rows)) == (250, 100)


@pytest.mark.parametrize(
    ("lines", "right"),
    [
        ((), "the columns of a known format"),
        (("",), "the columns of a known format"),
        (("job_id,duration",), "columns submit and num_gpus, or submission_time and num_gpu"),
        (("job_id,submit,num_gpu,duration",), "columns submit and num_gpus, or submission_time and num_gpu"),
        (("job_id,submit,num_gpus,duration,submit",), "each column once"),
        ((JOBS_HEADER,), "at least one job"),
        (("machineId,number of GPUs,single GPU mem", "m1,8, 24GB"), "a list of servers, which --server-list takes"),
    ],
)
def test_files_that_hold_no_jobs_say_what_would_be_right(tmp_path: Path, lines: tuple[str, ...], right: str) -> None:
    path = tmp_path / "trace"
    path.write_text("\n".join(lines))
    with pytest.raises(TraceError, match=right):
        read_trace(path)


def test_nothing_but_bad_rows_shows_the_first(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"at least one job would be right; skipped: 2 bad rows, the first: .*line 2"):
        read_trace(written(tmp_path, JOBS_HEADER, "x", "y"), skip_bad_rows=True)


def test_too_many_jobs_are_an_error_even_where_bad_rows_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarn_gpu_sched.replay.collector.JOBS_MAX", 3)
    path = written(tmp_path, JOBS_HEADER, *[f"{number},0,1,5,x" for number in range(4)])
    with pytest.raises(TraceError, match="at most 3 jobs would be right"):
        read_trace(path, skip_bad_rows=True)
    assert JOBS_MAX > 1_753_030  # what the largest cluster of Helios has


def test_too_many_bad_rows_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.replay.collector.BAD_ROWS_MAX", 3)
    path = written(tmp_path, JOBS_HEADER, "b,0,1,5,x", *["bad"] * 4)
    with pytest.raises(TraceError, match="line 6: at most 3 bad rows would be right"):
        read_trace(path, skip_bad_rows=True)


def test_jobs_without_a_virtual_cluster_are_dealt_by_the_hash_of_their_ids(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, JOBS_HEADER, "a,0,1,5,", "b,0,1,5,mine", "c,0,1,5,"))
    deal_vcs(trace, 4)
    # sha256("a") begins with c, that of "c" with 2.
    assert [job.vc for job in trace.jobs] == [str(0xC % 4), "mine", str(0x2 % 4)]
    assert "jobs without a virtual cluster are dealt to 4, by the hash of their ids (--vcs)" in trace.assumed
    assert not any("are of one" in text for text in trace.assumed)


@pytest.mark.parametrize("count", [0, 17])
def test_virtual_clusters_are_one_to_sixteen(tmp_path: Path, count: int) -> None:
    trace = read_trace(written(tmp_path, JOBS_HEADER, "a,0,1,5,"))
    with pytest.raises(ValueError, match="1 to 16 would be right"):
        deal_vcs(trace, count)


def test_where_every_job_names_its_virtual_cluster_none_is_dealt(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, JOBS_HEADER, "a,0,1,5,x"))
    with pytest.raises(ValueError, match="every job names its virtual cluster"):
        deal_vcs(trace, 4)


def test_virtual_cluster_that_is_named_as_the_one_of_jobs_without_keeps_its_jobs(tmp_path: Path) -> None:
    rows = ("a,0,1,5,all", "b,0,1,5,", "c,0,1,5,all_", "d,0,1,5,x")
    trace = read_trace(written(tmp_path, JOBS_HEADER, *rows))
    assert [job.vc for job in trace.jobs] == ["all", "all__", "all_", "x"]
    assert 'jobs without a virtual cluster are of one, "all__" (--vcs)' in trace.assumed
    deal_vcs(trace, 1)
    assert [job.vc for job in trace.jobs] == ["all", "0", "all_", "x"]
