"""Gang tags: trimmed and case-blind keys; what is unreadable or contradictory is refused with the tag shown (C14)."""

import pytest

from yarn_gpu_sched.model.gang_tag import GangTag, gang_tag
from yarn_gpu_sched.model.tag import TagError, shown


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ((), None),
        (("other:4", "gang"), None),
        (("gang:4",), GangTag(4)),
        (("GANG:4",), GangTag(4)),
        ((" gang:4 ",), GangTag(4)),
        (("gang :4x2",), GangTag(4, 2)),
        (("gang:4X2",), GangTag(4, 2)),
        (("gang:4x2+3",), GangTag(7, 2, 3)),
        (("gang:4", "GANG: 4"), GangTag(4)),
        (("x", "gang:1x8", "locality:1"), GangTag(1, 8)),
        (("gang:1",), GangTag(1)),
        (("gang:16384",), GangTag(16_384)),
        (("gang:16383x1+1",), GangTag(16_384, 1, 1)),
        (("gang:1x1024",), GangTag(1, 1_024)),
        (("gang:1x1",), GangTag(1, 1)),
        (("gang:2x1+0",), GangTag(2, 1)),
    ],
)
def test_a_readable_tag_is_read(tags: tuple[str, ...], expected: GangTag | None) -> None:
    assert gang_tag(tags) == expected


@pytest.mark.parametrize(
    "tag",
    [
        "gang:0",
        "gang:-1",
        "gang:4x",
        "gang:x4",
        "gang:",
        "gang:99999999999",
        "gang:99999",
        "gang:16385",
        "gang:16384x1+1",
        "gang:0x1+3",
        "gang:4x0",
        "gang:4x5000",
        "gang:4x1025",
        "gang:4+2",
        "gang:4x2+",
        "gang:4 x 2 y",
        "gang:1.5",
        "gang:٤",
        "gang:" + "9" * 250,
    ],
)
def test_an_unreadable_tag_is_shown(tag: str) -> None:
    with pytest.raises(TagError, match="gang:") as raised:
        gang_tag(("fine", tag))
    assert tag[:100] in str(raised.value)
    assert len(str(raised.value)) < 250


def test_two_tags_that_disagree_are_both_shown() -> None:
    with pytest.raises(TagError, match='"gang:4" and "gang:8" contradict'):
        gang_tag(("gang:4", "gang:8"))
    with pytest.raises(TagError, match="contradict"):
        gang_tag(("gang:4", "gang:4x2"))
    with pytest.raises(TagError, match='"gang:1" and "gang:2" contradict'):
        gang_tag(("gang:1", "gang:2", "gang:3"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", ""), ("a" * 100, "a" * 100), ("a" * 101, "a" * 100 + "…"), ("a" * 9_999, "a" * 100 + "…"), ("a\tb", "a?b")],
)
def test_what_is_shown_is_printable_and_bounded(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_a_shown_tag_carries_no_control_sequence() -> None:
    with pytest.raises(TagError) as raised:
        gang_tag(("gang:\x1b[31m4\x07",))
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("text", ["gang:4", "gang:4x2", "gang:4x2+3"])
def test_a_tag_is_written_as_it_is_read(text: str) -> None:
    assert str(gang_tag((text,))) == text


def test_a_tag_knows_its_gpus() -> None:
    tag = GangTag(7, 2, 3)
    assert (tag.gpu_containers, tag.gpus) == (4, 8)
    assert (GangTag(7).gpu_containers, GangTag(7).gpus) == (0, 0)
    assert (GangTag(1, 2).gpu_containers, GangTag(1, 2).gpus) == (1, 2)
