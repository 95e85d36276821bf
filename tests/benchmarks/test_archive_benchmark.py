"""What is measured of the archive: a short run comes to its end, with every GPU told of in every minute."""

from __future__ import annotations

from pathlib import Path

from benchmarks import archive


def test_a_short_run_gives_every_figure(tmp_path: Path) -> None:
    figures = {figure.name: figure for figure in archive._Hour(tmp_path, 40, minutes=2).figures()}
    assert figures["rows of telemetry"].value == 2 * 40 * archive.GPUS
    assert figures["processor, of one core"].limit == archive.CPU_PERCENT_MAX
    assert figures["longest hold of the event loop"].value > 0
    assert figures["spool, an hour"].value > 0
