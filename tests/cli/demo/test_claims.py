from pathlib import Path

import pytest

from yarn_gpu_sched.cli.demo import claims
from yarn_gpu_sched.cli.demo.evidence import BadLogError, Given, Run, TagSample, read_run, read_runs, tag_sample
from yarn_gpu_sched.cli.demo.story import FITS, REFUSED, STORIES, TWINS, WAVES, Story

TWO = Story("two", "two workers of two GPUs", 2, gpus=2)


def run(name: str, *gpus: int, host: str = "a", start_s: float = 10.0, end_s: float | None = 20.0) -> Run:
    return Run(f"container_{name}", host, gpus, start_s, end_s)


def given(*runs: Run) -> dict[str, Given]:
    return {each.container_id: Given(each.host, each.gpus or ()) for each in runs}


GOOD = [run("1", 0, 1), run("2", 2, 3)]


def test_two_workers_with_their_own_gpus_are_fine() -> None:
    samples = [TagSample(15.0, {"a": {0: 1, 1: 1, 2: 1, 3: 1}})]
    assert [
        *claims.ran_whole(TWO, GOOD),
        *claims.saw_what_it_was_given(TWO, GOOD, given(*GOOD)),
        *claims.never_held_twice(GOOD),
        *claims.never_tagged_twice(samples),
        *claims.tagged_while_running(GOOD, samples),
        *claims.started_together(GOOD),
    ] == []


def test_a_missing_or_cut_worker_is_found() -> None:
    assert list(claims.ran_whole(TWO, GOOD[:1])) == ["1 workers wrote a log, 2 were asked"]
    assert list(claims.ran_whole(TWO, [GOOD[0], run("2", 2, 3, end_s=None)])) == ["container_2 did not end by itself"]


def test_gpus_other_than_given_are_found() -> None:
    told = given(*GOOD)
    assert list(claims.saw_what_it_was_given(TWO, [run("1", 0, 2)], told)) == [
        "container_1 saw a (0, 2), was given Given(host='a', gpus=(0, 1))"
    ]
    assert list(claims.saw_what_it_was_given(TWO, [run("1", 0, 1, host="b")], told))
    assert list(claims.saw_what_it_was_given(TWO, [run("1", 0)], told)) == ["container_1 saw 1 GPUs, 2 were asked"]
    assert list(claims.saw_what_it_was_given(TWO, [run("9", 0, 1)], told)) == [
        "container_9 is not known to the service"
    ]


def test_running_unbound_is_found_with_and_without_gpus() -> None:
    unbound = Run("container_1", "a", None, 10.0, 20.0)
    for story in (TWO, WAVES):
        assert list(claims.saw_what_it_was_given(story, [unbound], {})) == ["container_1 ran unbound"]
    assert list(claims.saw_what_it_was_given(WAVES, [run("1")], {})) == []
    assert list(claims.saw_what_it_was_given(WAVES, [run("1", 0)], {})) == ["container_1 saw 1 GPUs, 0 were asked"]


def test_a_gpu_held_twice_is_found_by_the_workers_clocks() -> None:
    later = run("2", 1, start_s=19.9, end_s=30.0)
    assert list(claims.never_held_twice([run("1", 0, 1), later])) == ["GPU 1 of a: container_1 and container_2"]
    assert list(claims.never_held_twice([run("1", 0, 1), run("2", 1, start_s=20.0)])) == []
    assert list(claims.never_held_twice([run("1", 0, 1), run("2", 0, 1, host="b")])) == []
    assert list(claims.never_held_twice([run("1", 0, end_s=None), run("2", 0, start_s=99.0)]))


def test_a_gpu_tagged_twice_is_found() -> None:
    samples = [TagSample(1.0, {"a": {0: 1}}), TagSample(2.0, {"a": {0: 1, 3: 2}})]
    assert list(claims.never_tagged_twice(samples)) == ["GPU 3 of a: 2 holders"]


def test_gpus_without_a_tag_and_times_without_a_look_are_found() -> None:
    good, bad = TagSample(12.0, {"a": {0: 1, 1: 1}}), TagSample(14.0, {"a": {0: 1}})
    assert list(claims.tagged_while_running([GOOD[0]], [good])) == []
    assert list(claims.tagged_while_running([GOOD[0]], [good, bad])) == ["container_1 on a: GPUs [1] without a tag"]
    assert list(claims.tagged_while_running([GOOD[0]], [TagSample(9.0, {"a": {0: 1, 1: 1}})])) == [
        "no sample of the tags while container_1 ran"
    ]


