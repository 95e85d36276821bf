"""docs/policy.md says what the code does: settings of queues, reasons with their causes, defaults."""

import re
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from yarn_gpu_sched.engine.line_clock import HISTORY_MAX
from yarn_gpu_sched.model.delay import CAUSES, Cause
from yarn_gpu_sched.model.queue_settings import QueueSettings, SettingError, known_settings, read_settings
from yarn_gpu_sched.model.reason import ReasonCode
from yarn_gpu_sched.monitor.settings import Settings as MonitorSettings
from yarn_gpu_sched.service import Settings

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "policy.md").read_text()
CAUSE_NAMES = {
    "fair share": Cause.FAIR_SHARE,
    "capacity": Cause.CAPACITY,
    "fragmentation": Cause.FRAGMENTATION,
    "other": Cause.OTHER,
}


def rows(head: str) -> list[list[str]]:
    """Return the cells of the table that begins with this head."""
    table = TEXT.partition(head)[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_every_setting_of_a_queue_has_its_row() -> None:
    assert [row[0].strip("`") for row in rows("| key |")] == known_settings()


@pytest.mark.parametrize("row", rows("| key |"), ids=lambda row: row[0].strip("`"))
def test_the_range_of_a_queues_setting_is_the_one_stated(row: list[str]) -> None:
    name, right = row[0].strip("`"), row[1]
    numbers = re.match(r"(\d) to (\d+)", right)
    values = [numbers[1], numbers[2]] if numbers else re.findall(r"`(\w+)`", right)
    for value in values:
        assert read_settings(((name, value),), QueueSettings())[1] == []
    beyond = [str(int(numbers[1]) - 1), str(int(numbers[2]) + 1)] if numbers else ["perhaps"]
    assert [len(read_settings(((name, value),), QueueSettings())[1]) for value in beyond] == [1] * len(beyond)


def test_every_reason_has_its_row_with_its_cause() -> None:
    stated = {row[0].strip("`"): CAUSE_NAMES[row[1]] for row in rows("| reason |")}
    assert stated == {code.value: CAUSES[code] for code in ReasonCode}


def test_every_default_is_the_setting_s() -> None:
    stated = {}
    for row in rows("| default | value |"):
        name = re.search(r"\(`([a-z_]+)`\)", row[0])
        if name:
            stated[name[1]] = (row[1].removesuffix(" s"), row[2])
    for setting, (value, right) in stated.items():
        field = Settings.model_fields[setting]
        extra = field.json_schema_extra
        assert isinstance(extra, dict)
        assert value == (field.default or "none" if isinstance(field.default, str) else f"{field.default:g}"), setting
        assert right == extra["right"], setting
    of_monitors = {
        name[1]: (row[1].removesuffix(" s"), row[2])
        for row in rows("| default | value |")
        if (name := re.search(r"\(monitor's `(\w+)`\)", row[0]))
    }
    known = {name: MonitorSettings.model_fields[name] for name in of_monitors}
    assert of_monitors == {name: (f"{field.default:g}", _right(field)) for name, field in known.items()}
    assert {"read_every_s", "push_every_s"} <= of_monitors.keys()
    assert (rows("| default | value |")[-1][1], 16) == ("16", HISTORY_MAX)


def _right(field: FieldInfo) -> object:
    assert isinstance(field.json_schema_extra, dict)
    return field.json_schema_extra["right"]


def test_a_setting_that_is_not_known_lists_those_that_are() -> None:
    _, (wrong,) = read_settings((("relax", "1"),), QueueSettings())
    assert all(name in wrong for name in known_settings())
    assert issubclass(SettingError, ValueError)
