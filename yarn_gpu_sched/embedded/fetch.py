"""Fetch the jars of one Hadoop version: `python -m yarn_gpu_sched.embedded.fetch 3.4.2`.

Quick when they are there; two at once are safe. The exit code is 0 when they are there afterwards, else 1.
"""

from __future__ import annotations

import argparse
import sys

from yarn_gpu_sched.embedded.errors import ClusterError
from yarn_gpu_sched.embedded.jars import DEFAULT_HADOOP, fetch_jars


def main() -> int:
    """Fetch the version named on the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m yarn_gpu_sched.embedded.fetch")
    parser.add_argument("version", nargs="?", default=DEFAULT_HADOOP, help="%(default)s if not given")
    arguments = parser.parse_args()
    try:
        jars = fetch_jars(arguments.version)
    except ClusterError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{len(jars.lib)} jars of Hadoop {jars.version} in {jars.folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
