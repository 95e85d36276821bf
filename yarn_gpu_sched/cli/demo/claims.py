"""What must have held, each as a function of the evidence that returns what speaks against it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from yarn_gpu_sched.cli.demo.evidence import Evidence, Given, Run, TagSample
from yarn_gpu_sched.cli.demo.story import Story

STARTED_WITHIN_S = 20.0


def ran_whole(story: Story, runs: list[Run]) -> Iterator[str]:
    """Say if not every container of the story ran from its start to its end."""
    if len(runs) != story.containers:
        yield f"{len(runs)} workers wrote a log, {story.containers} were asked"
    yield from (f"{run.container_id} did not end by itself" for run in runs if run.ended_s is None)


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


def all_runs(evidence: Evidence) -> list[Run]:
    """Return the workers of all stories."""
    return [run for runs in evidence.runs.values() for run in runs]
