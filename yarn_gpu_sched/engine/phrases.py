"""Pieces of sentences: durations, counts, lists."""

from collections.abc import Sequence

from yarn_gpu_sched.model.tag import shown

NAMED_MAX = 3
"""Names in a sentence; of longer lists the first ones and how many there are besides."""

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


def span(seconds: float) -> str:
    """Spell a duration as exactly as somebody who waits wants it: 45 s, 2 min 30 s, 12 min, 5 h 07 min, 3 days."""
    if 0 < seconds < 1:
        return "less than 1 s"
    whole = max(0, round(seconds))
    if whole < 2 * _MINUTE_S:
        return f"{whole} s"
    if whole < 10 * _MINUTE_S:
        return f"{whole // _MINUTE_S} min" + (f" {whole % _MINUTE_S} s" if whole % _MINUTE_S else "")
    if whole < 2 * _HOUR_S:
        return f"{round(whole / _MINUTE_S)} min"
    if whole < 2 * _DAY_S:
        minutes = round(whole / _MINUTE_S)
        return f"{minutes // _MINUTE_S} h {minutes % _MINUTE_S:02} min"
    return f"{round(whole / _DAY_S)} days"


def counted(count: int, noun: str) -> str:
    """Say how many: 1 job, 2 jobs."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int = NAMED_MAX) -> str:
    """Join names by commas and an "and"; of many, the first ones. They may come from anybody."""
    said = [shown(name) for name in names[:most]]
    if len(names) > most:
        said.append(f"{len(names) - most} more")
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"
