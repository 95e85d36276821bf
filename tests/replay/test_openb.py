"""openb's pods and nodes: fractions rounded up, pods without GPUs or never scheduled skipped, servers unequal."""

from collections import Counter
from pathlib import Path

import pytest

from tests.replay.traces import OPENB_HEADER, OPENB_NODES, OPENB_PODS, written
from yarn_gpu_sched.replay import Scenario, TraceError, TraceJob, read_servers, read_trace, replay


def row(name: str, gpus: int, milli: int, phase: str, times: str) -> str:
    return f"{name},1000,1024,{gpus},{milli},,LS,{phase},{times}"


def test_pods_of_the_published_list_are_read() -> None:
    trace = read_trace(OPENB_PODS)
    assert (trace.form, len(trace.jobs)) == ("openb", 260)
    assert trace.skipped == {"without GPUs": 19, "never started": 21}
    assert trace.noted == {"asked a part of a GPU: it was rounded up to a whole one": 93}
    assert sum(trace.states.values()) == 260


def test_each_kind_of_pod_has_its_rule(tmp_path: Path) -> None:
    rows = [
        row("whole", 2, 1_000, "Succeeded", "10,110,20"),
        row("part", 1, 460, "Running", "11,31,21"),
        row("plain", 0, 0, "Running", "12,22,12"),
        row("pending", 1, 1_000, "Pending", "13,22,"),
        row("assigned", 1, 1_000, "Pending", "13,22,14"),
        row("lost", 1, 1_000, "Failed", "14,22,"),
    ]
    trace = read_trace(written(tmp_path, OPENB_HEADER, *rows))
    assert trace.jobs == [TraceJob("whole", 10, 2, 90, "all"), TraceJob("part", 11, 1, 10, "all")]
    assert trace.skipped == {"without GPUs": 1, "never started": 3}
    assert trace.noted == {"asked a part of a GPU: it was rounded up to a whole one": 1}
    assert trace.states == {"Succeeded": 1, "Running": 1}


@pytest.mark.parametrize(
    ("bad", "column"),
    [
        (row("a", 1, 1_000, "Running", "1,5,9"), "deletion_time"),
        (row("a", 1, 0, "Running", "1,9,5"), "gpu_milli"),
        (row("a", -1, 1_000, "Running", "1,9,5"), "num_gpu"),
        (row("a", 1, 1_000, "", "1,9,5"), "pod_phase"),
    ],
)
def test_bad_row_is_named(tmp_path: Path, bad: str, column: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_trace(written(tmp_path, OPENB_HEADER, bad))
    assert (caught.value.line, caught.value.column) == (2, column)


def test_servers_of_the_published_list_are_unequal_and_replayed_so() -> None:
    servers = tuple(read_servers(OPENB_NODES))
    assert Counter(server.gpus for server in servers) == {1: 1, 2: 15, 4: 1, 8: 14}
    done = replay(read_trace(OPENB_PODS), Scenario(servers, domains=4), audit=True)
    assert done.summary.gpus_by_server == {"1": 1, "2": 15, "4": 1, "8": 14}
    assert done.summary.refused == 0
    assert {attempt.outcome for attempt in done.attempts} == {"finished"}
