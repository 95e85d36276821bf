"""Rules of the house that no linter knows: sizes, words in names, what the README promises."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 40
LEFT_OUT = ("yarn_gpu_sched/protocol/v1/", "tests/vendored/")
YARNS_OWN_WORDS = re.compile(r"(resource|node)_managers?", re.IGNORECASE)
WORDS_THAT_SAY_NOTHING = re.compile(r"(^|_)(managers?|helpers?|utils?|data|infos?)(_|$)", re.IGNORECASE)


def tracked(*suffixes: str) -> list[str]:
    command = ["git", "-C", str(ROOT), "ls-files"]
    names = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return [n for n in names if n.endswith(suffixes) and not n.startswith(LEFT_OUT) and (ROOT / n).is_file()]


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines from `def` to the end, without the docstring: a long contract is welcome."""
    assert function.end_lineno
    whole = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None and first.end_lineno:
        whole -= first.end_lineno - first.lineno + 1
    return whole


def functions_of(source: str) -> list[tuple[str, int]]:
    """Return name and lines of each function."""
    nodes = ast.walk(ast.parse(source))
    return [(n.name, lines_of(n)) for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]


def test_no_file_is_longer_than_one_can_hold_in_mind() -> None:
    counted = {name: len((ROOT / name).read_text().splitlines()) for name in tracked(".py", ".java", ".sh")}
    assert {name: lines for name, lines in counted.items() if lines > FILE_LINES_MAX} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    counted = {
        f"{name}: {function}": lines
        for name in tracked(".py")
        for function, lines in functions_of((ROOT / name).read_text())
    }
    assert {place: lines for place, lines in counted.items() if lines > FUNCTION_LINES_MAX} == {}


def test_long_function_would_be_seen() -> None:
    source = 'def f():\n    """Say\n\n    much.\n    """\n' + "    x = 1\n" * FUNCTION_LINES_MAX
    assert functions_of(source) == [("f", FUNCTION_LINES_MAX + 1)]


@pytest.mark.parametrize("suffix", [".py", ".java"])
def test_no_file_is_called_by_a_word_that_says_nothing(suffix: str) -> None:
    stems = {name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", Path(name).stem) for name in tracked(suffix)}
    stems = {name: YARNS_OWN_WORDS.sub("", stem) for name, stem in stems.items()}
    assert [name for name, stem in stems.items() if WORDS_THAT_SAY_NOTHING.search(stem)] == []


def test_readme_names_the_two_commands_and_what_a_fresh_machine_needs() -> None:
    readme = (ROOT / "README.md").read_text()
    assert re.search(r"^(\$ )?make demo\b", readme, re.MULTILINE)
    assert re.search(r"^(\$ )?make test\b", readme, re.MULTILINE)
    assert re.search(r"apt-get install [a-z0-9 .+-]*\bgit\b", readme), (
        "tools/cleanroom.sh installs what this line names"
    )


def test_licence_is_whole() -> None:
    licence = (ROOT / "LICENSE").read_text()
    assert "Apache License" in licence
    assert "END OF TERMS AND CONDITIONS" in licence
