"""What `ygs replay` shows: the figures, who waited and why, and what was taken for right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from yarn_gpu_sched.cli.output import duration, table, text
from yarn_gpu_sched.replay import Delays, Summary
from yarn_gpu_sched.replay.summary import EVERY, counted

ROWS_MAX = 20
BAD_ROWS_SHOWN_MAX = 10
SIZES = ("1", "2-4", "5-8", ">8", EVERY)


def print_summary(out: Console, summary: Summary, folder: Path) -> None:
    """Print all of it."""
    servers = f"{counted(summary.servers, 'server')} with {counted(summary.gpus, 'GPU')}"
    jobs = f"{counted(summary.jobs, 'job')} on {servers}"
    out.print(text(f"{summary.trace.name}, {summary.policy}: {jobs}", "bold"))
    out.print(_figures(summary))
    by_size = summary.delays.get(EVERY, {})
    if by_size:
        out.print()
        rows = [(size, by_size[size]) for size in SIZES if size in by_size]
        out.print(_delays("GPUS", rows))
        out.print()
        out.print(_two_way(rows))
    _print_vcs(out, summary)
    _print_list(out, "Taken for right, because the trace does not say it:", summary.assumptions)
    _print_list(out, "To be known of:", list(_remarks(summary)))
    speed = f"{summary.jobs / summary.wall_s:,.0f} jobs a second" if summary.wall_s else "at once"
    out.print()
    out.print(text(f"{summary.events:,} events in {summary.wall_s:,.1f} s, {speed}; results: {folder}"), soft_wrap=True)


def _figures(summary: Summary) -> Table:
    times = {
        "completion time, mean": summary.mean_jct_s,
        "completion time, median": summary.median_jct_s,
        "completion time, 95th percentile": summary.p95_jct_s,
        "completion time, 99th percentile": summary.p99_jct_s,
        "time in queue, mean": summary.mean_queue_s,
        "time in queue, longest": summary.max_queue_s,
        "first submission to last end": summary.makespan_s,
    }
    share = None if summary.held_share is None else 100 * summary.held_share
    none_ended = summary.mean_jct_s is None
    rows = [
        (name, "-", "s") if none_ended or value is None else (name, _number(value, 1), f"s, {duration(value)}")
        for name, value in times.items()
    ]
    rows += [
        ("bounded slowdown, mean", _number(summary.mean_bounded_slowdown, 3), ""),
        ("GPUs held", _number(share, 2), "% of that time"),
        ("GPU time lost by preemptions", _number(summary.lost_gpu_hours, 1), "hours"),
        ("preemptions", f"{summary.preemptions:,}", ""),
        ("jobs refused", f"{summary.refused:,}", ""),
    ]
    cells = [tuple(text(cell) for cell in row) for row in rows]
    return table(("FIGURE", "VALUE", "UNIT"), cells, numbers=("VALUE",), folded=("UNIT",))


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _print_vcs(out: Console, summary: Summary) -> None:
    vcs = [(vc, sizes[EVERY]) for vc, sizes in summary.delays.items() if vc != EVERY]
    if len(vcs) < 2:  # noqa: PLR2004 - one virtual cluster is what the table before shows
        return
    out.print()
    out.print(_delays("VC", vcs[:ROWS_MAX]))
    if len(vcs) > ROWS_MAX:
        out.print(text(f"and {len(vcs) - ROWS_MAX} more, in summary.json"))


def _delays(first: str, rows: list[tuple[str, Delays]]) -> Table:
    """Show mean seconds of an attempt by what it waited for."""
    numbers = ("ATTEMPTS", "DELAYED", "QUEUE s", "FAIR SHARE", "CAPACITY", "FRAGMENTED")
    filled = [_delay_row(name, each) for name, each in rows]
    return table((first, *numbers), filled, numbers=numbers, folded=(first,))


def _delay_row(name: str, each: Delays) -> tuple[Text, ...]:
    causes_s = (each.fair_share_s, each.capacity_s, each.fragmentation_s)
    queued_s = sum(causes_s) + each.other_s
    means = [text(f"{cause_s / max(1, each.attempts):,.1f}") for cause_s in (queued_s, *causes_s)]
    return (text("all" if name == EVERY else name), text(f"{each.attempts:,}"), text(f"{each.delayed:,}"), *means)


def _two_way(rows: list[tuple[str, Delays]]) -> Table:
    """Set fair-share delay against fragmentation delay as Jeon et al. do, who count capacity delay as fair-share delay."""
    numbers = ("FAIR SHARE", "FRAGMENTATION", "OF JOBS", "OF SECONDS")
    filled = [_two_way_row(name, each) for name, each in rows if name not in ("1", EVERY)]
    return table(("GPUS", *numbers), filled, numbers=numbers)


def _two_way_row(name: str, each: Delays) -> tuple[Text, ...]:
    fair_share, fragmentation = each.mostly_fair_share + each.mostly_capacity, each.mostly_fragmentation
    fair_share_s = each.fair_share_s + each.capacity_s
    shares = [
        text(f"{100 * part / (part + rest):.1f} %" if part + rest else "-")
        for part, rest in ((fragmentation, fair_share), (each.fragmentation_s, fair_share_s))
    ]
    return (text(name), text(f"{fair_share:,}"), text(f"{fragmentation:,}"), *shares)


def _print_list(out: Console, title: str, sentences: list[str]) -> None:
    if sentences:
        out.print()
        out.print(text(title, "bold"))
        listed = Table.grid(padding=(0, 1, 0, 0))
        for sentence in sentences:
            listed.add_row(text("-"), text(sentence))
        out.print(listed)


def _remarks(summary: Summary) -> Iterator[str]:
    trace = summary.trace
    yield from summary.warnings
    for reason, count in trace.skipped.items():
        yield f"{counted(count, 'job')} skipped: {reason}"
    for what, count in trace.noted.items():
        yield f"{counted(count, 'job')} {what}"
    if trace.states:
        yield "ended in the trace as " + ", ".join(f"{state} {count:,}" for state, count in trace.states.items())
    if trace.bad_rows_count:
        yield f"{counted(trace.bad_rows_count, 'bad row')} skipped"
        yield from trace.bad_rows[:BAD_ROWS_SHOWN_MAX]
