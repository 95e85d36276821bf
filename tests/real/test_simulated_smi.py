"""What the simulated nvidia-smi prints, read by the parser of the NodeManager's GPU plugin."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from yarn_gpu_sched.embedded import fetch_jars, java
from yarn_gpu_sched.monitor.simulated.install import install
from yarn_gpu_sched.monitor.simulated.opening import open_server

SCENARIO = """
minors = [3, 0, 1]

[[events]]
at_s = 0
what = "use"
gpu = 1
sm_percent = 55
memory_used_mb = 1000

[[events]]
at_s = 0
what = "mig"
gpu = 2
devices = 3
"""


@pytest.mark.real
@pytest.mark.both
def test_plugin_of_the_node_reads_simulated_cards(hadoop: str, classes: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(SCENARIO)
    program = install(tmp_path / "bin", "1xP400+2xA100", scenario, tmp_path, "s1")
    printed = tmp_path / "printed.xml"
    printed.write_bytes(subprocess.run([program, "-x", "-q"], check=True, capture_output=True, timeout=60).stdout)
    path = java.class_path(classes, fetch_jars(hadoop).lib)
    command = [
        java.java_command(),
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        "-cp",
        path,
        "io.github.yarn_gpu_sched.tests.GpusOfXml",
        str(printed),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    display, busy, cut = open_server("1xP400+2xA100", scenario, tmp_path, "s1").cards
    # The plugin shows 0.0 for a utilisation that is not available: stock Hadoop knows no other way to say it.
    assert done.stdout.splitlines() == [
        f"{display.uuid}|3|Quadro P400|4|2048|0.0|34.0",
        f"{busy.uuid}|0|NVIDIA A100-SXM4-40GB|1004|40960|55.0|54.0",
        f"{cut.uuid}|1|NVIDIA A100-SXM4-40GB|4|40960|0.0|34.0",
    ]
