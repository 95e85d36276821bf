"""What all tests share: how the processes that they start take signals, and on which Hadoop those of real clusters run."""

from __future__ import annotations

import signal

import pytest

from yarn_gpu_sched.embedded import known_versions

# A test run that a script has put in the background ignores SIGINT, and so would all that it starts; tests that interrupt
# their own processes would wait for ever. A handler of our own becomes the default in whatever is started.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tests of tests/real run on any version that is pinned, or all of them on both lines."""
    versions = [*known_versions(), "both"]
    parser.addoption(
        "--hadoop",
        choices=versions,
        help="Hadoop of tests/real; without it 3.4, and for tests marked `both` 3.5 as well",
    )
