"""What goes wrong with an embedded cluster, as one type of error."""

from __future__ import annotations

import re
from pathlib import Path


class ClusterError(RuntimeError):
    """The embedded cluster cannot do what was asked; the text says why and what would be right."""


def plain_path(name: str, path: Path) -> Path:
    """Return the path if it can stand in class paths, Hadoop's lists and JAVA_TOOL_OPTIONS, which know no quotes.

    Raises ClusterError naming the characters that cannot.
    """
    strange = sorted(set(re.sub(r"[\w./@+-]", "", str(path))))
    if strange:
        raise ClusterError(f"{name} {str(path)!r} should be without {' '.join(map(repr, strange))}")
    return path
