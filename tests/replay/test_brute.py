"""Every policy against a few lines of brute force, on one server: what ends when."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from yarn_gpu_sched.policy import POLICIES
from yarn_gpu_sched.replay import Scenario, Trace, TraceJob, replay, stalling

STEPS = {"las": 3_600, "tiresias": 3_200}
CASES = 60


class Brute:
    """Runs jobs at exact times on so many GPUs; whoever is first in order, and fits, has them."""

    def __init__(self, jobs: list[TraceJob], gpus: int, policy: str) -> None:
        self.jobs, self.gpus, self.policy = jobs, gpus, policy
        self.now_s = Fraction(0)
        self.left_s = {number: Fraction(job.duration_s) for number, job in enumerate(jobs)}
        self.attained_gpu_s = dict.fromkeys(self.left_s, Fraction(0))
        self.running: list[int] = []

    def key(self, number: int) -> tuple[Fraction | int, ...]:
        if self.policy == "sjf":
            return (self.jobs[number].duration_s, number)
        if self.policy == "srtf":
            return (self.left_s[number], number)
        if self.policy in STEPS:
            step = self.attained_gpu_s[number] // STEPS[self.policy]
            return (min(step, 1) if self.policy == "tiresias" else step, number)
        return (number,)

    def next_s(self, alive: list[int]) -> Fraction:
        coming = [Fraction(job.submit_s) for job in self.jobs if job.submit_s > self.now_s]
        times = coming + [self.now_s + self.left_s[number] for number in self.running]
        if self.policy in STEPS:
            step = STEPS[self.policy]
            for number in self.running:
                next_step = (self.attained_gpu_s[number] // step + 1) * step
                times.append(self.now_s + (next_step - self.attained_gpu_s[number]) / self.jobs[number].gpus)
        assert times, alive
        return min(times)

    def ends(self) -> dict[str, float]:
        ended: dict[str, float] = {}
        alive: list[int] = []
        while len(ended) < len(self.jobs):
            alive = [n for n, job in enumerate(self.jobs) if job.submit_s <= self.now_s and job.job_id not in ended]
            self.choose(alive)
            then_s = self.next_s(alive)
            for number in self.running:
                self.left_s[number] -= then_s - self.now_s
                self.attained_gpu_s[number] += (then_s - self.now_s) * self.jobs[number].gpus
            self.now_s = then_s
            for number in [number for number in self.running if not self.left_s[number]]:
                self.running.remove(number)
                ended[self.jobs[number].job_id] = float(self.now_s)
        return ended

    def choose(self, alive: list[int]) -> None:
        kept = [] if self.policy in ("srtf", *STEPS) else list(self.running)
        free = self.gpus - sum(self.jobs[number].gpus for number in kept)
        for number in sorted(set(alive) - set(kept), key=self.key):
            if self.jobs[number].gpus <= free:
                free -= self.jobs[number].gpus
                kept.append(number)
            elif self.policy == "fifo_strict":
                break
        self.running = kept


@pytest.mark.timeout(300)
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_jobs_end_when_brute_force_says(policy: str) -> None:
    for seed in range(CASES):
        rng = random.Random(seed)
        gpus, longest_s, span_s = (
            rng.choice([1, 2, 4, 8]),
            rng.choice([3, 50, 2_000, 8_000]),
            rng.choice([0, 5, 500, 5_000]),
        )
        submitted = sorted(rng.randint(0, span_s) for _ in range(rng.randint(1, 10)))
        jobs = [
            TraceJob(f"j{number}", submit_s, rng.randint(1, gpus), rng.randint(1, longest_s), "v")
            for number, submit_s in enumerate(submitted)
        ]
        done = replay(Trace("made", "jobs", list(jobs)), Scenario(f"1x{gpus}"), policy)
        found = {one.job_id: one.end_s for one in done.attempts if one.outcome == "finished"}
        assert found == pytest.approx(Brute(jobs, gpus, policy).ends(), abs=1e-2), f"seed {seed}: {jobs}"


def test_jobs_that_take_turns_for_long_are_not_taken_for_jobs_that_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalling, "STOPS_WITHOUT_END_MAX", 1_000)  # or it takes ten times as long to be beyond it
    jobs = [TraceJob(f"j{number}", 0, 8, 259_200, "v") for number in range(3)]
    done = replay(Trace("made", "jobs", jobs), Scenario("1x8"), "las")
    assert [one.outcome for one in done.attempts].count("finished") == 3
    assert done.summary.preemptions > 1_000
