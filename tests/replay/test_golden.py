"""One server that holds all GPUs: mean completion times that two independent programs agree on, to the digit.

`fifo` passes over jobs that do not fit, `fifo_strict` does not; `srtf` is the ideal preemptive one. Pooled GPUs leave nothing to
choose, so there is one right answer; whatever differs on real servers is fragmentation.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.traces import ITP, PHILLY_WEEK
from yarn_gpu_sched.replay import Scenario, read_trace, replay

POLICIES = ("fifo_strict", "fifo", "sjf", "srtf")
GOLDEN: dict[tuple[Path, int], tuple[float, ...]] = {
    (PHILLY_WEEK, 480): (26_607.9, 21_879.2, 11_351.0, 8_175.4),
    (ITP / "cluster01.csv.gz", 64): (144_176.1, 95_128.6, 26_967.6, 22_594.0),
    (ITP / "cluster03.csv.gz", 160): (280_337.6, 230_598.2, 71_304.2, 46_233.5),
    (ITP / "cluster05.csv.gz", 16): (240_273.4, 162_257.3, 88_483.9, 79_455.9),
    (ITP / "cluster06.csv.gz", 96): (366_465.4, 132_189.6, 63_124.4, 40_408.9),
    (ITP / "cluster10.csv.gz", 16): (71_091.5, 70_101.9, 58_348.0, 50_044.3),
}


@pytest.mark.timeout(300)  # a few seconds of work, on a machine that may be busy
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("trace", "gpus"), GOLDEN, ids=lambda value: getattr(value, "name", ""))
def test_pooled_gpus_give_the_golden_values(trace: Path, gpus: int, policy: str) -> None:
    done = replay(read_trace(trace), Scenario(f"1x{gpus}"), policy)
    assert done.summary.mean_jct_s == GOLDEN[trace, gpus][POLICIES.index(policy)]
    assert done.summary.refused == 0
    assert {attempt.level for attempt in done.attempts} == {0}
