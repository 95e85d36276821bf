"""Submitting a story with the stock `yarn` command, which goes on until its application has ended."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from yarn_gpu_sched.cli.demo.story import Story
from yarn_gpu_sched.embedded import ClusterError, EmbeddedCluster

YARN_S_MAX = 600.0
UNKNOWN_S_MAX = 15.0
FINAL_STATES = ("FINISHED", "FAILED", "KILLED")


class Submission:
    """One story under way. ``app`` is what the ResourceManager last said of it; empty before it knows it."""

    def __init__(self, story: Story, cluster: Path, workers: Path) -> None:
        self.story = story
        self.workers = workers / story.key
        self.workers.mkdir()
        self.app: dict[str, Any] = {}
        self.exit_code: int | None = None
        self.output = ""
        self.exited_at_s: float | None = None
        self._cluster = EmbeddedCluster(cluster)
        self._thread = threading.Thread(target=self._run, name=f"yarn-{story.key}", daemon=True)
        self._thread.start()

    @property
    def app_id(self) -> str:
        """The application's id, empty before the ResourceManager knows it."""
        return str(self.app.get("id", ""))

    @property
    def ended(self) -> bool:
        """Whether the application has ended."""
        return self.app.get("state") in FINAL_STATES

    @property
    def diagnostics(self) -> str:
        """What the ResourceManager says about the application."""
        return str(self.app.get("diagnostics", ""))

    @property
    def failed_to_submit(self) -> bool:
        """Whether `yarn` has ended for a while and the ResourceManager knows no such application."""
        ended_at_s = self.exited_at_s
        return not self.app and ended_at_s is not None and time.monotonic() - ended_at_s > UNKNOWN_S_MAX

    @property
    def started(self) -> list[Path]:
        """The logs of the workers that have written their first line."""
        return list(self.workers.glob("container_*.log"))

    def let_go(self) -> None:
        """Let the story's workers end."""
        self.story.go_file(self.workers).touch()

    def join(self, timeout_s: float) -> bool:
        """Wait for the `yarn` command to end; False if it has not."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        jar = self._cluster.distributed_shell_jar
        try:
            done = self._cluster.yarn(*self.story.yarn_arguments(jar, self.workers), timeout_s=YARN_S_MAX)
        except ClusterError as error:
            self.output = str(error)
        else:
            self.output, self.exit_code = f"{done.stdout}\n{done.stderr}", done.returncode
        self.exited_at_s = time.monotonic()
