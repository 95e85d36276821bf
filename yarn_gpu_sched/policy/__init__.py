"""Who goes next. A policy reads a view and yields intents; the engine checks each one and carries it out.

The contract, for whoever writes a policy:

1. A policy changes nothing but itself. What it wants is an intent; the engine may reject any of them, and counts it.
2. `Policy.decide` is called for each `Pass`, and again while what it placed has woken somebody. It is read lazily: when it goes
   on after a ``yield``, the view already shows what became of the intent. Nothing else happens between two intents of a pass.
3. `View.next_ready` gives the first want that is ready to be examined, in order of rank, then of submission; equal wants of
   several jobs are given one at a time, and once one of them is said to wait, none of them is given again until something that
   they need was freed. So a pass costs as much as there are different wants that woke, not as much as jobs wait.
4. `View.find` is a question ("what if"): it changes nothing. A placement is good until the next ``yield``. `View.plan` asks the
   same of several wants at once, also with running gangs out of the way; all of it is undone at its end.
5. For each want that it is given a policy yields `Place`, `Refuse` or `Wait`; a want without an answer is given again. A pass
   ends after a bounded number of intents, and goes on in the next one.
6. A want has a ceiling of locality, which relaxes by its timer (law 8): `find` keeps to it, and a placement beyond it is
   rejected.
7. `Policy.key` orders those that wait; it may depend on the job alone, since it is asked when the job changes, not as time goes
   by.
8. `Preempt` orders a gang to be stopped, whole; what it holds is free when its containers are released, and nothing keeps it for
   the want that it was stopped for. A policy that depends on time asks for a pass with `WakeAt`, in each pass anew.
9. Determinism: no clock, no randomness, no iteration over unordered sets; `View.waiting` and `View.running` are in no order, so
   sort them. Equal views give equal intents.
10. A policy never raises for what a job or a cluster looks like. An exception is a bug, and ends the pass.

`Intent` is a tagged union that grows: suspending, resuming, migrating, resizing a job and sharing a GPU become further members of
it, each with the engine's check beside it; a policy that does not know them is not touched. What a policy may read grows in the
same way.

A policy with ``grouped`` goes by virtual clusters: `View.groups` lists those in which somebody is ready, `View.next_of` gives the
first of one, `View.share` what a queue uses and its quota. Limits of queues hold with such a policy alone, by the engine.

Which there are: `Philly` (by virtual clusters), `Fifo` (later jobs may pass a blocked one), `FifoStrict` (they may not), `Sjf` (the
shortest first); and, for replay, `Srtf`, `Las` and `Tiresias`, which stop running gangs by rules of their own, not by law 7.
"""

from yarn_gpu_sched.policy.facts import Facts
from yarn_gpu_sched.policy.fifo import Fifo, FifoStrict, Sjf
from yarn_gpu_sched.policy.intent import Intent, Place, Preempt, Reclaim, Refuse, Wait, WakeAt
from yarn_gpu_sched.policy.policy import POLICIES, Policy, policy_named
from yarn_gpu_sched.policy.preemptive import Las, Preemptive, Srtf, Tiresias
from yarn_gpu_sched.policy.view import Plan, View, Want

__all__ = [
    "POLICIES",
    "Facts",
    "Fifo",
    "FifoStrict",
    "Intent",
    "Las",
    "Place",
    "Plan",
    "Policy",
    "Preempt",
    "Preemptive",
    "Reclaim",
    "Refuse",
    "Sjf",
    "Srtf",
    "Tiresias",
    "View",
    "Wait",
    "WakeAt",
    "Want",
    "policy_named",
]
