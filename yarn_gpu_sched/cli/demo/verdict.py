"""The verdict: every claim of the demo, with what speaks against it, and the table at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from yarn_gpu_sched.cli.demo import claims
from yarn_gpu_sched.cli.demo.play import Play
from yarn_gpu_sched.cli.demo.story import (
    ALONG,
    FITS,
    LOOSER,
    ONE_MORE,
    OWED,
    PREEMPT_GRACE_S,
    REFUSED,
    RELAX_AFTER_S,
    STORIES,
    TENANTS,
    TWINS,
    WAVES,
    WIDE,
    Story,
)
from yarn_gpu_sched.cli.demo.submission import Submission
from yarn_gpu_sched.cli.output import table, text

PROBLEMS_SHOWN = 3


@dataclass(frozen=True)
class Claim:
    """One claim: it held if nothing speaks against it."""

    what: str
    against: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.against


def judge(play: Play) -> list[Claim]:
    """Return every claim about a play that came to its end."""
    return [*_about_stories(play), *_about_tenants(play), *_about_taking_back(play), *_about_gpus(play)]


def _claim(what: str, *against: Iterable[str]) -> Claim:
    return Claim(what, tuple(problem for problems in against for problem in problems))


def _about_stories(play: Play) -> Iterator[Claim]:
    runs = play.evidence.runs
    for story in (FITS, *TWINS):
        whole, together = claims.ran_whole(story, runs[story.key]), claims.started_together(runs[story.key])
        yield _claim(f"{story.key}: the gang ran whole", _succeeded(play.submissions[story.key]), whole, together)
    yield _claim(
        "of two gangs that do not fit together the second waited whole, then ran",
        claims.one_after_the_other(runs[play.first], runs[play.second]),
    )
    for story in REFUSED:
        yield _claim(f"{story.key}: refused with the reason", _refused(play.submissions[story.key]))
    yield _claim(
        f"{WAVES.key}: 20 containers ran in waves and finished while a gang waited",
        _succeeded(play.submissions[WAVES.key]),
        claims.ran_whole(WAVES, runs[WAVES.key]),
        claims.in_waves(WAVES, runs[WAVES.key], play.evidence.peaks.get(WAVES.key, 0)),
        claims.ended_before(runs[WAVES.key], runs[play.second]),
    )


def _about_tenants(play: Play) -> Iterator[Claim]:
    evidence, runs = play.evidence, play.evidence.runs
    for story in TENANTS:
        last = claims.last_attempt(runs[story.key])
        whole, together = claims.ran_whole(story, last), claims.started_together(last)
        yield _claim(f"{story.key}: the gang ran whole", _succeeded(play.submissions[story.key]), whole, together)
    yield _claim(
        "`vision` borrowed what `speech` did not use",
        claims.borrowed(evidence.shares, "root.vision", "root.speech", ALONG.gpus_asked),
    )
    looser = runs[LOOSER.key]
    yield _claim(
        f"{LOOSER.key}: spread over a rack when it had waited {RELAX_AFTER_S} s and not before, and `ygs why` said so",
        claims.relaxed_when_due(looser, evidence.waits.get(LOOSER.key, []), 1, RELAX_AFTER_S),
        claims.in_one_rack(looser, evidence.levels.get(LOOSER.key)),
    )
    yield _claim(
        f"{ONE_MORE.key}: ran as soon as -refreshQueues had lifted its queue's maximum",
        claims.started_once_lifted(
            runs[ONE_MORE.key],
            evidence.waits.get(ONE_MORE.key, []),
            evidence.lifted_s,
            [*runs[WIDE.key], *runs[ALONG.key]],
        ),
    )


def _about_taking_back(play: Play) -> Iterator[Claim]:
    evidence, runs = play.evidence, play.evidence.runs
    owed = play.submissions[OWED.key]
    yield _claim(
        f"{OWED.key}: ran when the grace of {PREEMPT_GRACE_S} s had ended, and only one job was stopped for it",
        claims.began_when_armed(runs[OWED.key], evidence.armed_s, PREEMPT_GRACE_S),
        claims.only_one_stopped(runs, evidence.stopped_for, owed.app_id),
    )
    for key in evidence.stopped_for:
        first = [run for run in runs[key] if run.attempt == 1]
        again = [run for run in runs[key] if run.attempt > 1]
        yield _claim(
            f"{key}: stopped whole before that began, and back by itself when it had ended",
            claims.taken_back(first, runs[OWED.key], again),
        )


def _about_gpus(play: Play) -> Iterator[Claim]:
    evidence = play.evidence
    runs = claims.all_runs(evidence)
    yield _claim(
        "every worker saw exactly the GPUs that `ygs job show` says it was given",
        *(claims.saw_what_it_was_given(s, evidence.runs[s.key], evidence.given.get(s.key, {})) for s in STORIES),
    )
    yield _claim("no GPU was seen by two workers at once", claims.never_held_twice(runs))
    yield _claim("the ResourceManager never tagged a GPU twice", claims.never_tagged_twice(evidence.samples))
    yield _claim(
        "the ResourceManager's tags named each worker's GPUs while it ran",
        claims.tagged_while_running([run for run in runs if run.gpus], evidence.samples),
    )


def _succeeded(submission: Submission) -> Iterator[str]:
    if submission.app.get("finalStatus") != "SUCCEEDED" or submission.exit_code != 0:
        status = submission.app.get("finalStatus", "unknown")
        yield f"{submission.story.app_name}: {status}, yarn ended with {submission.exit_code}: {submission.diagnostics}"


def _refused(submission: Submission) -> Iterator[str]:
    story = submission.story
    if submission.app.get("state") != "KILLED" or story.refused_for not in submission.diagnostics:
        state = submission.app.get("state", "unknown")
        yield f"{story.app_name} is {state}, its diagnostics {submission.diagnostics!r} lack {story.refused_for!r}"
    if submission.started:
        yield f"{story.app_name}: {len(submission.started)} of its workers ran"


def stories_table(play: Play) -> Table:
    """Return what became of each application."""
    rows = [_story_row(story, play) for story in STORIES if story.key in play.submissions]
    columns = ("STORY", "ASKED", "END", "RAN", "WHAT IT WAS")
    return table(columns, rows, whole=("STORY", "ASKED", "END"), folded=("WHAT IT WAS",))


def _story_row(story: Story, play: Play) -> tuple[Text, ...]:
    submission = play.submissions[story.key]
    return (
        text(story.key),
        text(f"{story.containers} x {story.gpus}"),
        text(str(submission.app.get("finalStatus", "-")).lower()),
        text(len(play.evidence.runs.get(story.key, []))),
        text(f"{story.title}: {submission.diagnostics}" if story.refused_for else story.title),
    )


def claims_table(judged: list[Claim]) -> Table:
    """Return each claim with its verdict and the first things that speak against it."""
    return table(("HELD", "CLAIM"), [row for claim in judged for row in _claim_rows(claim)], folded=("CLAIM",))


def _claim_rows(claim: Claim) -> Iterator[tuple[Text, Text]]:
    yield (text("yes", "green") if claim.held else text("NO", "bold red")), text(claim.what)
    for problem in claim.against[:PROBLEMS_SHOWN]:
        yield text(""), text(f"  {problem}", "red")
    if len(claim.against) > PROBLEMS_SHOWN:
        yield text(""), text(f"  … and {len(claim.against) - PROBLEMS_SHOWN} more", "red")
