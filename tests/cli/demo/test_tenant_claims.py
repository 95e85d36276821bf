"""What the demo claims of virtual clusters can fail."""

from __future__ import annotations

import pytest

from tests.cli.demo.test_claims import run
from yarn_gpu_sched.cli.demo import claims
from yarn_gpu_sched.cli.demo.evidence import Run, Share, Wait
from yarn_gpu_sched.cli.demo.story import ALONG, LOOSER, SERVERS, WIDE, of_cluster
from yarn_gpu_sched.cli.demo.tenants import MAXIMUM_GPUS, QUOTA_GPUS

VISION, SPEECH = "root.vision", "root.speech"


def shares(*, used: int = 12, borrowed: int = 6, lender_used: int = 0, lender_quota: int = 8) -> list[Share]:
    return [Share(5.0, VISION, 8, used, borrowed), Share(5.0, SPEECH, lender_quota, lender_used, 0)]


def test_borrowing_is_seen_only_while_the_lender_uses_nothing_of_its_own() -> None:
    assert list(claims.borrowed(shares(), VISION, SPEECH, 6)) == []
    nothing = f"{VISION} was never seen to borrow 6 GPUs while {SPEECH} used none, but 0"
    assert list(claims.borrowed(shares(lender_used=1), VISION, SPEECH, 6)) == [nothing]
    assert list(claims.borrowed(shares(lender_quota=0), VISION, SPEECH, 6)) == [nothing], "nothing there to be lent"
    assert list(claims.borrowed(shares(used=8, borrowed=0), VISION, SPEECH, 6)) == [nothing]
    assert list(claims.borrowed([], VISION, SPEECH, 6)) == [nothing]


def waits(began_s: float = 0.5, due_s: float = 10.0) -> list[Wait]:
    return [Wait(at_s, "CONFINED", 1, due_s) for at_s in (began_s, began_s + 1.0)]


@pytest.mark.parametrize("started_s", [10.0, 12.0])
def test_a_gang_that_begins_when_it_is_due_is_fine(started_s: float) -> None:
    assert list(claims.relaxed_when_due([run("1", 0, start_s=started_s)], waits(), 1, 10.0)) == []


def test_a_gang_that_begins_too_early_or_too_late_is_found() -> None:
    early = claims.relaxed_when_due([run("1", 0, start_s=10.1), run("2", 0, start_s=8.0)], waits(), 1, 10.0)
    assert list(early) == ["it began -2.0 s from the time at which it was due"]
    late = claims.relaxed_when_due([run("1", 0, start_s=31.0)], waits(), 1, 10.0)
    assert list(late) == ["it began +21.0 s from the time at which it was due"]


def test_a_gang_that_was_never_said_to_wait_for_its_level_or_not_for_so_long_is_found() -> None:
    runs = [run("1", 0, start_s=10.0)]
    never = ["it was never said to wait for level 1"]
    assert list(claims.relaxed_when_due(runs, [], 1, 10.0)) == never
    assert list(claims.relaxed_when_due(runs, [Wait(1.0, "CLUSTER_FULL")], 1, 10.0)) == never
    assert list(claims.relaxed_when_due(runs, [Wait(1.0, "CONFINED", 2, 10.0)], 1, 10.0)) == never
    assert list(claims.relaxed_when_due([], waits(), 1, 10.0)) == ["it did not run"]
    assert list(claims.relaxed_when_due(runs, waits(began_s=8.0), 1, 10.0)) == [
        "it was to wait 2.0 s more when it was first looked at, of 10 s"
    ]
    assert list(claims.relaxed_when_due(runs, waits(began_s=-9.0), 1, 10.0))


def test_a_gang_on_one_server_or_over_two_racks_is_found() -> None:
    in_rack = [run("1", 0, host="gpu-a1"), run("2", 0, host="gpu-a2")]
    assert list(claims.in_one_rack(in_rack, 1)) == []
    assert list(claims.in_one_rack(in_rack, 2)) == ["it was placed at level 2"]
    assert list(claims.in_one_rack(in_rack, None)) == ["it was placed at level None"]
    over_racks = [run("1", 0, host="gpu-a1"), run("2", 0, host="gpu-b1")]
    assert list(claims.in_one_rack(over_racks, 1)) == ["it ran on gpu-a1, gpu-b1"]
    assert list(claims.in_one_rack(in_rack[:1], 1)) == ["it ran on gpu-a1"]
    assert list(claims.in_one_rack([], 1)) == ["it ran on no server"]


LIFTED_S = (20.0, 22.0)
AT_MAXIMUM = [Wait(18.0, "CONFINED"), Wait(19.0, "VC_MAXIMUM")]
HELD = [run("9", 0, start_s=1.0, end_s=40.0)]


def test_a_border_that_moves_at_once_is_fine() -> None:
    assert list(claims.started_once_lifted([run("1", 0, start_s=23.0)], AT_MAXIMUM, LIFTED_S, HELD)) == []


@pytest.mark.parametrize(
    ("started_s", "seen", "others", "problem"),
    [
        (19.0, AT_MAXIMUM, HELD, "it began -3.0 s from when the maximum had been lifted"),
        (43.0, AT_MAXIMUM, [run("9", 0, end_s=50.0)], "it began +21.0 s from when the maximum had been lifted"),
        (23.0, [Wait(19.0, "CLUSTER_FULL")], HELD, "before the maximum was lifted it waited as CLUSTER_FULL"),
        (23.0, [Wait(21.0, "VC_MAXIMUM")], HELD, "before the maximum was lifted it waited as nothing"),
        (23.0, AT_MAXIMUM, [run("9", 0, end_s=22.5)], "another of its queue had ended before"),
    ],
    ids=["before", "long after", "for something else", "never seen", "others made room"],
)
def test_a_border_that_did_not_move_at_once_is_found(
    started_s: float, seen: list[Wait], others: list[Run], problem: str
) -> None:
    assert list(claims.started_once_lifted([run("1", 0, start_s=started_s)], seen, LIFTED_S, others)) == [problem]


def test_the_stories_of_the_virtual_clusters_mean_what_they_say() -> None:
    ((servers, gpus_each),) = SERVERS
    assert WIDE.gpus_asked <= QUOTA_GPUS < WIDE.gpus_asked + ALONG.gpus_asked == MAXIMUM_GPUS
    left_on_each = gpus_each - WIDE.gpus
    assert 2 * WIDE.gpus > gpus_each, "two of its containers share no server"
    assert left_on_each < LOOSER.gpus_asked <= gpus_each, "one server would hold it if it were empty"
    assert LOOSER.gpus_asked <= left_on_each * servers // 2, "and a rack holds it"
    assert of_cluster(8) == "[memory=131072,vcores=64,yarn.io/gpu=8]"
    assert of_cluster(0) == "[memory=0,vcores=0,yarn.io/gpu=0]"
