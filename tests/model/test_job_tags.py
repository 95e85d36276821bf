"""Tags beside the gang: a ceiling of locality with its seconds a level, and a declared run time (C14)."""

import pytest

from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.gang_tag import GangTag
from yarn_gpu_sched.model.job_tags import JobTags, LocalityTag, job_tags
from yarn_gpu_sched.model.tag import TagError


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ((), JobTags()),
        (("locality", "runtimes:5", "spark:x"), JobTags()),
        (("locality:0",), JobTags(locality=LocalityTag(Level.FEWEST_SERVERS))),
        (("Locality: 1 ",), JobTags(locality=LocalityTag(Level.ONE_DOMAIN))),
        (("locality:2@0",), JobTags(locality=LocalityTag(Level.ANYWHERE, 0))),
        (("locality:1@600",), JobTags(locality=LocalityTag(Level.ONE_DOMAIN, 600))),
        (("runtime:7200",), JobTags(runtime_s=7200)),
        (("runtime:99999999",), JobTags(runtime_s=99_999_999)),
        (("runtime:5", "RUNTIME:5"), JobTags(runtime_s=5)),
        (
            ("runtime:60", "gang:3", "locality:1@5"),
            JobTags(GangTag(3), LocalityTag(Level.ONE_DOMAIN, 5), 60),
        ),
    ],
)
def test_readable_tags_are_read(tags: tuple[str, ...], expected: JobTags) -> None:
    assert job_tags(tags) == expected


@pytest.mark.parametrize(
    "tag",
    [
        "locality:",
        "locality:3",
        "locality:-1",
        "locality:1@",
        "locality:@5",
        "locality:1@-5",
        "locality:1@5s",
        "locality:1@999999999",
        "locality:1 @ 5",
        "locality:١",  # noqa: RUF001 - that it is no digit of ours is the point
        "runtime:",
        "runtime:0",
        "runtime:2h",
        "runtime:-5",
        "runtime:1.5",
        "runtime:999999999",
        "runtime:" + "9" * 250,
        "gang:4x",
    ],
)
def test_an_unreadable_tag_is_shown_with_what_would_be_right(tag: str) -> None:
    with pytest.raises(TagError, match="use ") as raised:
        job_tags(("fine", tag))
    assert tag[:100] in str(raised.value)
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize(
    "tags", [("locality:1", "locality:2"), ("locality:1", "locality:1@5"), ("runtime:1", "runtime:2")]
)
def test_two_tags_that_disagree_are_both_shown(tags: tuple[str, str]) -> None:
    with pytest.raises(TagError, match=f'"{tags[0]}" and "{tags[1]}" contradict each other'):
        job_tags(tags)


def test_a_shown_tag_carries_no_control_sequence() -> None:
    with pytest.raises(TagError) as raised:
        job_tags(("runtime:\x1b[31m4\x07",))
    assert str(raised.value).isprintable()
