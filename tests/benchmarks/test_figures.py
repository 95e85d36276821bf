"""Figures, their limits and the JSON that `make bench` writes; what needs no ResourceManager."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks.arena import topology
from benchmarks.figures import Figure, Measured


@pytest.mark.parametrize(
    ("value", "limit", "at_least", "held"),
    [
        (10.0, 10.0, False, True),
        (10.1, 10.0, False, False),
        (3000.0, 3000.0, True, True),
        (2999.9, 3000.0, True, False),
        (float("nan"), 10.0, False, False),
        (1e9, None, False, True),
    ],
)
def test_a_limit_includes_itself(value: float, limit: float | None, at_least: bool, held: bool) -> None:  # noqa: FBT001 - a table's column
    assert Figure("f", value, "ms", limit, at_least=at_least).held is held


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("benchmarks.decisions")
    monkeypatch.setitem(sys.modules, "benchmarks.decisions", module)
    return module


@pytest.mark.parametrize(("value", "code"), [(5.0, 0), (50.0, 1)])
def test_every_figure_is_written_with_its_limit(
    benchmark: types.ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], value: float, code: int
) -> None:
    figures = (Figure("quick", value, "ms", 10.0, note="n"), Figure("told", 1.0, "MiB"))
    benchmark.measure = lambda: Measured(figures, {"rounds": 3})  # type: ignore[attr-defined] # a module made here
    assert bench.main(["--out", str(tmp_path), "decisions"]) == code
    written = json.loads((tmp_path / "decisions.json").read_text())
    assert written["configuration"] == {"rounds": 3}
    assert written["machine_before"]["cores"] >= 1
    assert written["figures"][0] == {
        "name": "quick",
        "value": value,
        "unit": "ms",
        "limit": 10.0,
        "limit_is": "most",
        "held": code == 0,
        "note": "n",
    }
    assert written["figures"][1]["limit"] is None
    assert ("MISSED" in capsys.readouterr().out) is (code == 1)


def test_an_unknown_benchmark_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bench.main(["--out", str(tmp_path), "decision"])
    assert ended.value.code == 2
    assert "decision: no such benchmark" in capsys.readouterr().err


def test_simulated_servers_are_spread_over_racks_of_64() -> None:
    lines = [line.split("\t") for line in topology(600).splitlines()]
    assert lines[0] == ["127.1.0.1", "/rack-0"]
    assert lines[63][1] == "/rack-0"
    assert lines[64][1] == "/rack-1"
    assert lines[250] == ["127.1.1.1", "/rack-3"]
    assert len({address for address, _ in lines}) == 600
