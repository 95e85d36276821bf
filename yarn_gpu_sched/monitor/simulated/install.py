"""Writes a program named `nvidia-smi` that answers for simulated cards, for whoever runs one: a NodeManager's GPU plugin does."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import yarn_gpu_sched
from yarn_gpu_sched.monitor.simulated.opening import open_server


def install(folder: Path, spec: str, scenario: Path | None, state_dir: Path | None, host: str) -> Path:
    """Write it into a folder and return where it is; `BadSpec` or `BadScenario` where it could not answer.

    With a scenario it should have a ``state_dir``, the same as the monitor's: they agree by it when the scenario began.
    """
    open_server(spec, scenario, state_dir, host)
    words = [spec, *(str(path.absolute()) if path is not None else "" for path in (scenario, state_dir)), host]
    root = Path(yarn_gpu_sched.__file__).resolve().parent.parent
    command = shlex.join([sys.executable, "-P", "-m", "yarn_gpu_sched.monitor.simulated.smi", *words])
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "nvidia-smi"
    draft = folder / f".nvidia-smi.{os.getpid()}"
    draft.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(root))} exec {command} "$@"\n')
    draft.chmod(0o755)
    draft.replace(program)
    return program
