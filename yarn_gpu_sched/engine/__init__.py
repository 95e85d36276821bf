"""Events, commands and `Engine`, the one place where scheduling state changes.

The contract:

1. `Engine.apply` is the only door. Events change the state; only `Pass` decides. Everything else here reads, and gives copies.
2. An engine is pure: no clock, no I/O, no threads, no randomness. Time comes with the events and is taken as not running backwards:
   an earlier ``now_s`` than one already seen counts as that one. One caller at a time.
3. The same events in the same order give the same commands (law 12), in every process.
4. Commands are to be carried out in order. `PlaceGang` and `RefuseJob` are decisions; each is answered by one `OutcomeReported`.
   What a placement holds is in use from the moment it is returned: refused, it is given back; committed, its containers live.
5. `apply` never raises for what a cluster, a job or a resource manager does: what is unknown, doubled or late is ignored where the
   event's docstring says so, and what contradicts the state is represented and shown (a server may be over-committed, see
   `ServerView`). An exception is a bug.
6. Decisions under way are void when the resource manager is lost or registers again; their outcomes are then ignored.
7. Between `ResourceManagerRegistered` and `SnapshotEnded`, and while none is connected, nothing is decided.
8. `next_wake_s` names the time at which a `Pass` could decide differently though nothing happens: a back-off ends, capacity
   settles, a gang may go to a looser level, the policy wants it, or the pass before was full.
9. A job's gang is its tag's; what it asks beyond the gang, and all asks of a job without one, are placed one container at a time.
10. Application masters, and other containers without GPUs, go where every free GPU keeps its share of memory and vcores. Where no
    server is so large that this could ever be, they may take from the share: a cluster of small servers makes progress too.
11. Everything is bounded: ended jobs by ``ended_jobs_max``, decisions of a pass by ``decisions_per_pass_max``; the rest by what the
    resource manager has told.
12. `audit` checks the laws of the state and names what breaks them; `digest` is equal for engines in equal states.
"""

from yarn_gpu_sched.engine.engine import Engine
from yarn_gpu_sched.engine.settings import EngineSettings
from yarn_gpu_sched.model.laws import Broken

__all__ = ["Broken", "Engine", "EngineSettings"]
