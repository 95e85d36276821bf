"""docs/monitor.md says what the monitor does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from yarn_gpu_sched.monitor.bindings import variables
from yarn_gpu_sched.monitor.metrics import GPU_LABELS, Shown, ShownCollector
from yarn_gpu_sched.monitor.settings import Settings
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb

ROOT = Path(__file__).resolve().parents[2]
MONITOR = ROOT / "yarn_gpu_sched" / "monitor"
TEXT = (ROOT / "docs" / "monitor.md").read_text()


def rows(head: str) -> list[list[str]]:
    """Return the cells of the table that begins with this head."""
    table = TEXT.partition(head)[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_every_setting_with_its_default_meaning_and_range() -> None:
    wanted = []
    for key, field in Settings.model_fields.items():
        extra = field.json_schema_extra
        assert isinstance(extra, dict)
        default = f"`{str(field.default).lower()}`" if field.default != "" else "empty"
        wanted.append([f"`{key}`", default, field.description, extra["right"]])
    assert rows("| key | default") == wanted


def test_every_series_with_its_meaning() -> None:
    wanted = []
    for metric in ShownCollector(lambda: Shown("gpu1", certificate_expires_s=1.0)).collect():
        total = "_total" if metric.type == "counter" else ""
        wanted.append([f"`{metric.name}{total}`", metric.documentation])
    assert rows("| series | meaning") == wanted


def test_every_label_of_a_gpu() -> None:
    assert tuple(re.findall(r"`(\w+)`", TEXT.partition("Labels of a GPU: ")[2].partition(".")[0])) == GPU_LABELS


def test_every_variable_of_a_container() -> None:
    each = pb.Binding(container_id="c", job_id="j", rank=0, world_size=1, hosts=["h"], domain="d")
    told = {name for row in rows("| variable | what") for name in re.findall(r"`(YGS_\w+)`", row[0])}
    assert variables(each).keys() == told


def events() -> Iterator[str]:
    for path in MONITOR.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            logged = isinstance(node.func.value, ast.Name) and node.func.value.id == "_log"
            if logged and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value)


def test_every_event_of_the_log() -> None:
    assert {name for row in rows("| event | level") for name in re.findall(r"`(\w+)`", row[0])} == set(events())
