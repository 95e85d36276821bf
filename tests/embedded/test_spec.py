from __future__ import annotations

from typing import Any

import pytest

from yarn_gpu_sched.embedded import ClusterError, ClusterSpec, Server, parse_servers


def test_servers_are_dealt_to_racks_in_runs() -> None:
    spec = ClusterSpec(servers=((4, 4),), racks=2, cpu_servers=1)
    assert spec.server_list() == (
        Server("gpu-a1", "127.0.1.1", "/rack-a", 4),
        Server("gpu-a2", "127.0.1.2", "/rack-a", 4),
        Server("gpu-b1", "127.0.1.3", "/rack-b", 4),
        Server("gpu-b2", "127.0.1.4", "/rack-b", 4),
        Server("cpu-1", "127.0.1.5", "/rack-a", 0),
    )


@pytest.mark.parametrize(
    ("servers", "racks", "per_rack"),
    [(5, 2, [3, 2]), (2, 3, [1, 1]), (7, 3, [3, 3, 1]), (1, 1, [1]), (6, 4, [2, 2, 2])],
)
def test_uneven_numbers_leave_the_last_rack_short(servers: int, racks: int, per_rack: list[int]) -> None:
    names = [server.rack for server in ClusterSpec(servers=((servers, 1),), racks=racks).server_list()]
    assert [names.count(rack) for rack in sorted(set(names))] == per_rack


def test_names_and_addresses_are_unique_in_the_largest_cluster() -> None:
    servers = ClusterSpec(servers=((40, 8),), racks=26, cpu_servers=24).server_list()
    assert len({server.name for server in servers}) == len({server.address for server in servers}) == 64


def test_a_changed_server_keeps_its_name_and_address() -> None:
    spec = ClusterSpec(servers=((2, 4),), racks=2, changed={"gpu-b1": (2, "/rack-c")})
    assert spec.server_list() == (
        Server("gpu-a1", "127.0.1.1", "/rack-a", 4),
        Server("gpu-b1", "127.0.1.2", "/rack-c", 2),
    )


def test_no_servers_at_all_is_a_resource_manager_alone() -> None:
    assert ClusterSpec(servers=()).server_list() == ()


@pytest.mark.parametrize(
    ("text", "servers"),
    [("4x4", ((4, 4),)), ("2x8, 3X4", ((2, 8), (3, 4))), ("1x0", ((1, 0),))],
)
def test_servers_are_read_from_text(text: str, servers: tuple[tuple[int, int], ...]) -> None:
    assert parse_servers(text) == servers


@pytest.mark.parametrize("text", ["", "4", "4x", "x4", "4x4,", "4 x 4", "-1x4", "4x4x4", "four"])
def test_other_text_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(ClusterError, match="should be COUNTxGPUS, such as 4x4"):
        parse_servers(text)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"servers": ((65, 4),)}, "servers 65 should be 0 to 64 in all"),
        ({"servers": ((0, 4),)}, "servers 0 should be at least 1 of each kind"),
        ({"servers": ((1, 65),)}, "GPUs of a server 65 should be 0 to 64"),
        ({"cpu_servers": -1}, "cpu_servers -1 should be 0 or more"),
        ({"racks": 0}, "racks 0 should be 1 to 26"),
        ({"racks": 27}, "racks 27 should be 1 to 26"),
        ({"memory_mb": 63}, "memory_mb 63 should be 64 or more, in MiB"),
        ({"vcores": 0}, "vcores 0 should be 1 or more"),
        (
            {"changed": {"gpu-z9": (4, "/rack-a")}},
            "changed server gpu-z9 should be one of gpu-a1, gpu-a2, gpu-b1, gpu-b2",
        ),
        ({"changed": {"gpu-a1": (65, "/rack-a")}}, "GPUs of gpu-a1 65 should be 0 to 64"),
        ({"changed": {"gpu-a1": (4, "rack-a")}}, "rack of gpu-a1 rack-a should be a path such as /rack-a"),
        ({"jvm_flags": {"datanode": ("-Xmx1g",)}}, "jvm_flags datanode should be keys out of rm, nm, nn, dn, client"),
    ],
)
def test_wrong_values_name_field_value_and_what_would_be_right(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ClusterError) as refused:
        ClusterSpec(**wrong)
    assert str(refused.value) == says


@pytest.mark.parametrize(
    "right",
    [
        {"servers": ((64, 64),)},
        {"servers": ((1, 0),), "cpu_servers": 63},
        {"racks": 1},
        {"racks": 26},
        {"memory_mb": 64},
        {"memory_mb": 2**31 - 1},
        {"vcores": 1},
        {"vcores": 2**31 - 1},
        {"jvm_flags": dict.fromkeys(("rm", "nm", "nn", "dn", "client"), ())},
    ],
)
def test_what_is_at_the_edge_is_taken(right: dict[str, Any]) -> None:
    assert ClusterSpec(**right).server_list() is not None


@pytest.mark.parametrize("wrong", [{"memory_mb": 2**31}, {"vcores": 2**31}, {"servers": ((64, 1),), "cpu_servers": 1}])
def test_what_is_beyond_the_edge_is_not(wrong: dict[str, Any]) -> None:
    with pytest.raises(ClusterError, match="should be"):
        ClusterSpec(**wrong)
