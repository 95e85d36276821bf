"""The ports below /sys/class/infiniband: a made-up tree, since no machine has all that others met."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from yarn_gpu_sched.monitor.host import HostSource
from yarn_gpu_sched.monitor.infiniband import COUNTERS_MAX, DEVICES_MAX, PORTS_MAX, read_ports
from yarn_gpu_sched.monitor.reading import Port

FAILS_WITH_EINVAL = Path("/sys/class/net/lo/speed")
PLAIN = {
    "state": "4: ACTIVE\n",
    "phys_state": "5: LinkUp\n",
    "rate": "100 Gb/sec (4X EDR)\n",
    "link_layer": "InfiniBand\n",
}


def port(root: Path, device: str, number: int = 1, counters: dict[str, str] | None = None, **files: str) -> Path:
    folder = root / device / "ports" / str(number)
    folder.mkdir(parents=True)
    for name, content in (PLAIN | files).items():
        (folder / name).write_text(content)
    if counters is not None:
        (folder / "counters").mkdir()
        for name, content in counters.items():
            (folder / "counters" / name).write_text(content)
    return folder


def test_port_is_read_with_both_kinds_of_counters(tmp_path: Path) -> None:
    folder = port(tmp_path, "mlx5_0", counters={"port_xmit_data": "123\n", "link_downed": "0\n"})
    (folder / "hw_counters").mkdir()
    for name, content in {"out_of_sequence": "7\n", "link_downed": "9\n", "lifespan": "10\n"}.items():
        (folder / "hw_counters" / name).write_text(content)
    assert read_ports(tmp_path) == (
        Port(
            device="mlx5_0",
            port=1,
            infiniband=True,
            state="ACTIVE",
            physical_state="LinkUp",
            rate_gbps=100.0,
            counters={"link_downed": 0, "out_of_sequence": 7, "port_xmit_data": 123},
        ),
    )


def test_c24_device_without_counters_costs_the_counters_only(tmp_path: Path) -> None:
    port(tmp_path, "mlx4_0")
    port(tmp_path, "mlx5_0", counters={"port_rcv_data": "5\n"})
    bare, plain = read_ports(tmp_path)
    assert (bare.device, bare.state, bare.infiniband, bare.counters) == ("mlx4_0", "ACTIVE", True, {})
    assert plain.counters == {"port_rcv_data": 5}


def test_c24_counter_that_is_not_available_is_absent_never_zero(tmp_path: Path) -> None:
    port(tmp_path, "mthca0", counters={"symbol_error": "N/A (no PMA)\n", "link_downed": "3\n"})
    assert read_ports(tmp_path)[0].counters == {"link_downed": 3}


def test_c24_port_that_is_down_and_polling_is_told_as_such(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0", 1, state="1: DOWN\n", phys_state="2: Polling\n", rate="10 Gb/sec (4X)\n")
    port(tmp_path, "mlx5_0", 2)
    down, up = read_ports(tmp_path)
    assert (down.port, down.state, down.physical_state, down.rate_gbps) == (1, "DOWN", "Polling", 10.0)
    assert (up.port, up.state) == (2, "ACTIVE")


@pytest.mark.skipif(not FAILS_WITH_EINVAL.exists(), reason="no loopback device whose speed cannot be read")
@pytest.mark.parametrize("name", ["state", "phys_state", "rate", "link_layer", "counters/link_downed"])
def test_c24_file_that_fails_with_einval_costs_its_field_only(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        FAILS_WITH_EINVAL.read_bytes()
    folder = port(tmp_path, "i40iw0", counters={"link_downed": "3\n", "port_rcv_data": "1\n"})
    whole = read_ports(tmp_path)[0]
    (folder / name).unlink()
    (folder / name).symlink_to(FAILS_WITH_EINVAL)
    broken = read_ports(tmp_path)[0]
    differing = {field for field in Port.__struct_fields__ if getattr(whole, field) != getattr(broken, field)}
    lost = {"state": "state", "phys_state": "physical_state", "rate": "rate_gbps", "link_layer": "infiniband"}
    assert differing == {lost.get(name, "counters")}
    assert broken.counters.get("port_rcv_data") == 1
    assert getattr(broken, lost.get(name, "counters")) in (None, {"port_rcv_data": 1})


@pytest.mark.parametrize(
    ("layer", "infiniband"), [("Ethernet\n", False), ("Unknown\n", None), ("", None), ("InfiniBand", True)]
)
def test_c24_iwarp_or_roce_port_is_no_evidence_of_rdma(tmp_path: Path, layer: str, infiniband: bool | None) -> None:  # noqa: FBT001 - an expected value
    port(tmp_path, "i40iw0", link_layer=layer)
    assert read_ports(tmp_path)[0].infiniband is infiniband


def test_c24_no_directory_at_all_is_no_ports(tmp_path: Path) -> None:
    assert read_ports(tmp_path / "infiniband") == ()
    assert HostSource(infiniband_root=tmp_path / "infiniband").read().ports == ()
    (tmp_path / "file").touch()
    assert read_ports(tmp_path / "file") == ()
    (tmp_path / "mlx5_0").mkdir()
    assert read_ports(tmp_path) == ()


def test_host_tells_the_ports(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0")
    assert [each.device for each in HostSource(infiniband_root=tmp_path).read().ports] == ["mlx5_0"]


@pytest.mark.parametrize(
    ("name", "content", "field"),
    [
        ("rate", "-1 Gb/sec\n", "rate_gbps"),
        ("rate", "1e9 Gb/sec\n", "rate_gbps"),
        ("rate", "N/A\n", "rate_gbps"),
        ("state", "ACTIVE\n", "state"),
        ("state", "4: \x1b[2J\n", "state"),
        ("state", "4: " + "A" * 5000, "state"),
        ("phys_state", "\xff", "physical_state"),
    ],
)
def test_text_that_says_nothing_sensible_is_absent(tmp_path: Path, name: str, content: str, field: str) -> None:
    (port(tmp_path, "mlx5_0") / name).write_text(content)
    assert getattr(read_ports(tmp_path)[0], field) is None


@pytest.mark.parametrize("content", ["-1", "1.5", "18446744073709551616", "9" * 4000, "", "0x10", "1 2", "٣"])
def test_counter_that_is_no_count_is_absent(tmp_path: Path, content: str) -> None:
    port(tmp_path, "mlx5_0", counters={"bad": content, "good": "18446744073709551615"})
    assert read_ports(tmp_path)[0].counters == {"good": 2**64 - 1}


def test_devices_ports_and_counters_are_bounded(tmp_path: Path) -> None:
    for number in range(DEVICES_MAX + 3):
        port(tmp_path, f"mlx5_{number:03}")
    for number in range(2, PORTS_MAX + 4):
        port(tmp_path, "mlx5_000", number)
    many = tmp_path / "mlx5_000" / "ports" / "1" / "counters"
    many.mkdir()
    for number in range(COUNTERS_MAX + 5):
        (many / f"c{number:04}").write_text("1")
    (many / "c0000").unlink()
    (many / "c0000").symlink_to("/dev/zero")
    ports = read_ports(tmp_path)
    assert len({each.device for each in ports}) == DEVICES_MAX
    assert [each.port for each in ports if each.device == "mlx5_000"] == list(range(1, PORTS_MAX + 1))
    assert len(ports[0].counters) == COUNTERS_MAX
    assert "c0000" not in ports[0].counters


def test_pipe_in_the_place_of_a_file_does_not_hold_the_reader(tmp_path: Path) -> None:
    folder = port(tmp_path, "mlx5_0")
    (folder / "state").unlink()
    os.mkfifo(folder / "state")
    assert read_ports(tmp_path)[0].state is None


@pytest.mark.parametrize("name", ["\x1b[2J", "mlx 5", "a" * 65, "-x", "ä"])
def test_names_that_are_none_are_passed_over(tmp_path: Path, name: str) -> None:
    port(tmp_path, name)
    folder = port(tmp_path, "mlx5_0", counters={name + ".": "1"})
    for other in ("0", "1x", "1000", "01"):
        (folder.parent / other).mkdir()
    (only,) = read_ports(tmp_path)
    assert (only.device, only.port, only.counters) == ("mlx5_0", 1, {})


WORDS = st.sampled_from(
    [
        "4: ACTIVE",
        "1: DOWN",
        "InfiniBand",
        "Ethernet",
        "100 Gb/sec (4X EDR)",
        "N/A (no PMA)",
        "12",
        "-1",
        "\n",
        " ",
        "9" * 25,
    ]
)
CONTENT = st.lists(WORDS | st.binary(max_size=4).map(lambda raw: raw.decode("latin-1")), max_size=4).map("".join)


@fuzzed(150, 5_000)
@given(contents=st.lists(CONTENT, min_size=6, max_size=6))
def test_whatever_the_files_hold_nothing_is_raised_and_nothing_invented(tmp_path: Path, contents: list[str]) -> None:
    folder = tmp_path / "mlx5_0" / "ports" / "1"
    (folder / "counters").mkdir(parents=True, exist_ok=True)
    names = ("state", "phys_state", "rate", "link_layer", "counters/a", "counters/b")
    for name, content in zip(names, contents, strict=True):
        (folder / name).write_text(content, encoding="utf-8")
    (only,) = read_ports(tmp_path)
    state, physical, rate, layer, *_ = contents
    assert only.state is None or only.state in state
    assert only.physical_state is None or only.physical_state in physical
    assert only.rate_gbps is None or str(only.rate_gbps).removesuffix(".0") in rate
    assert only.infiniband is None or layer.strip() in ("InfiniBand", "Ethernet")
    assert all(str(value) in contents[4 if name == "a" else 5] for name, value in only.counters.items())
