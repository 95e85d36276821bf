"""docs/simulated-gpus.md says what can be simulated."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec

from yarn_gpu_sched.monitor.simulated import scenario as scenarios
from yarn_gpu_sched.monitor.simulated.models import MODELS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "simulated-gpus.md").read_text()
KINDS = {str(kind.__struct_config__.tag): kind for kind in get_args(scenarios.AnyEvent)}


def test_every_event_with_its_fields() -> None:
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", TEXT, re.MULTILINE)
    told = {what: re.findall(r"`(\w+)`", fields) for what, fields in rows if what != "what"}
    common = {"at_s", "until_s"}
    assert told == {
        what: [field.name for field in msgspec.structs.fields(kind) if field.name not in common]
        for what, kind in KINDS.items()
    }


def names(after: str) -> list[str]:
    return re.findall(r"`([^`]+)`", TEXT.partition(after)[2].partition(".\n")[0])


def test_every_model_field_and_reason() -> None:
    assert names("Models: ") == list(MODELS)
    assert names("Fields are ") == list(get_args(scenarios.Field))
    assert names("Reasons are ") == list(get_args(scenarios.Throttle))


def test_defaults_of_a_busy_card() -> None:
    busy = scenarios.Busy()
    words = f"{busy.sm_percent} %\nof the time, {busy.memory_percent} % for its memory, with {busy.memory_used_percent} % of"
    assert words in TEXT


def test_bounds() -> None:
    assert f"{scenarios.FILE_BYTES_MAX >> 20} MiB and {scenarios.EVENTS_MAX:,} events" in TEXT


def test_example_is_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(TEXT.partition("```toml\n")[2].partition("```")[0])
    assert [str(event.__struct_config__.tag) for event in scenarios.load(path, 4).events] == [
        "throttle",
        "xid",
        "vanish",
    ]
