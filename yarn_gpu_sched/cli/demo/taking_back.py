"""The last act: what one virtual cluster lent comes back, and who was stopped for it returns by itself.

`vision` uses 13 of the 16 GPUs, 6 of them borrowed; `speech` uses 2, and a gang of it asks for 6 more of its quota of 8. So one of
the two gangs of 6 goes, whole: whichever started later.
"""

from __future__ import annotations

import time

from yarn_gpu_sched.cli.demo.acting import Acting
from yarn_gpu_sched.cli.demo.story import ALONG, LOOSER, ONE_MORE, OWED, WIDE
from yarn_gpu_sched.client import ServiceError


def show_taking_back(acting: Acting) -> None:
    """Look whom a gang would have stopped, arm it, and follow the one who goes until it is back."""
    owed = acting.submissions[OWED.key]
    acting.wait("a gang of `speech` to wait for what its queue lent", lambda: _would_stop(acting))
    acting.command("preempt", "--dry-run", owed.app_id)
    acting.evidence.armed_s = time.time()
    acting.command("preemption", "on", "--reason", "shown in the demo")
    acting.wait("a borrower to be warned", lambda: bool(_warned(acting)))
    victim = _warned(acting)
    acting.command("why", owed.app_id)
    acting.wait(f"`{victim}` to be stopped, and the gang to run", lambda: acting.running(OWED.key))
    acting.command("job", "show", acting.submissions[victim].app_id)
    acting.narrator.say(f"letting the gang go, so that `{victim}` has room again")
    acting.let_go(OWED)
    acting.wait("it to be back in its next attempt", lambda: acting.running(victim, attempt=2))
    acting.let_go(WIDE, ALONG, LOOSER, ONE_MORE)


def _would_stop(acting: Acting) -> bool:
    app_id = acting.submissions[OWED.key].app_id
    try:
        return bool(app_id) and acting.stage.client.preview_preemption(app_id).HasField("plan")
    except ServiceError:  # the service does not know it yet
        return False


def _warned(acting: Acting) -> str:
    """Name the story that is warned, or was stopped already."""
    warned = {one.job_id for plan in acting.stage.client.preemption().plans for one in plan.victims}
    named = [key for key, submission in acting.submissions.items() if submission.app_id in warned]
    return next(iter([*named, *acting.evidence.stopped_for]), "")
