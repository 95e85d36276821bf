"""Servers with simulated GPUs: what their NodeManagers and monitors are told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.embedded.test_configuration import PORTS, values, written
from yarn_gpu_sched.cli.monitor import monitor as monitor_command
from yarn_gpu_sched.embedded import ClusterError, ClusterSpec, HadoopJars
from yarn_gpu_sched.embedded.cluster import daemon_names
from yarn_gpu_sched.embedded.configuration import Configuration
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.monitored import MonitoredServer

SPEC = ClusterSpec(
    servers=((1, 4),),
    racks=1,
    cpu_servers=1,
    gpu_model="V100",
    service_address="127.0.0.1:7",
    monitor_settings={"read_every_s": "0.5"},
)


def test_a_node_manager_discovers_its_gpus_and_takes_bindings_from_its_monitor(tmp_path: Path) -> None:
    layout = written(tmp_path, SPEC)
    conf = layout.server("gpu-a1") / "conf"
    assert not (conf / "node-resources.xml").exists(), "YARN is told by the plugin alone"
    said = values(conf / "yarn-site.xml")
    assert said["yarn.nodemanager.resource-plugins"] == "yarn.io/gpu"
    program = said["yarn.nodemanager.resource-plugins.gpu.path-to-discovery-executables"]
    listed = subprocess.run([program, "-L"], check=True, capture_output=True, text=True, timeout=60).stdout
    assert listed.count("Tesla V100") == 4
    server = MonitoredServer(SPEC, layout, SPEC.server_list()[0])
    assert f"YGS_BINDING_DIR={server.bindings}" in said["yarn.nodemanager.admin-env"].split(",")
    without = values(layout.server("cpu-1") / "conf" / "yarn-site.xml")
    assert "yarn.nodemanager.resource-plugins" not in without


def test_a_scenario_stays_when_settings_of_the_cluster_change(tmp_path: Path) -> None:
    layout = written(tmp_path, SPEC)
    scenario = MonitoredServer(SPEC, layout, SPEC.server_list()[0]).scenario
    scenario.write_text('[[events]]\nat_s = 0\nwhat = "vanish"\ngpu = 1\n')
    Configuration(SPEC, layout, HadoopJars("3.4.2", tmp_path), PORTS, "embedded-1", "mark").write()
    assert "vanish" in scenario.read_text()


def test_a_monitor_is_told_where_all_is_and_what_is_set_for_it() -> None:
    server = MonitoredServer(SPEC, Layout(Path("/c")), SPEC.server_list()[0])
    words = server.monitor(9)
    told = words[words.index("monitor") + 1 :]
    flags = dict(zip(told[::2], told[1::2], strict=True))
    assert flags["--service"] == "127.0.0.1:7"
    assert flags["--simulate"] == "4xV100"
    assert flags["--node-manager"] == "http://127.0.1.1:9"
    assert flags["--read-every-s"] == "0.5"
    known = {option for parameter in monitor_command.params for option in parameter.opts}
    assert flags.keys() <= known


def test_each_server_with_gpus_has_a_monitor() -> None:
    assert daemon_names(SPEC)[-1:] == ("gpu-a1-monitor",)
    assert not [name for name in daemon_names(ClusterSpec()) if name.endswith("-monitor")]


@pytest.mark.parametrize("model", ["V101", "4xV100"])
def test_cards_that_nobody_knows_are_refused(model: str) -> None:
    with pytest.raises(ClusterError, match=f"gpu_model '{model}': .*models: "):
        ClusterSpec(servers=((1, 4),), racks=1, gpu_model=model)


def test_bindings_come_from_one_place() -> None:
    with pytest.raises(ClusterError, match="left out with gpu_model"):
        ClusterSpec(gpu_model="V100", binding_dir=Path("/b"))
