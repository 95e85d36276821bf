"""The commands of docs/start.md, run as they are written, in one shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.waiting import wait_until
from yarn_gpu_sched.embedded import free_port

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
BLOCKS = dict(re.findall(r"```sh (\w+)\n(.*?)```", (ROOT / "docs" / "start.md").read_text(encoding="utf-8"), re.DOTALL))
DONE = "block done with"
BLOCK_S_MAX = 240


class Shell:
    """One bash into which blocks are typed, one after the other."""

    def __init__(self, log: Path) -> None:
        self._log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                ["/bin/bash", "--norc"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            )
        self._typed = 0

    def run(self, block: str) -> str:
        """Type a block with `set -e`'s strictness for each line; return what it printed."""
        self._typed += 1
        begin = self._log.stat().st_size
        mark = f"{DONE} {self._typed}."
        assert self._process.stdin is not None
        self._process.stdin.write(f"trap 'echo failed: $BASH_COMMAND' ERR\n{block}\necho {mark}\n")
        self._process.stdin.flush()
        printed = lambda: self._log.read_bytes()[begin:].decode(errors="replace")  # noqa: E731 - one line, used once
        text = wait_until(printed, lambda text: mark in text, f"the block is done:\n{block}", wait_s=BLOCK_S_MAX)
        assert "failed: " not in text, text
        return text

    def close(self) -> None:
        """End the shell."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    one = Shell(tmp_path / "shell.log")
    yield one
    # Whatever stopped a test in between: nothing of it may go on.
    one.run("[ -z $TRIAL ] || ygs cluster down --folder $TRIAL/cluster || true; kill $(jobs -p) 2> /dev/null || true")
    one.close()


def again(shell: Shell, block: str, holds: Callable[[str], bool], what: str) -> str:
    """Run a block until what it prints is as the page says: its reader would look again, too."""

    def look() -> str:
        time.sleep(0.5)
        return shell.run(f"{block.rstrip()} || true")

    return wait_until(look, holds, what, wait_s=120)


def test_the_page_is_true(shell: Shell) -> None:
    assert BLOCKS["setup"].strip() == "make setup"
    shell.run(BLOCKS["start"].replace("7433", str(free_port())))
    assert shell.run(BLOCKS["cluster"]).count("gpu-") >= 4
    shell.run(BLOCKS["gang"])
    again(shell, "ygs jobs", lambda text: "running" in text and "8" in text, "the gang runs")
    shown = shell.run(BLOCKS["running"])
    assert len(set(re.findall(r"gpu-([ab])\d", shown))) == 1, f"one rack: {shown}"
    shell.run(BLOCKS["waiting"])
    again(shell, "ygs jobs --state pending", lambda text: "application_" in text, "the second one waits")
    asks = again(shell, BLOCKS["why"], lambda text: "asks 12 GPUs" in text, "it says why")
    assert "root.default" in asks
    shell.run(BLOCKS["kill"])
    again(shell, "ygs jobs --state running", lambda text: "12" in text, "the second one runs")
    trial = Path(re.findall(r"^at (\S+)$", shell.run("echo at $TRIAL"), re.MULTILINE)[0])
    shell.run(BLOCKS["down"])
    assert not trial.exists()
    assert set(BLOCKS) == {"setup", "start", "cluster", "gang", "running", "waiting", "why", "kill", "down"}
