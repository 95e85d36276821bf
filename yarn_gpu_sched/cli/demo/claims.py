"""What must have held, each as a function of the evidence that returns what speaks against it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from yarn_gpu_sched.cli.demo.evidence import Evidence, Given, Run, Share, TagSample, Wait
from yarn_gpu_sched.cli.demo.story import Story

STARTED_WITHIN_S = 20.0
# A wait is looked at twice a second; on a slow machine less often.
SEEN_WITHIN_S = 5.0
CLOCKS_AGREE_S = 0.5
# YARN takes the tags off a container as it orders its end; the server hears of that with its next heartbeat.
HEARD_WITHIN_S = 5.0


def ran_whole(story: Story, runs: list[Run]) -> Iterator[str]:
    """Say if not every container of the story ran from its start to its end."""
    if len(runs) != story.containers:
        yield f"{len(runs)} workers wrote a log, {story.containers} were asked"
    yield from (f"{run.container_id} did not end by itself" for run in runs if run.ended_s is None or run.stopped)


def saw_what_it_was_given(story: Story, runs: list[Run], given: dict[str, Given]) -> Iterator[str]:
    """Say where a worker's CUDA_VISIBLE_DEVICES is not what `ygs job show` says of its container."""
    for run in runs:
        if run.gpus is None:
            yield f"{run.container_id} ran unbound"
        elif len(run.gpus) != story.gpus:
            yield f"{run.container_id} saw {len(run.gpus)} GPUs, {story.gpus} were asked"
        elif story.gpus and run.container_id not in given:
            yield f"{run.container_id} is not known to the service"
        elif story.gpus and given[run.container_id] != Given(run.host, run.gpus):
            yield f"{run.container_id} saw {run.host} {run.gpus}, was given {given[run.container_id]}"


def never_held_twice(runs: list[Run]) -> Iterator[str]:
    """Say which GPU two workers saw at the same time, by their own clocks."""
    on_gpu: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in runs:
        for index in run.gpus or ():
            on_gpu[run.host, index].append(run)
    for (host, index), holders in sorted(on_gpu.items()):
        holders.sort(key=lambda run: run.started_s)
        for earlier, later in pairwise(holders):
            if earlier.ended_s is None or later.started_s < earlier.ended_s:
                yield f"GPU {index} of {host}: {earlier.container_id} and {later.container_id}"


def never_tagged_twice(samples: list[TagSample]) -> Iterator[str]:
    """Say which GPU the ResourceManager ever counted for two live containers."""
    for sample in samples:
        for host, holders in sample.holders.items():
            yield from (f"GPU {index} of {host}: {count} holders" for index, count in holders.items() if count > 1)


def tagged_while_running(runs: list[Run], samples: list[TagSample]) -> Iterator[str]:
    """Say which worker's GPUs the ResourceManager did not tag at a moment when it ran, or that nobody looked then."""
    for run in runs:
        ended_s = run.ended_s or run.started_s
        ended_s -= HEARD_WITHIN_S if run.stopped else 0.0
        during = [sample for sample in samples if run.started_s <= sample.at_s <= ended_s]
        if not during:
            yield f"no sample of the tags while {run.container_id} ran"
        for sample in during:
            missing = set(run.gpus or ()) - sample.holders.get(run.host, {}).keys()
            if missing:
                yield f"{run.container_id} on {run.host}: GPUs {sorted(missing)} without a tag"
                break


def one_after_the_other(first: list[Run], second: list[Run]) -> Iterator[str]:
    """Say if a worker of the second gang began before all of the first had ended."""
    if not first or not second:
        yield "one of them did not run"
        return
    last_end_s = max(run.ended_s or float("inf") for run in first)
    first_start_s = min(run.started_s for run in second)
    if first_start_s < last_end_s:
        yield f"the second began {last_end_s - first_start_s:.1f} s before the first had ended"


def started_together(runs: list[Run]) -> Iterator[str]:
    """Say if the workers of one gang began far apart."""
    starts_s = [run.started_s for run in runs]
    if starts_s and max(starts_s) - min(starts_s) > STARTED_WITHIN_S:
        yield f"its workers began {max(starts_s) - min(starts_s):.1f} s apart"


def taken_back(first: list[Run], owner: list[Run], again: list[Run]) -> Iterator[str]:
    """Say if a gang was not stopped whole before its GPUs' owner began, or came back before that had ended."""
    if not first or not owner or not again:
        yield "one of them did not run"
        return
    yield from (f"{run.container_id} was not stopped" for run in first if not run.stopped)
    began_s = min(run.started_s for run in owner)
    late = [run.container_id for run in first if (run.ended_s or float("inf")) > began_s]
    yield from (f"{container_id} ended only after the other had begun" for container_id in late)
    if min(run.started_s for run in again) < max(run.ended_s or float("inf") for run in owner):
        yield "it was back before the other had ended"


