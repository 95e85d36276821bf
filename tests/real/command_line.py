"""The service's own command line, beside a real cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.real.joint import ServedJoint


def ygs(joint: ServedJoint, *arguments: str) -> dict[str, Any]:
    """Return what a command of ygs prints as JSON."""
    program = [str(Path(sys.executable).parent / "ygs"), *arguments, "--json", "--service", joint.address]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(program, check=True, capture_output=True, text=True, timeout=60, env=environment)
    return dict(json.loads(done.stdout))
