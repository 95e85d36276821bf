"""What the archive needs beyond the rest of the product."""

from importlib.util import find_spec

NEEDED = ("hdfs", "pyarrow", "requests")


class MissingExtraError(RuntimeError):
    """Packages that the archive needs are not installed; the text names them and what would install them."""


def need_extra() -> None:
    """Raise `MissingExtraError` if the archive cannot be used here."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the archive needs {', '.join(missing)}, not installed here; `pip install 'yarn-gpu-sched[archive]'` would be right"
        )