def test_overlapping_twins_are_found() -> None:
    assert list(claims.one_after_the_other(GOOD, [run("3", 0, start_s=20.5)])) == []
    assert list(claims.one_after_the_other(GOOD, [run("3", 0, start_s=18.0)])) == [
        "the second began 2.0 s before the first had ended"
    ]
    assert list(claims.one_after_the_other(GOOD, [])) == ["one of them did not run"]


def test_a_gang_that_trickles_in_is_found() -> None:
    assert list(claims.started_together([run("1", 0), run("2", 1, start_s=10.0 + claims.STARTED_WITHIN_S + 1)]))


def test_waves_are_told_from_one_flood() -> None:
    waves, flood = [run("1"), run("2", start_s=21.0, end_s=22.0)], [run("1"), run("2", start_s=19.0, end_s=22.0)]
    assert list(claims.in_waves(TWO, waves, 1)) == []
    assert list(claims.in_waves(TWO, flood, 1)) == ["all containers ran at once"]
    assert list(claims.in_waves(TWO, waves, 2)) == ["the job held 2 containers at once, of 2"]
    assert list(claims.in_waves(TWO, waves, 0)) == ["the job held 0 containers at once, of 2"]
    assert list(claims.in_waves(TWO, [], 1))


def test_finishing_too_late_is_found() -> None:
    assert list(claims.ended_before([run("1")], [run("2", start_s=21.0)])) == []
    assert list(claims.ended_before([run("1")], [run("2", start_s=19.0)]))
    assert list(claims.ended_before([], [run("2")])) == ["one of them did not run"]


def test_logs_are_read_as_workers_write_them(tmp_path: Path) -> None:
    log = tmp_path / "container_1.log"
    start = "1764450000.123456 event=start container=container_1 host=gpu-a1 gpus=0,3\n"
    log.write_text(start)
    assert read_run(log) == Run("container_1", "gpu-a1", (0, 3), 1764450000.123456, None)
    log.write_text(f"{start}1764450009.500000 event=end container=container_1 host=gpu-a1 gpus=0,3\n")
    assert read_runs(tmp_path) == [Run("container_1", "gpu-a1", (0, 3), 1764450000.123456, 1764450009.5)]
    log.write_text(start.replace("0,3", ""))
    assert read_run(log).gpus == ()
    log.write_text(start.replace("0,3", "unset"))
    assert read_run(log).gpus is None


@pytest.mark.parametrize("text", ["", "nonsense\n", "1.5 event=end container=c host=h gpus=\n"])
def test_logs_that_no_worker_writes_are_refused(tmp_path: Path, text: str) -> None:
    log = tmp_path / "container_1.log"
    log.write_text(text)
    with pytest.raises(BadLogError, match="container_1"):
        read_run(log)


def test_tags_are_read_from_the_resource_managers_page() -> None:
    tags = [{"allocationTag": "gpu_0", "allocationsCount": 1}, {"allocationTag": "other", "allocationsCount": 7}]
    nodes = [{"nodeHostName": "a", "allocationTags": {"allocationTagInfo": tags}}, {"nodeHostName": "b"}]
    assert tag_sample(3.0, {"nodes": {"node": nodes}}) == TagSample(3.0, {"a": {0: 1}, "b": {}})
    assert tag_sample(3.0, {"nodes": None}) == TagSample(3.0, {})


def test_the_stories_mean_what_they_say() -> None:
    servers, gpus_each, vcores_each = 4, 4, 32
    cluster_gpus = servers * gpus_each
    twins = [twin.containers * twin.gpus for twin in TWINS]
    assert all(twin <= cluster_gpus for twin in twins)
    assert sum(twins) > cluster_gpus
    assert FITS.containers * FITS.gpus + max(twins) <= cluster_gpus
    too_many, too_big = REFUSED
    assert too_many.gpus <= gpus_each < too_big.gpus
    assert too_big.containers * too_big.gpus <= cluster_gpus < too_many.containers * too_many.gpus
    left_beside_gangs = servers * (vcores_each - gpus_each * 7)
    assert WAVES.containers > left_beside_gangs
    assert len({story.key for story in STORIES}) == len(STORIES)
