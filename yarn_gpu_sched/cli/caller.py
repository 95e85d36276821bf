"""Who gives a command, as the service is told: shown with the reason, and not checked."""

from __future__ import annotations

import getpass

CALLER_CHARACTERS_MAX = 128


def caller() -> str:
    """Return the login name; empty if there is none."""
    try:
        return getpass.getuser()[:CALLER_CHARACTERS_MAX]
    except (KeyError, OSError):  # a container's user may have no name
        return ""
