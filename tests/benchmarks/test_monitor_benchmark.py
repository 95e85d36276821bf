"""What is measured of the node monitor: a small run comes to its end, with all GPUs held and told."""

from __future__ import annotations

from benchmarks import monitor


async def test_a_short_run_gives_every_figure_with_its_limits() -> None:
    measured = await monitor._measure(0.0, 6.0)
    figures = {figure.name: figure for figure in measured.figures}
    assert figures["memory (PSS), monitor and child"].limit == 120
    assert figures["processor, monitor and child"].limit == 2
    assert figures["memory (PSS), monitor"].value > figures["memory (PSS), child"].value > 1
    assert figures["messages"].value >= 1
    assert figures["size of a message"].value > 0
