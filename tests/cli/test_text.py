import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarn_gpu_sched.cli.text import TEXT_CHARACTERS_MAX, clean


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b2J", r"\x9b2J"),
        ("\x7f", r"\x7f"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u2066b\u2069", r"a\u2066b\u2069"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("a\U000e0041b", r"a\U000e0041b"),
        ("a\nb\r\nc\td", "a b  c d"),
        ("a\u2028b\u2029c\x85d", r"a\u2028b\u2029c\x85d"),
        ("\ud800", r"\ud800"),
        ("[red]not markup[/red] :smile:", "[red]not markup[/red] :smile:"),
        ("日本語 é ✓", "日本語 é ✓"),
        ("", ""),
    ],
)
def test_what_is_hidden_is_shown_as_its_code(hostile: str, shown: str) -> None:
    assert clean(hostile) == shown


@given(st.text(max_size=200))
def test_nothing_hidden_is_left(text: str) -> None:
    left = {unicodedata.category(character) for character in clean(text)}
    assert not left & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def test_every_single_character_of_unicode_is_safe() -> None:
    for code in range(sys.maxunicode + 1):
        assert all(
            character.isprintable() or character == " " for character in clean(chr(code)).replace("\u3000", " ")
        ) or (unicodedata.category(chr(code)) == "Zs")


def test_cleaning_twice_is_cleaning_once() -> None:
    once = clean("\x1b\u202e\n")
    assert clean(once) == once


def test_what_is_endless_is_cut() -> None:
    assert len(clean("x" * 1_000_000)) == TEXT_CHARACTERS_MAX
    assert clean("abcdef", characters_max=4) == "abc…"
