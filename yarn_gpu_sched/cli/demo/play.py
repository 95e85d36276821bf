"""The play: gangs in three acts, and two virtual clusters in two more; shows what the command line says meanwhile."""

from __future__ import annotations

from pathlib import Path

from yarn_gpu_sched.cli.demo.acting import Acting
from yarn_gpu_sched.cli.demo.evidence import Evidence, read_runs
from yarn_gpu_sched.cli.demo.narrator import Narrator
from yarn_gpu_sched.cli.demo.observer import Observer
from yarn_gpu_sched.cli.demo.stage import Stage
from yarn_gpu_sched.cli.demo.story import FITS, GANGS, REFUSED, STORIES, TWINS, WAVES
from yarn_gpu_sched.cli.demo.submission import Submission
from yarn_gpu_sched.cli.demo.taking_back import show_taking_back
from yarn_gpu_sched.cli.demo.tenants import begin_tenancy, show_tenants


class Play:
    """One showing on a stage that is up."""

    def __init__(self, stage: Stage, narrator: Narrator) -> None:
        self._acting = Acting(stage, narrator)
        self.first = self.second = ""

    @property
    def evidence(self) -> Evidence:
        """What was seen."""
        return self._acting.evidence

    @property
    def submissions(self) -> dict[str, Submission]:
        """What was submitted, by story."""
        return self._acting.submissions

    def perform(self) -> None:
        """Show everything; raises DemoError if something awaited does not come."""
        acting = self._acting
        acting.wait("the service to know all servers", acting.stage.connected)
        acting.narrator.say(f"submitting {len(GANGS)} applications with the stock `yarn jar` at once")
        acting.submit(GANGS)
        try:
            with Observer(acting.stage, acting.submissions, acting.evidence):
                self._first_act()
                self._second_act()
                show_tenants(acting)
                show_taking_back(acting)
                acting.wait("the last applications to end", acting.all_ended)
        finally:
            self._collect(acting.stage.workers)

    def _first_act(self) -> None:
        acting = self._acting
        acting.wait("one of the twins to run beside the gang that fits", self._one_twin_runs)
        acting.wait("the other twin to wait whole", self._other_waits)
        acting.command("jobs")
        acting.command("why", self.submissions[self.second].app_id)
        acting.command("servers")
        acting.wait("the two impossible ones to be refused", self._all_refused)
        acting.wait("the 20 containers without GPUs to finish meanwhile", lambda: self.submissions[WAVES.key].ended)
        acting.command("jobs", "--state", "any")

    def _second_act(self) -> None:
        acting = self._acting
        acting.narrator.say("letting the gang that fits and the first twin go")
        self.submissions[FITS.key].let_go()
        self.submissions[self.first].let_go()
        begin_tenancy(acting)
        acting.wait("the second twin to run", lambda: acting.running(self.second))
        acting.command("job", "show", self.submissions[self.second].app_id)
        self.submissions[self.second].let_go()

    def _one_twin_runs(self) -> bool:
        running = [twin.key for twin in TWINS if self._acting.running(twin.key)]
        if not running or not self._acting.running(FITS.key):
            return False
        self.first = running[0]
        self.second = next(twin.key for twin in TWINS if twin.key != self.first)
        return True

    def _other_waits(self) -> bool:
        answer = self._acting.why(self.second)
        return answer is not None and answer.waiting.gpus_asked == self.submissions[self.second].story.gpus_asked

    def _all_refused(self) -> bool:
        return all(self.submissions[story.key].ended for story in REFUSED)

    def _collect(self, folder: Path) -> None:
        self.evidence.runs = {story.key: read_runs(folder / story.key) for story in STORIES}
