"""Servers of a replayed cluster: all alike, or as a list has them, dealt to RDMA domains as the judge does."""

from pathlib import Path

import msgspec
import pytest

from tests.replay.traces import written
from yarn_gpu_sched.replay import ListedServer, Scenario, TraceError, read_servers
from yarn_gpu_sched.replay.layout import servers_of, uniform


def test_uniform_servers() -> None:
    assert uniform(" 3X8 ") == [8, 8, 8]


@pytest.mark.parametrize(
    "text", ["", "60", "60x", "x8", "0x8", "60x0", "100001x8", "60x1025", "-1x8", "6.5x8", "6x8x2", "٦x8"]
)
def test_what_is_no_number_of_servers_says_what_would_be_right(text: str) -> None:
    with pytest.raises(ValueError, match="SERVERSxGPUS with 1 to 100000 servers of 1 to 1024 GPUs would be right"):
        uniform(text)


def test_domains_are_equal_and_in_order_and_the_last_may_be_smaller() -> None:
    racks = [server.rack for server in servers_of([8] * 7, 3)]
    assert racks == ["/d0"] * 3 + ["/d1"] * 3 + ["/d2"]


@pytest.mark.parametrize("domains", [0, 3, -1])
def test_domains_are_one_to_the_number_of_servers(domains: int) -> None:
    with pytest.raises(ValueError, match=f"domains {domains}: 1 to 2, the number of servers"):
        Scenario("2x8", domains)


@pytest.mark.parametrize("gpus", [-3, 0, 1025, 2.0, True, "8"])
def test_server_has_a_whole_number_of_gpus(gpus: object) -> None:
    with pytest.raises(ValueError, match=rf"server a: gpus {gpus!r}: a whole number from 1 to 1024 would be right"):
        ListedServer("a", gpus)  # type: ignore[arg-type] # what a caller without types may give


def test_machine_list_of_philly(tmp_path: Path) -> None:
    path = written(tmp_path, "machineId, number of GPUs, single GPU mem", "m1,8, 24GB", "m2,0, 24GB", "m3,2, 12GB")
    assert read_servers(path) == [ListedServer("m1", 8), ListedServer("m3", 2)]


@pytest.mark.parametrize(
    ("lines", "line", "right"),
    [
        (("job_id,submit", "a,0"), 1, "columns machineId and number of GPUs, or sn and gpu"),
        (("sn,gpu", "a,8", "a,8"), 3, "a name that occurs once"),
        (("sn,gpu", "a,1025"), 2, "a number from 0 to 1,024"),
        (("sn,gpu", "a,eight"), 2, "a number"),
        (("sn,gpu", "a,0"), 0, "at least one server with GPUs"),
        (("sn,gpu",), 0, "at least one server with GPUs"),
    ],
)
def test_bad_list_of_servers_is_named(tmp_path: Path, lines: tuple[str, ...], line: int, right: str) -> None:
    with pytest.raises(TraceError, match=f"{right}.* would be right|{right} would be right") as caught:
        read_servers(written(tmp_path, *lines))
    assert caught.value.line == line


def test_too_many_listed_servers_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.replay.layout.SERVERS_MAX", 2)
    with pytest.raises(TraceError, match="line 4: sn 'c': at most 2 servers would be right"):
        read_servers(written(tmp_path, "sn,gpu", "a,1", "b,1", "c,1"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"relax_after_s": -1.0},
        {"relax_after_s": float("nan")},
        {"restart_cost_s": -1.0},
        {"restart_cost_s": float("inf")},
        {"checkpoint_every_s": float("nan")},
        {"checkpoint_every_s": 10_000_001.0},
    ],
)
def test_scenario_refuses_what_is_out_of_range(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        msgspec.structs.replace(Scenario("2x8"), **wrong)
