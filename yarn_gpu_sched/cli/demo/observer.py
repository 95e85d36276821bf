"""Looks at the ResourceManager and the service twice a second, and keeps what the claims need."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Self

from yarn_gpu_sched.cli.demo.evidence import Evidence, Given, Share, Wait, tag_sample
from yarn_gpu_sched.cli.demo.stage import Stage
from yarn_gpu_sched.cli.demo.story import TENANTS
from yarn_gpu_sched.cli.demo.submission import Submission
from yarn_gpu_sched.client import ServiceError
from yarn_gpu_sched.embedded import ClusterError
from yarn_gpu_sched.protocol.v1 import reason_pb2

PAUSE_S = 0.5


class Observer:
    """A thread that fills the evidence and each submission's ``app`` until it is left."""

    def __init__(self, stage: Stage, submissions: Mapping[str, Submission], evidence: Evidence) -> None:
        self._stage, self._submissions, self._evidence = stage, submissions, evidence
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ygs-demo-observer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._thread.join(timeout=30)

    def _watch(self) -> None:
        while not self._leaving.wait(PAUSE_S):
            try:
                self._look()
            except (ClusterError, ServiceError, OSError):
                continue  # one look less; a claim without a look in its time fails

    def _look(self) -> None:
        rm = self._stage.cluster
        before_s = time.time()
        sample = tag_sample(before_s, rm.rm_rest("/ws/v1/cluster/nodes"))
        self._evidence.samples.append(sample)
        apps = (rm.rm_rest("/ws/v1/cluster/apps").get("apps") or {}).get("app", [])
        by_name = {app["name"]: app for app in apps}
        for submission in list(self._submissions.values()):
            submission.app = by_name.get(submission.story.app_name, submission.app)
            if submission.app_id and not submission.ended:
                self._note_given(submission)
                if submission.story in TENANTS:
                    self._note_wait(submission)
        self._note_shares()

    def _note_shares(self) -> None:
        at_s = time.time()
        for use in self._stage.client.virtual_clusters():
            self._evidence.shares += [
                Share(at_s, use.virtual_cluster.path, one.quota_gpus, one.used_gpus, one.borrowed_gpus)
                for one in use.shares
                if not one.partition
            ]

    def _note_wait(self, submission: Submission) -> None:
        at_s = time.time()
        answer = self._stage.client.why(submission.app_id)
        if not answer.HasField("waiting"):
            return
        outlook, code = answer.outlook, reason_pb2.WaitingReasonCode.Name(answer.waiting.code)
        level = outlook.next_level if outlook.HasField("next_level") else None
        due_s = at_s + outlook.relaxes_in_s if outlook.HasField("relaxes_in_s") else None
        wait = Wait(at_s, code.removeprefix("WAITING_REASON_CODE_"), level, due_s)
        self._evidence.waits.setdefault(submission.story.key, []).append(wait)

    def _note_given(self, submission: Submission) -> None:
        key, evidence = submission.story.key, self._evidence
        view = self._stage.client.job(submission.app_id)
        if view.preempted:
            evidence.stopped_for[key] = [one.by_job_id for one in view.preempted]
        if view.HasField("level"):
            evidence.levels[key] = view.level
        held = [c for c in view.containers if not c.application_master]
        evidence.peaks[key] = max(evidence.peaks.get(key, 0), len(held))
        for container in held:
            host = container.server_id.rpartition(":")[0]
            evidence.given.setdefault(key, {})[container.container_id] = Given(host, tuple(container.gpu_indices))
