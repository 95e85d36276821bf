"""docs/doctor.md says what the checks say of themselves."""

from __future__ import annotations

import re
from pathlib import Path

import click

from yarn_gpu_sched.cli.doctor import doctor
from yarn_gpu_sched.doctor import CHECKS, Verdict
from yarn_gpu_sched.doctor.finding import FINDINGS_MAX
from yarn_gpu_sched.doctor.hdfs import REQUEST_S_MAX
from yarn_gpu_sched.doctor.installation import NODES_AT_ONCE, NODES_MAX, NODES_S_MAX
from yarn_gpu_sched.doctor.web import PAGE_S_MAX

TEXT = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text(encoding="utf-8")


def rows(columns: int) -> list[list[str]]:
    lines = (re.split(r"(?<!\\) \| ", line[2:-2]) for line in TEXT.splitlines() if line.startswith("| "))
    return [line for line in lines if len(line) == columns]


def test_every_check_has_its_row_in_order() -> None:
    listed = [row for row in rows(4) if row[0] != "check"]
    assert listed == [[f"`{check.name}`", check.looks_at, check.means, check.do] for check in CHECKS]


def test_every_verdict_and_every_option_has_a_row() -> None:
    assert {f"`{verdict}`" for verdict in Verdict} <= {row[0] for row in rows(2)}
    named = set(re.findall(r"`(--[a-z-]+)", " ".join(row[0] for row in rows(3))))
    options = {one.opts[0] for one in doctor.params if isinstance(one, click.Option)}
    assert named == options


def test_bounds_are_those_of_the_code() -> None:
    assert f"At most {NODES_MAX} NodeManagers are asked" in TEXT
    assert f"{NODES_AT_ONCE} at once" in TEXT
    assert f"for {NODES_S_MAX:.0f} seconds together" in TEXT
    assert f"A page has {PAGE_S_MAX:.0f} seconds" in TEXT
    assert f"a request of HDFS {REQUEST_S_MAX:.0f}" in TEXT
    assert f"At most {FINDINGS_MAX} findings of a check" in TEXT
