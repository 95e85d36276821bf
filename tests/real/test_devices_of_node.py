"""What the NodeManager's REST says of GPUs, written by the classes of either line of Hadoop."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from yarn_gpu_sched.embedded import fetch_jars, java
from yarn_gpu_sched.monitor.node_manager import Device, NodeDevices, parse

CONTAINER = "container_e01_1700000000000_0001_01_000002"
WRITERS = {
    "3.4": "org.apache.hadoop.yarn.webapp.YarnJacksonJaxbJsonProvider",
    "3.5": "org.apache.hadoop.yarn.server.nodemanager.webapp.jsonprovider.NMJsonProvider",
}


@pytest.mark.real
@pytest.mark.both
def test_devices_are_read_as_either_line_writes_them(hadoop: str, classes: Path) -> None:
    line = hadoop[:3]
    path = java.class_path(classes, fetch_jars(hadoop).lib)
    command = [java.java_command(), "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", path]
    command += ["io.github.yarn_gpu_sched.tests.DevicesOfNode", WRITERS[line], CONTAINER]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    none, one, two = [parse(answer.encode()) for answer in done.stdout.splitlines()]
    assert none is None
    # Hadoop 3.5 tells how many devices there are and whose they are, and not which.
    devices = (Device(0, 3), Device(1, 4)) if line == "3.4" else (Device(), Device())
    assert one == NodeDevices(devices[:1], {CONTAINER: devices[:1]})
    assert two == NodeDevices(devices, {CONTAINER: devices})
