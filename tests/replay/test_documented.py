"""docs/replay.md: its example runs and prints what it says; what it says of formats, policies and bounds is so."""

import re
from pathlib import Path

import pytest

from tests.replay.traces import TRACES
from yarn_gpu_sched.policy import POLICIES, Las, Tiresias
from yarn_gpu_sched.replay import source, trace
from yarn_gpu_sched.replay.csv_traces import HELIOS_COLUMNS, JOB_COLUMNS, JOB_STYLES, OPENB_COLUMNS
from yarn_gpu_sched.replay.results import FILES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")


def test_the_example_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    found = re.search(r"```python\n(.*?)```.*?```\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    example, printed = found.groups()
    for _ in range(2):  # whoever tries it changes something and runs it again
        exec(compile(example, "docs/replay.md", "exec"), {"__name__": "example"})  # noqa: S102 - it is the project's own
        assert capsys.readouterr().out == printed
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["fewest_gpus_first", "fifo", "sjf"]


def test_every_column_of_a_format_is_named() -> None:
    columns = {*JOB_COLUMNS, *JOB_STYLES, *JOB_STYLES.values(), *HELIOS_COLUMNS, *OPENB_COLUMNS}
    assert {column for column in columns if f"`{column}`" not in TEXT} == set()


def test_every_policy_has_its_row_with_its_thresholds() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*)$", TEXT, re.MULTILINE))
    assert set(POLICIES) <= rows.keys()
    assert f"{Las.step_gpu_s:,.0f} GPU-seconds" in rows["las"]
    assert f"{Tiresias.step_gpu_s:,.0f} GPU-seconds" in rows["tiresias"]


def test_bounds_are_those_of_the_code() -> None:
    assert f"{source.BYTES_MAX // 1024**3} GiB unpacked" in TEXT
    assert f"{source.LINES_MAX // 10**6} million lines of {source.LINE_BYTES_MAX // 1024} KiB" in TEXT
    assert f"{trace.JOBS_MAX:,} jobs, {trace.BAD_ROWS_MAX:,} bad rows" in TEXT
    assert f"the first {trace.BAD_ROWS_LISTED_MAX} listed" in TEXT


def test_every_file_of_results_has_its_row() -> None:
    assert set(FILES) <= set(re.findall(r"^\| `([\w.]+)` \|", TEXT, re.MULTILINE))


def test_every_carried_trace_has_its_licence_and_source() -> None:
    told = (TRACES / "README.md").read_text(encoding="utf-8")
    for path in TRACES.rglob("*.csv*"):
        name = path.relative_to(TRACES).as_posix().replace(path.name, re.sub(r"cluster\d\d", "cluster", path.name))
        assert name.replace("cluster", "cluster{01,03,05,06,10}") in told, name
    for licence in ("CC-BY-4.0.txt", "itp/LICENSE", "openb/LICENSE"):
        assert licence in told
        assert len((TRACES / licence).read_text(encoding="utf-8")) > 1_000
