"""The fourth act: two virtual clusters that are queues of YARN, and a border between them that moves while they work.

`vision` has a quota of 8 GPUs and may use 12, `speech` has a quota of 8. Two gangs of `vision` take 12 and leave one GPU free on
each server, so that a gang of two in `speech` cannot have them on one server: it waits for its time to go further.
"""

from __future__ import annotations

import time

from yarn_gpu_sched.cli.demo.acting import Acting, DemoError
from yarn_gpu_sched.cli.demo.story import ALONG, LOOSER, ONE_MORE, OWED, RELAX_AFTER_S, WIDE, of_cluster
from yarn_gpu_sched.protocol.v1 import reason_pb2

_ROOT = "yarn.scheduler.capacity.root"
# At first everything is the default queue's.
QUEUES = {
    f"{_ROOT}.queues": "default,speech,vision",
    f"{_ROOT}.default.capacity": of_cluster(16),
    f"{_ROOT}.speech.capacity": of_cluster(0),
    f"{_ROOT}.speech.user-limit-factor": "-1",
    f"{_ROOT}.speech.ygs.relax-after-s": str(RELAX_AFTER_S),
    f"{_ROOT}.vision.capacity": of_cluster(0),
    f"{_ROOT}.vision.user-limit-factor": "-1",
}
QUOTA_GPUS, MAXIMUM_GPUS = 8, 12
_SHARED = {
    f"{_ROOT}.default.capacity": of_cluster(0),
    f"{_ROOT}.speech.capacity": of_cluster(QUOTA_GPUS),
    f"{_ROOT}.vision.capacity": of_cluster(QUOTA_GPUS),
    f"{_ROOT}.vision.maximum-capacity": of_cluster(MAXIMUM_GPUS),
}
_LIFTED = {f"{_ROOT}.vision.maximum-capacity": of_cluster(16)}


def begin_tenancy(acting: Acting) -> None:
    """Give the two queues their quotas, and submit what uses one and borrows from the other."""
    acting.narrator.say("giving queues `vision` and `speech` 8 of the 16 GPUs each: yarn rmadmin -refreshQueues")
    _refresh(acting, _SHARED)
    acting.submit((WIDE, ALONG))


def show_tenants(acting: Acting) -> None:
    """Let one borrow what the other does not use, a gang go further when its time has come, and a border move."""
    acting.wait("two gangs of `vision`, more than its quota", lambda: all(map(acting.running, (WIDE.key, ALONG.key))))
    acting.command("vcs")
    acting.submit((LOOSER, ONE_MORE))
    acting.wait("a gang of `speech` to wait for servers nearer to each other", lambda: _relaxes(acting))
    acting.command("why", acting.submissions[LOOSER.key].app_id)
    acting.wait("its time to go further", lambda: acting.running(LOOSER.key))
    at_maximum = reason_pb2.WAITING_REASON_CODE_VC_MAXIMUM
    acting.wait("one more of `vision` to be held at its maximum", lambda: _waits_as(acting, at_maximum))
    acting.command("why", acting.submissions[ONE_MORE.key].app_id)
    acting.narrator.say("letting `vision` use all 16 GPUs: yarn rmadmin -refreshQueues")
    acting.submit((OWED,))  # it waits for more than is free
    began_s = time.time()
    _refresh(acting, _LIFTED)
    acting.evidence.lifted_s = (began_s, time.time())
    acting.wait("it to run", lambda: acting.running(ONE_MORE.key))
    acting.command("vcs")


def _relaxes(acting: Acting) -> bool:
    answer = acting.why(LOOSER.key)
    return answer is not None and answer.outlook.HasField("relaxes_in_s")


def _waits_as(acting: Acting, code: reason_pb2.WaitingReasonCode.ValueType) -> bool:
    answer = acting.why(ONE_MORE.key)
    return answer is not None and answer.waiting.code == code


def _refresh(acting: Acting, settings: dict[str, str]) -> None:
    cluster = acting.stage.cluster
    cluster.configure(settings)
    done = cluster.yarn("rmadmin", "-refreshQueues")
    if done.returncode != 0:
        raise DemoError(f"yarn rmadmin -refreshQueues: {done.stdout[-300:]}{done.stderr[-300:]}")
