"""docs/service.md says what the code does."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from yarn_gpu_sched.model.health import Health, Telemetry
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.service import Settings
from yarn_gpu_sched.service.metrics import Metrics

ROOT = Path(__file__).resolve().parents[2]
SERVICE = ROOT / "yarn_gpu_sched" / "service"
TEXT = (ROOT / "docs" / "service.md").read_text()


def rows(head: str) -> list[list[str]]:
    """Return the cells of the table that begins with this head."""
    table = TEXT.partition(head)[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def calls(name: str) -> Iterator[ast.Call]:
    """Yield every call of a function, or of a method, of this name in the service."""
    for path in SERVICE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == name:
                yield node


def constants(nodes: list[ast.expr]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def test_every_setting_with_its_default_meaning_and_range() -> None:
    wanted = []
    for key, field in Settings.model_fields.items():
        extra = field.json_schema_extra
        assert isinstance(extra, dict)
        default = f"`{field.default}`" if field.default != "" else "empty"
        wanted.append([f"`{key}`", default, field.description, extra["right"]])
    assert rows("| key | default") == wanted


def test_every_metric_with_its_labels() -> None:
    wanted = []
    for metric in Metrics().registry.collect():
        kind = "_total" if metric.type == "counter" else ""
        wanted.append((f"`{metric.name}{kind}`", metric.documentation))
    assert [(row[0], row[2]) for row in rows("| series | labels")] == wanted


def test_every_value_of_a_label() -> None:
    written = {one.value for one in (*JobState, *Health, *Telemetry)}
    for call in calls("labels"):
        written |= set(constants([node for node in ast.walk(call) if isinstance(node, ast.expr)]))
    values = " ".join(row[1].partition(":")[2] for row in rows("| series | labels"))
    reasons = set(re.findall("`([A-Z_]+)`", TEXT.partition("| reason | status")[2].partition("\n\n")[0]))
    reasons |= {row[0].strip("`") for row in rows("| refused | status")}
    assert set(re.findall(r"`(\w+)`", values)) == written - reasons


def test_every_reason_of_a_refusal() -> None:
    reasons = set()
    for call in calls("Refusal"):
        reasons |= {text for text in constants(call.args) if re.fullmatch("[A-Z_]+", text)}
    for helper in ("_precondition", "_refused", "_unknown"):
        for call in calls(helper):
            reasons |= {text for text in constants(call.args) if re.fullmatch("[A-Z_]+", text)}
    reasons |= {"TOO_MUCH_UNREAD", "TOO_MUCH_UNANSWERED"}
    of_other_calls = {
        "NOT_RUNNING",
        "UNKNOWN_JOB",
        "ANSWER_TOO_LARGE",
        "TOO_MANY_WATCHERS",
        "READS_TOO_SLOWLY",
        "UNKNOWN_SERVER",
        "OTHER_USER",
    }
    told = set(re.findall("`([A-Z_]+)`", TEXT.partition("| reason | status")[2].partition("\n\n")[0]))
    told |= {row[0].strip("`") for row in rows("| refused | status")} - {"IMPOSSIBLE_SAMPLE"}
    assert told == reasons - of_other_calls


def test_every_event_of_the_log() -> None:
    written = set()
    for level in ("debug", "info", "warning", "error", "critical", "exception"):
        for call in calls(level):
            written |= set(constants(call.args[:1]))
    told = set(re.findall("`([a-z_]+)`", " ".join(row[0] for row in rows("| event | level"))))
    assert told == written
