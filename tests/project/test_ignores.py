"""Every ignore is counted, and one without a reason is found."""

from __future__ import annotations

import pytest

from tools import ignores

REASONED = [
    ("a.py", "x = f()  # noqa: S310 - the address is loopback", "ruff"),
    ("a.py", "x = f()  # noqa: S310, PLR2004 - bounded by the caller", "ruff"),
    ("a.py", "x = f()  # type: ignore[misc]  # the stub has no such name", "mypy"),
    ("A.java", '@SuppressWarnings("rawtypes") // the signature of the class above', "javac"),
    ("A.java", '@SuppressWarnings({"rawtypes", "unchecked"}) // its own signature', "javac"),
    ("a.proto", "// buf:lint:ignore RPC_REQUEST_STANDARD_NAME the stream has its own words", "buf"),
    ("a.sh", "# shellcheck disable=SC2086 # a list of package names", "shellcheck"),
]
BARE = [
    ("a.py", "x = f()  # noqa"),
    ("a.py", "x = f()  # noqa: S310"),
    ("a.py", "x = f()  # type: ignore"),
    ("a.py", "x = f()  # type: ignore[misc]  # ok"),
    ("a.py", "# ruff: noqa"),
    ("A.java", '@SuppressWarnings("rawtypes")'),
    ("a.sh", "# shellcheck disable=SC2086"),
]


@pytest.mark.parametrize(("name", "line", "kind"), REASONED)
def test_reason_beside_it_is_accepted(name: str, line: str, kind: str) -> None:
    (found,) = ignores.in_source(name, line)
    assert found.kind == kind
    assert found.reasoned


@pytest.mark.parametrize(("name", "line"), BARE)
def test_missing_reason_is_found(name: str, line: str) -> None:
    (found,) = ignores.in_source(name, f"first\n{line}\n")
    assert not found.reasoned
    assert found.place == f"{name}:2"


def test_two_on_a_line_share_the_reason_behind_them() -> None:
    line = "x = f()  # type: ignore[misc]  # noqa: S310 - the stub lacks it, loopback only"
    assert [ignore.reasoned for ignore in ignores.in_source("a.py", line)] == [True, True]


def test_rule_switched_off_without_a_comment_is_found() -> None:
    bare, reasoned = ignores.in_settings(
        "pyproject.toml", '    "S603",\n    "D105", # magic methods mean what they say\n'
    )
    assert not bare.reasoned
    assert reasoned.reasoned


def test_every_ignore_of_the_project_has_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    code = ignores.main()
    assert code == 0, capsys.readouterr().out
