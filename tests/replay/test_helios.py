"""Helios's `cluster_log.csv` and the sizes of its virtual clusters: one stated rule for each oddity, counted."""

from pathlib import Path

import pytest

from tests.replay.traces import HELIOS_HEADER, written
from yarn_gpu_sched.replay import Scenario, TraceError, TraceJob, read_quotas, read_trace, replay
from yarn_gpu_sched.replay.trace import Trace

DAY = "2020-06-09"


def row(  # noqa: PLR0913 - one parameter a column
    job_id: str,
    gpus: int = 1,
    *,
    vc: str = "vcA",
    nodes: int = 1,
    state: str = "COMPLETED",
    submit: str = f"{DAY} 10:00:00",
    start: str = f"{DAY} 10:00:05",
    end: str = f"{DAY} 10:00:15",
    duration: object = 10,
) -> str:
    return f"{job_id},u1,{vc},name,{gpus},4,{nodes},{state},{submit},{start},{end},{duration},5"


def read(folder: Path, *rows: str, skip_bad_rows: bool = False) -> Trace:
    return read_trace(written(folder, HELIOS_HEADER, *rows), skip_bad_rows=skip_bad_rows)


def test_plain_job_counts_from_the_first_submission(tmp_path: Path) -> None:
    trace = read(tmp_path, row("1"), row("2", 4, submit=f"{DAY} 10:01:00", start=f"{DAY} 10:02:00", end="None"))
    assert trace.form == "helios"
    assert trace.jobs == [TraceJob("1", 0, 1, 10, "vcA"), TraceJob("2", 60, 4, 10, "vcA")]
    assert not trace.noted


def test_job_without_gpus_is_skipped_and_counted(tmp_path: Path) -> None:
    trace = read(tmp_path, row("1"), row("2", 0))
    assert ([job.job_id for job in trace.jobs], trace.skipped) == (["1"], {"without GPUs": 1})


def test_job_that_never_started_is_skipped_and_counted(tmp_path: Path) -> None:
    trace = read(tmp_path, row("1"), row("2", start="", end="", duration=0), row("3", start="None", end="None"))
    assert ([job.job_id for job in trace.jobs], trace.skipped) == (["1"], {"never started": 2})


def test_twelve_gpus_on_five_servers_are_a_gang_of_twelve(tmp_path: Path) -> None:
    trace = read(tmp_path, row("1", 12, nodes=5), row("2", 12, nodes=3))
    assert [job.gpus for job in trace.jobs] == [12, 12]
    assert trace.noted == {
        "had unequal numbers of GPUs on the servers: it is a gang of single GPUs like every other": 1
    }


def test_every_end_counts_as_finished_and_is_counted_by_its_name(tmp_path: Path) -> None:
    states = ["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "SUSPENDED", "COMPLETED"]
    trace = read(tmp_path, *[row(str(number), state=state) for number, state in enumerate(states)])
    assert trace.states == {**dict.fromkeys(states, 1), "COMPLETED": 2}
    assert "every end counts as finished, whatever its state" in trace.assumed
    assert replay(trace, Scenario("1x8")).summary.mean_jct_s == 10.0


def test_more_ways_to_end_than_there_can_be_count_as_others(tmp_path: Path) -> None:
    trace = read(tmp_path, *[row(str(number), state=f"S{number}") for number in range(40)])
    assert (len(trace.states), trace.states["others"]) == (33, 8)


def test_start_before_submission_is_taken_for_the_submission(tmp_path: Path) -> None:
    trace = read(tmp_path, row("1"), row("2", submit=f"{DAY} 10:00:30", start=f"{DAY} 10:00:20", end=f"{DAY} 10:00:30"))
    assert [job.submit_s for job in trace.jobs] == [0, 20]
    assert trace.noted == {"had a start before the submission: the start was taken for it": 1}


def test_job_on_no_nodes_is_a_job_like_every_other(tmp_path: Path) -> None:
    trace = read(tmp_path, row("1", 4, nodes=0))
    assert [job.gpus for job in trace.jobs] == [4]
    assert trace.noted == {"had a node_num of 0, which nothing else depends on": 1}


def test_duration_that_differs_from_start_to_end_gives_way(tmp_path: Path) -> None:
    trace = read(tmp_path, row("1", end=f"{DAY} 11:00:05"), row("2", end=f"{DAY} 10:00:16"))
    assert [job.duration_s for job in trace.jobs] == [3_600, 10]  # a second is rounding
    assert trace.noted == {"had a duration that differs from start to end: start to end was taken": 1}


@pytest.mark.parametrize(
    ("bad", "column", "right"),
    [
        (row("2", submit="June 9"), "submit_time", "YYYY-MM-DD HH:MM:SS"),
        (row("2", submit=""), "submit_time", "YYYY-MM-DD HH:MM:SS"),
        (row("2", start="2020-13-01 00:00:00"), "start_time", "YYYY-MM-DD HH:MM:SS"),
        (row("2", end=f"{DAY} 10:00:04"), "end_time", "an end after the start"),
        (row("2", duration=-3), "duration", "a number from 0"),
        (row("2", vc=""), "vc", "a value"),
        (row("2", nodes=-1), "node_num", "a number from 0"),
        (row("1"), "job_id", "an id that occurs once"),
        (row("1", 12, nodes=5, duration=99), "job_id", "an id that occurs once"),
        (row("2", state=""), "state", "a value"),
    ],
)
def test_bad_row_is_named_or_skipped(tmp_path: Path, bad: str, column: str, right: str) -> None:
    with pytest.raises(TraceError, match=right) as caught:
        read(tmp_path, row("1"), bad)
    assert (caught.value.line, caught.value.column) == (3, column)
    trace = read(tmp_path, row("1"), bad, skip_bad_rows=True)
    assert ([job.job_id for job in trace.jobs], trace.bad_rows_count) == (["1"], 1)
    assert not trace.noted  # of what is left out nothing is told


def test_sizes_are_those_of_the_first_day_and_what_differs_is_counted(tmp_path: Path) -> None:
    jobs = [row("1"), row("2", vc="vcNone"), row("3", vc="vcNone"), row("4", vc="vcZero")]
    trace = read(tmp_path, *jobs)
    days = ["2020-06-08,1,1,2", f"{DAY},8,0,8", "2020-06-10,16,0,16", "2020-06-11,8,0,8", "2020-06-12,8,8,16"]
    sizes = written(tmp_path, "date,vcA,vcZero,total", *days, name="sizes.csv")
    quotas = read_quotas(sizes, trace, 4)
    assert quotas.by_vc == {"vcA": 8, "vcZero": 0}
    assert quotas.assumed == [f"virtual clusters keep their sizes of {DAY}, when the first job was submitted"]
    assert quotas.noted == [
        "sizes of virtual clusters differ later, which is not followed: on 2 days",
        "virtual clusters without a quota, theirs is 0: 1, with 2 jobs",
        "in virtual clusters with a quota of 0: 1 job",
        "the quotas add up to 8 GPUs, the cluster has 4",
    ]


def test_sizes_need_the_day_of_the_first_submission(tmp_path: Path) -> None:
    sizes = written(tmp_path, "date,vcA,total", "2020-06-08,1,1", name="sizes.csv")
    with pytest.raises(TraceError, match=f"a row for {DAY}, when the first job was submitted, would be right"):
        read_quotas(sizes, read(tmp_path, row("1")), 8)
