"""Trace replay: recorded workloads of GPU clusters on a simulated clock, scheduled by the engine as it is.

The whole of it, with a policy of one's own (`yarn_gpu_sched.policy` has the contract):

    trace = read_trace("philly_week.csv.gz")
    done = replay(trace, Scenario("60x8", domains=4), MyPolicy())
    print(done.summary.mean_jct_s)
    write_results(done, "results")

`docs/replay.md` has a worked example, the formats, and what the figures mean. Nothing here decides: `simulation` tells the engine
what happens and answers its commands as a resource manager would.
"""

from yarn_gpu_sched.replay.layout import ListedServer, read_servers
from yarn_gpu_sched.replay.quotas import Quotas, read_quotas
from yarn_gpu_sched.replay.reading import read_trace
from yarn_gpu_sched.replay.results import ResultsError, check_folder, write_results
from yarn_gpu_sched.replay.run import Replay, replay
from yarn_gpu_sched.replay.scenario import Scenario
from yarn_gpu_sched.replay.schedule import Attempt
from yarn_gpu_sched.replay.simulation import BrokenLawsError
from yarn_gpu_sched.replay.stalling import StalledError
from yarn_gpu_sched.replay.summary import Delays, Summary
from yarn_gpu_sched.replay.trace import Trace, TraceError, TraceJob, deal_vcs

__all__ = [
    "Attempt",
    "BrokenLawsError",
    "Delays",
    "ListedServer",
    "Quotas",
    "Replay",
    "ResultsError",
    "Scenario",
    "StalledError",
    "Summary",
    "Trace",
    "TraceError",
    "TraceJob",
    "check_folder",
    "deal_vcs",
    "read_quotas",
    "read_servers",
    "read_trace",
    "replay",
    "write_results",
]
