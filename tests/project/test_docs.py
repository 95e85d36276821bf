"""The documents: links lead somewhere, command lines and settings are such as are taken, the protocol's page is as generated."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from defusedxml import ElementTree

from yarn_gpu_sched.cli import ygs
from yarn_gpu_sched.embedded.configuration import FILES, read
from yarn_gpu_sched.monitor.settings import Settings as MonitorSettings
from yarn_gpu_sched.service import Settings

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docker").glob("*.md")])
FENCED = re.compile(r"^ *```(.*?)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
YGS = re.compile(r"^\s*(?:\$ )?(?:\.venv/bin/)?ygs (?!.*·)(?P<arguments>.+)$")
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")


def prose(page: Path) -> str:
    return re.sub(r"`[^`\n]*`", "", FENCED.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """Return where the headings of a page are linked to, as GitHub makes it of them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead nowhere in this checkout."""
    for link in LINK.findall(prose(page)):
        if re.match(r"https?://", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            yield f"{page.name}: {link} is not there"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{page.name}: {link} has no such heading"


def command_lines(page: Path) -> Iterator[str]:
    """Yield the arguments of each `ygs` that a page shows in a block, with lines that go on joined."""
    for info, block in FENCED.findall(page.read_text(encoding="utf-8")):
        if info.startswith("python"):
            continue
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            if found := YGS.match(line):
                yield re.sub(r"\s(?:2?>|[|&<]|#).*$", "", found["arguments"])


LINES = [(page.name, line) for page in PAGES for line in command_lines(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken(page)) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A head, with `code`\n[a](#a-head-with-code) [b](nowhere.md) [c](#nowhere)\n```\n[d](x.md)\n```\n"
    )
    assert list(broken(page)) == ["page.md: nowhere.md is not there", "page.md: #nowhere has no such heading"]


def test_documents_show_commands() -> None:
    assert len({line.split()[0] for _, line in LINES}) > 10


def parse(words: list[str]) -> None:
    """Read a command line as `ygs` would; raises click's errors."""
    command: click.Command = ygs
    context = ygs.make_context("ygs", words)
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None, name
        command, context = found, found.make_context(name, rest, parent=context)


@pytest.mark.parametrize("line", ["why", "jobs --nonsense", "nonsense", "replay tests --servers 4"])
def test_a_wrong_command_line_is_found(line: str) -> None:
    with pytest.raises(click.UsageError):
        parse(shlex.split(line))


@pytest.mark.parametrize(("page", "line"), LINES)
def test_ygs_takes_each_command_line(page: str, line: str) -> None:
    """Parse it as `ygs` would, without doing it: what it does is tested where it is."""
    assert page
    words = shlex.split(re.sub(r"\$\{?\w+\}?", "1", line))
    try:
        parse(words)
    except click.BadParameter as wrong:
        if "does not exist" not in wrong.message:  # that may be what a command before it writes
            raise


def test_make_has_each_target() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = {name for page in PAGES for _, block in FENCED.findall(page.read_text()) for name in MAKE.findall(block)}
    assert shown
    assert shown <= targets


def blocks(kind: str) -> list[tuple[str, str]]:
    """Return page and text of each block of a language."""
    found = ((page.name, info, block) for page in PAGES for info, block in FENCED.findall(page.read_text()))
    return [(page, block) for page, info, block in found if info == kind]


def test_docker_cluster_has_each_command() -> None:
    shown = {name for page in PAGES for name in re.findall(r"docker/cluster (?:--dry-run )?([a-z]+)", page.read_text())}
    usage = subprocess.run([ROOT / "docker" / "cluster", "help"], capture_output=True, text=True, check=True).stdout
    known = {
        name for words in re.findall(r"^  ([a-z, ]+?) (?:\[|\.|  )", usage, re.MULTILINE) for name in words.split(", ")
    }
    assert {"up", "submit", "down", "remove"} <= shown
    assert shown <= known


@pytest.mark.parametrize(("page", "block"), [one for one in blocks("toml") if one[0] != "simulated-gpus.md"])
def test_settings_that_are_shown_are_taken(page: str, block: str) -> None:
    """Those of simulated-gpus.md are no settings, and have their own test (monitor/test_simulated_documented.py)."""
    given = tomllib.loads(block)
    kind = MonitorSettings if "service" in given else Settings
    assert kind(**given).model_dump(include=set(given)).keys() == given.keys(), page


OF_AN_EXAMPLE = {"ygs.cluster-id"}
"""What every operator has otherwise."""


@pytest.mark.parametrize(("page", "block"), blocks("xml"))
def test_properties_that_are_shown_are_those_of_hadoop_conf(page: str, block: str) -> None:
    root = ElementTree.fromstring(f"<configuration>{block}</configuration>")
    shown = {str(one.findtext("name")): one.findtext("value") for one in root.iter("property")}
    assert shown
    documented = {key: value for name in FILES for key, value in read(name).items()}
    alike = shown.keys() & documented.keys() - OF_AN_EXAMPLE - {"yarn.scheduler.capacity.root.queues"}
    assert {key: shown[key] for key in alike} == {key: documented[key] for key in alike}, page


def test_the_protocols_page_is_as_generated() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "protocol_docs.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
