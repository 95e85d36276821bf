"""The play: submits the stories, shows what the command line says meanwhile, and lets the held ones go in turn."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from yarn_gpu_sched.cli.demo.evidence import Evidence, read_runs
from yarn_gpu_sched.cli.demo.narrator import Narrator
from yarn_gpu_sched.cli.demo.observer import Observer
from yarn_gpu_sched.cli.demo.stage import Stage
from yarn_gpu_sched.cli.demo.story import FITS, REFUSED, STORIES, TWINS, WAVES
from yarn_gpu_sched.cli.demo.submission import Submission
from yarn_gpu_sched.client import ServiceError

WAIT_S_MAX = 240.0
_POLL_S = 0.1


class DemoError(RuntimeError):
    """The demo cannot go on: what was awaited did not come."""


class Play:
    """One showing on a stage that is up."""

    def __init__(self, stage: Stage, narrator: Narrator) -> None:
        self.evidence = Evidence()
        self.submissions: dict[str, Submission] = {}
        self.first = self.second = ""
        self.waited_for = ""
        self._stage, self._narrator = stage, narrator

    def perform(self) -> None:
        """Show everything; raises DemoError if something awaited does not come."""
        self._await("the service to know all servers", self._stage.connected)
        self._narrator.say(f"submitting {len(STORIES)} applications with the stock `yarn jar` at once")
        folder = self._stage.workers
        self.submissions = {story.key: Submission(story, self._stage.cluster.folder, folder) for story in STORIES}
        try:
            with Observer(self._stage, [*self.submissions.values()], self.evidence):
                self._first_act()
                self._second_act()
                self._await("the last applications to end", self._all_ended)
        finally:
            self._collect(folder)

    def _first_act(self) -> None:
        self._await("one of the twins to run beside the gang that fits", self._one_twin_runs)
        self._await("the other twin to wait whole", self._other_waits)
        self._command("jobs")
        self._command("why", self.submissions[self.second].app_id)
        self._command("servers")
        self._await("the two impossible ones to be refused", self._all_refused)
        self._await("the 20 containers without GPUs to finish meanwhile", lambda: self.submissions[WAVES.key].ended)
        self._command("jobs", "--state", "any")

    def _second_act(self) -> None:
        self._narrator.say("letting the gang that fits and the first twin go")
        self.submissions[FITS.key].let_go()
        self.submissions[self.first].let_go()
        self._await("the second twin to run", lambda: self._running(self.second))
        self._command("job", "show", self.submissions[self.second].app_id)
        self._command("vcs")
        self.submissions[self.second].let_go()

    def _command(self, *arguments: str) -> None:
        self._narrator.command("--service", self._stage.address, *arguments)

    def _await(self, what: str, holds: Callable[[], bool], wait_s: float = WAIT_S_MAX) -> None:
        deadline_s = time.monotonic() + wait_s
        with self._narrator.step(f"waiting for {what}"):
            while not holds():
                if time.monotonic() > deadline_s:
                    raise DemoError(f"waited {wait_s:.0f} s in vain for {what}")
                self._check_alive()
                self._narrator.detail(self._counts())
                time.sleep(_POLL_S)

    def _counts(self) -> str:
        states = Counter(str(s.app.get("state", "submitting")).lower() for s in self.submissions.values())
        workers = sum(submission.started for submission in self.submissions.values())
        return ", ".join([*(f"{count} {state}" for state, count in states.items()), f"{workers} containers started"])

    def _check_alive(self) -> None:
        for submission in self.submissions.values():
            ended_early = submission.ended and not submission.story.refused_for and submission.story.held
            if ended_early and not submission.story.go_file(submission.workers).exists():
                said = submission.diagnostics or submission.output[-500:]
                raise DemoError(f"{submission.story.app_name} ended before it was let go: {said}")
            if submission.failed_to_submit:
                raise DemoError(f"yarn could not submit {submission.story.app_name}: {submission.output[-500:]}")

    def _running(self, key: str) -> bool:
        submission = self.submissions[key]
        return submission.started == submission.story.containers and self._is_noted(submission)

    def _is_noted(self, submission: Submission) -> bool:
        # The service's word and a look at the tags are taken while the workers still run.
        noted = self.evidence.given.get(submission.story.key, {})
        newest_s = max((path.stat().st_mtime for path in submission.workers.glob("container_*.log")), default=0.0)
        looked_s = self.evidence.samples[-1].at_s if self.evidence.samples else 0.0
        return len(noted) == submission.story.containers and looked_s > newest_s

    def _one_twin_runs(self) -> bool:
        running = [twin.key for twin in TWINS if self._running(twin.key)]
        if not running or not self._running(FITS.key):
            return False
        self.first = running[0]
        self.second = next(twin.key for twin in TWINS if twin.key != self.first)
        return True

    def _other_waits(self) -> bool:
        app_id = self.submissions[self.second].app_id
        try:
            waiting = self._stage.client.why(app_id).waiting if app_id else None
        except ServiceError:
            return False
        if waiting is None or waiting.gpus_asked != self.submissions[self.second].story.containers * 4:
            return False
        self.waited_for = waiting.sentence
        return True

    def _all_refused(self) -> bool:
        return all(self.submissions[story.key].ended for story in REFUSED)

    def _all_ended(self) -> bool:
        ended = all(submission.ended for submission in self.submissions.values())
        return ended and all(submission.join(0) for submission in self.submissions.values())

    def _collect(self, folder: Path) -> None:
        self.evidence.runs = {story.key: read_runs(folder / story.key) for story in STORIES}
