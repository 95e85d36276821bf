"""Package, shim and its pom are of one version: `ygs doctor` compares what runs."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

from yarn_gpu_sched import __version__

ROOT = Path(__file__).resolve().parents[2]
VIEW = "org/apache/hadoop/yarn/server/resourcemanager/scheduler/capacity/ResourceManagerView.java"


def test_all_parts_are_of_one_version() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    pom = re.search(r"<artifactId>ygs-rm-shim</artifactId>\s*<version>([^<]+)<", (ROOT / "rm-shim/pom.xml").read_text())
    shim = re.search(r'VERSION = "([^"]+)"', (ROOT / "rm-shim/src/main/java" / VIEW).read_text())
    assert pom is not None
    assert shim is not None
    assert {setup["metadata"]["version"], pom[1], shim[1]} == {__version__}
