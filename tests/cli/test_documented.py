"""docs/cli.md and docs/cli-schema.json say what the command line does."""

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from yarn_gpu_sched.cli import documents, ygs
from yarn_gpu_sched.cli.exits import ExitCode

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "cli.md").read_text(encoding="utf-8")


def all_commands(group: click.Group, prefix: str = "ygs") -> list[tuple[str, click.Command]]:
    context = click.Context(group)
    found: list[tuple[str, click.Command]] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        inner = all_commands(command, f"{prefix} {name}") if isinstance(command, click.Group) else []
        found += inner or [(f"{prefix} {name}", command)]
    return found


COMMANDS = all_commands(ygs)


def test_the_schema_is_that_of_the_documents() -> None:
    refresh = "python -m yarn_gpu_sched.cli.documents > docs/cli-schema.json"
    assert (DOCS / "cli-schema.json").read_text() == documents.json_schema(), f"refresh it: {refresh}"


def test_every_json_has_its_document_named() -> None:
    with_json = {name for name, command in COMMANDS if any("--json" in each.opts for each in command.params)}
    documented = {re.sub(r" JOB$", "", name) for name in re.findall(r"\| `(ygs [^`]+) --json` \| `\w+` \|", TEXT)}
    assert documented == with_json
    defined = json.loads(documents.json_schema())["$defs"]
    assert set(re.findall(r"--json` \| `(\w+)` \|", TEXT)) <= defined.keys()


@pytest.mark.parametrize("name", [name for name, _ in COMMANDS])
def test_every_command_is_documented_and_helps(name: str) -> None:
    group = " ".join(name.split()[:2])
    assert re.search(rf"`{group}[ `]", TEXT), f"{group} is not in docs/cli.md"
    result = CliRunner().invoke(ygs, [*name.split()[1:], "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80


def test_every_exit_code_is_documented() -> None:
    table = set(map(int, re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)))
    assert set(map(int, ExitCode)) | {70} == table
