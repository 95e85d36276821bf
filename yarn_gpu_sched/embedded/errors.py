"""What goes wrong with an embedded cluster, as one type of error."""

from __future__ import annotations


class ClusterError(RuntimeError):
    """The embedded cluster cannot do what was asked; the text says why and what would be right."""