def only_one_stopped(runs: dict[str, list[Run]], stopped_for: dict[str, list[str]], by: str) -> Iterator[str]:
    """Say if not exactly one story had workers stopped, and that once, for the application ``by`` as the service says."""
    by_workers = {key for key, them in runs.items() if any(run.stopped for run in them)}
    if len(by_workers) != 1 or stopped_for.keys() != by_workers:
        told, seen = ", ".join(stopped_for) or "nobody", ", ".join(sorted(by_workers)) or "nobody"
        yield f"by the service {told} was stopped, by the workers {seen}"
    yield from (f"{key} was stopped for {for_whom}" for key, for_whom in stopped_for.items() if for_whom != [by])


def began_when_armed(runs: list[Run], armed_s: float, grace_s: float) -> Iterator[str]:
    """Say if a gang began before others could have been stopped for it, or long after."""
    started_s = min((run.started_s for run in runs), default=float("inf"))
    if not armed_s + grace_s - CLOCKS_AGREE_S <= started_s <= armed_s + grace_s + STARTED_WITHIN_S:
        yield f"it began {started_s - armed_s:+.1f} s from when that was allowed, and the grace is {grace_s:.0f} s"


def last_attempt(runs: list[Run]) -> list[Run]:
    """Return the workers of a story's last attempt."""
    last = max((run.attempt for run in runs), default=0)
    return [run for run in runs if run.attempt == last]


def in_waves(story: Story, runs: list[Run], peak: int) -> Iterator[str]:
    """Say if the later workers did not wait for the earlier ones, by their clocks or by what the job held at once."""
    starts_s = [run.started_s for run in runs]
    ends_s = [run.ended_s for run in runs if run.ended_s is not None]
    if not ends_s or max(starts_s) < min(ends_s):
        yield "all containers ran at once"
    if not 0 < peak < story.containers:
        yield f"the job held {peak} containers at once, of {story.containers}"


def ended_before(runs: list[Run], others: list[Run]) -> Iterator[str]:
    """Say if these workers had not all ended when the first of the others began."""
    if not runs or not others:
        yield "one of them did not run"
    elif max(run.ended_s or float("inf") for run in runs) > min(run.started_s for run in others):
        yield "it ended only after the waiting gang had started"


def borrowed(shares: list[Share], borrower: str, lender: str, gpus: int) -> Iterator[str]:
    """Say if one queue was never seen with so many GPUs beyond its quota while the other used none of its own."""
    idle_s = {share.at_s for share in shares if share.path == lender and share.quota and not share.used}
    seen = [share for share in shares if share.path == borrower and share.at_s in idle_s]
    if not any(share.borrowed == gpus and share.used > share.quota for share in seen):
        most = max((share.borrowed for share in seen), default=0)
        yield f"{borrower} was never seen to borrow {gpus} GPUs while {lender} used none, but {most}"


def relaxed_when_due(runs: list[Run], waits: list[Wait], level: int, timer_s: float) -> Iterator[str]:
    """Say if a gang was placed before its time to go to this level, long after it, or without being told to wait for it."""
    due = [wait for wait in waits if wait.next_level == level and wait.relaxes_at_s is not None]
    if not due or not runs:
        yield f"it was never said to wait for level {level}" if runs else "it did not run"
        return
    began_s, due_s = due[0].at_s, min(wait.relaxes_at_s or 0.0 for wait in due)
    if not timer_s - SEEN_WITHIN_S <= due_s - began_s <= timer_s + CLOCKS_AGREE_S:
        yield f"it was to wait {due_s - began_s:.1f} s more when it was first looked at, of {timer_s:.0f} s"
    started_s = min(run.started_s for run in runs)
    if not due_s - CLOCKS_AGREE_S <= started_s <= due_s + STARTED_WITHIN_S:
        yield f"it began {started_s - due_s:+.1f} s from the time at which it was due"


def in_one_rack(runs: list[Run], level: int | None) -> Iterator[str]:
    """Say if a gang is not on several servers of one rack, by its workers' host names, or was not placed as such."""
    hosts = {run.host for run in runs}
    if len(hosts) < 2 or len({host[:-1] for host in hosts}) > 1:  # noqa: PLR2004 - fewer are one server
        yield f"it ran on {', '.join(sorted(hosts)) or 'no server'}"
    if level != 1:
        yield f"it was placed at level {level}"


def started_once_lifted(
    runs: list[Run], waits: list[Wait], lifted_s: tuple[float, float], others: list[Run]
) -> Iterator[str]:
    """Say if a gang did not wait at its queue's maximum until that was lifted, or began only when others had ended."""
    before = [wait for wait in waits if wait.at_s <= lifted_s[0]]
    if not before or before[-1].code != "VC_MAXIMUM":
        yield f"before the maximum was lifted it waited as {before[-1].code if before else 'nothing'}"
    started_s = min((run.started_s for run in runs), default=float("inf"))
    if not lifted_s[0] <= started_s <= lifted_s[1] + STARTED_WITHIN_S:
        yield f"it began {started_s - lifted_s[1]:+.1f} s from when the maximum had been lifted"
    if any((run.ended_s or 0.0) < started_s for run in others):
        yield "another of its queue had ended before"


def all_runs(evidence: Evidence) -> list[Run]:
    """Return the workers of all stories."""
    return [run for runs in evidence.runs.values() for run in runs]
