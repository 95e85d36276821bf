"""The format of binding files: what is written is read again, and nothing else is believed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from yarn_gpu_sched.binding import Binding, Refusal, UnfitBinding, parse, render
from yarn_gpu_sched.binding.binding import GPUS_MAX, LETTERS_MAX, REASON_LETTERS_MAX, VALUE_LETTERS_MAX, VALUES_MAX

UUID = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"


@pytest.mark.parametrize(
    ("binding", "text"),
    [
        (Binding(), "\n"),
        (Binding(("0", "3")), "0,3\n"),
        (Binding((UUID, "GPU-b")), f"{UUID},GPU-b\n"),
        (Binding(("1",), {"YGS_RANK": "0", "YGS_HOSTS": "a:2,b:1"}), "1\nYGS_RANK=0\nYGS_HOSTS=a:2,b:1\n"),
        (
            Binding((), {"YGS_DOMAIN": "", "YGS_X": "a=b $(c) `d` \"e' \\"}),
            "\nYGS_DOMAIN=\nYGS_X=a=b $(c) `d` \"e' \\\n",
        ),
        (Refusal("GPU 3 is held by process 7 of eve"), "!GPU 3 is held by process 7 of eve\n"),
    ],
)
def test_format(binding: Binding | Refusal, text: str) -> None:
    assert render(binding) == text
    assert parse(text) == binding


@pytest.mark.parametrize(
    ("binding", "words"),
    [
        (Binding(("0", UUID)), "all be indices such as 0,3 or all UUIDs"),
        (Binding(("",)), "should all be"),
        (Binding(("-1",)), "should all be"),
        (Binding(("0,1", "1")), "should all be"),
        (Binding(("0", "0")), "name each once"),
        (Binding(("!x",)), "should all be"),
        (Binding(("MIG-1",)), "should all be"),
        (Binding(("0\n",)), "should all be"),
        (Binding(("٣",)), "should all be"),
        (Binding(tuple(map(str, range(GPUS_MAX + 1)))), "65 GPUs in 184 letters, should be at most 64"),
        (Binding(("GPU-" + "a" * 6000,)), "in 6004 letters"),
        (Binding((), {"PATH": "x"}), "'PATH', should be a name such as YGS_RANK"),
        (Binding((), {"YGS_RANK\n": "x"}), "should be a name"),
        (Binding((), {"YGS_a": "x"}), "should be a name"),
        (Binding((), {"YGS_": "x"}), "should be a name"),
        (Binding((), {"YGS_BINDING_DIR": "x"}), "should be a name"),
        (Binding((), {"YGS_BOUND_CONTAINER": "x"}), "should be a name"),
        (Binding((), {"YGS_SERVER_GPUS": "0"}), "should be a name"),
        (Binding((), {"YGS_CHECKPOINT_FILE": "x"}), "should be a name"),
        (Binding((), {"YGS_RANK": "1\nPATH=x"}), "YGS_RANK: .*should be printable ASCII"),
        (Binding((), {"YGS_RANK": "\x1b[2J"}), "should be printable ASCII"),
        (Binding((), {"YGS_RANK": "x" * (VALUE_LETTERS_MAX + 1)}), "at most 65536"),
        (Binding((), {"YGS_" + chr(65 + i // 26) + chr(65 + i % 26): "" for i in range(VALUES_MAX + 1)}), "at most 32"),
    ],
)
def test_what_does_not_fit_is_not_written_and_is_named(binding: Binding, words: str) -> None:
    with pytest.raises(UnfitBinding, match=words):
        render(binding)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0\nYGS_RANK=1",
        "0\r\n",
        "0,\n",
        "0\n\n",
        "0\nYGS_RANK\n",
        "0\nYGS_RANK=1\nYGS_RANK=2\n",
        "0\nPATH=/evil\n",
        "!\n",
        "!gone\nYGS_RANK=1\n",
        "!" + "x" * (REASON_LETTERS_MAX + 1) + "\n",
        "0\x00\n",
        "0\u2028\n",
        "\n" * (LETTERS_MAX + 1),
    ],
)
def test_what_is_no_binding_is_not_believed(text: str) -> None:
    with pytest.raises(UnfitBinding) as wrong:
        parse(text)
    assert str(wrong.value).isprintable()


@pytest.mark.parametrize(
    ("reason", "line"),
    [("", "!no reason given\n"), (" \n ", "!?\n"), ("x\ny\x1b", "!x?y?\n"), ("é" * 900, "!" + "?" * 500 + "\n")],
)
def test_reason_is_always_told(reason: str, line: str) -> None:
    assert render(Refusal(reason)) == line


ANY_TEXT = st.text(max_size=12)
PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
INDICES = st.lists(st.integers(0, 9999).map(str), unique=True, max_size=8).map(tuple)
UUIDS = st.lists(st.from_regex(r"GPU-[A-Za-z0-9-]{1,8}", fullmatch=True), unique=True, max_size=8).map(tuple)
NAMES = st.from_regex(r"YGS_[AJRWH_]{1,6}", fullmatch=True)
FIT = st.builds(Binding, INDICES | UUIDS, st.dictionaries(NAMES, PLAIN, max_size=5))
ANY = st.builds(
    Binding,
    st.lists(ANY_TEXT | st.sampled_from(["0", "1", UUID, "!", ","]), max_size=4).map(tuple),
    st.dictionaries(ANY_TEXT | NAMES, ANY_TEXT, max_size=3),
)
PIECES = st.sampled_from(
    ["0", ",", UUID, "\n", "YGS_RANK", "=", "!", "\r", "\0", "PATH", " ", "\x85", "$(x)", "YGS_BINDING_DIR=x\n"]
)


@fuzzed(200, 10_000)
@given(binding=FIT)
def test_what_fits_is_written_and_read_again(binding: Binding) -> None:
    assert parse(render(binding)) == binding


@fuzzed(200, 10_000)
@given(reason=st.text(max_size=700))
def test_whatever_the_reason_it_is_one_line_that_is_read_again(reason: str) -> None:
    text = render(Refusal(reason))
    assert text.count("\n") == 1
    assert render(parse(text)) == text


@fuzzed(200, 10_000)
@given(binding=ANY)
def test_what_was_written_is_read_the_same_or_was_refused(binding: Binding) -> None:
    try:
        text = render(binding)
    except UnfitBinding:
        return
    assert parse(text) == binding


@fuzzed(200, 10_000)
@given(text=st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join))
def test_nothing_unsafe_gets_through(text: str) -> None:
    try:
        binding = parse(text)
    except UnfitBinding:
        return
    assert render(binding) == text or isinstance(binding, Refusal)
    first, *others = text[:-1].split("\n")
    assert text.isascii()
    assert re.fullmatch(r"!.+|((GPU-)?[A-Za-z0-9,-]+)?", first)
    assert all(re.fullmatch(r"YGS_[A-Z_]+=[ -~]*", line) for line in others)
