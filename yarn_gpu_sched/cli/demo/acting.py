"""What every act does: submit stories, wait for what must come, and show what the command line says meanwhile."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from yarn_gpu_sched.cli.demo.evidence import Evidence, attempt_of
from yarn_gpu_sched.cli.demo.narrator import Narrator
from yarn_gpu_sched.cli.demo.stage import Stage
from yarn_gpu_sched.cli.demo.story import Story
from yarn_gpu_sched.cli.demo.submission import Submission
from yarn_gpu_sched.client import ServiceError
from yarn_gpu_sched.protocol.v1 import jobs_pb2

WAIT_S_MAX = 240.0
_POLL_S = 0.1


class DemoError(RuntimeError):
    """The demo cannot go on: what was awaited did not come."""


class Acting:
    """A stage that is up, with everything that was submitted there so far."""

    def __init__(self, stage: Stage, narrator: Narrator) -> None:
        self.stage, self.narrator = stage, narrator
        self.evidence = Evidence()
        self.submissions: dict[str, Submission] = {}

    def submit(self, stories: Iterable[Story]) -> None:
        """Submit applications with the stock `yarn jar`, all at once."""
        folder = self.stage.workers
        self.submissions |= {story.key: Submission(story, self.stage.cluster.folder, folder) for story in stories}

    def let_go(self, *stories: Story) -> None:
        """Let the workers of held stories end."""
        for story in stories:
            self.submissions[story.key].let_go()

    def command(self, *arguments: str) -> None:
        """Show a `ygs` command and what it prints."""
        self.narrator.command("--service", self.stage.address, *arguments)

    def wait(self, what: str, holds: Callable[[], bool], wait_s: float = WAIT_S_MAX) -> None:
        """Wait for something; raises DemoError if it does not come."""
        deadline_s = time.monotonic() + wait_s
        with self.narrator.step(f"waiting for {what}"):
            while not holds():
                if time.monotonic() > deadline_s:
                    raise DemoError(f"waited {wait_s:.0f} s in vain for {what}")
                self._check_alive()
                self.narrator.detail(self._counts())
                time.sleep(_POLL_S)

    def running(self, key: str, attempt: int = 1) -> bool:
        """Tell whether all workers of a story's attempt run, and the evidence has them."""
        submission = self.submissions[key]
        logs = [log for log in submission.started if attempt_of(log.stem) == attempt]
        return len(logs) == submission.story.containers and self._is_noted(submission, logs)

    def why(self, key: str) -> jobs_pb2.GetWaitingReasonResponse | None:
        """Ask the service why a story waits; None while nobody knows it."""
        app_id = self.submissions[key].app_id
        try:
            return self.stage.client.why(app_id) if app_id else None
        except ServiceError:
            return None

    def all_ended(self) -> bool:
        """Tell whether every application and every `yarn` command has ended."""
        ended = all(submission.ended for submission in self.submissions.values())
        return ended and all(submission.join(0) for submission in self.submissions.values())

    def _is_noted(self, submission: Submission, logs: list[Path]) -> bool:
        # The service's word and a look at the tags are taken while the workers still run.
        noted = self.evidence.given.get(submission.story.key, {})
        newest_s = max((log.stat().st_mtime for log in logs), default=0.0)
        looked_s = self.evidence.samples[-1].at_s if self.evidence.samples else 0.0
        return all(log.stem in noted for log in logs) and looked_s > newest_s

    def _counts(self) -> str:
        states = Counter(str(s.app.get("state", "submitting")).lower() for s in self.submissions.values())
        workers = sum(len(submission.started) for submission in self.submissions.values())
        return ", ".join([*(f"{count} {state}" for state, count in states.items()), f"{workers} containers started"])

    def _check_alive(self) -> None:
        for submission in self.submissions.values():
            ended_early = submission.ended and not submission.story.refused_for and submission.story.held
            if ended_early and not submission.story.go_file(submission.workers).exists():
                said = submission.diagnostics or submission.output[-500:]
                raise DemoError(f"{submission.story.app_name} ended before it was let go: {said}")
            if submission.failed_to_submit:
                raise DemoError(f"yarn could not submit {submission.story.app_name}: {submission.output[-500:]}")
