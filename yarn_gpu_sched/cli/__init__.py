"""`ygs`, the one command line.

It holds no logic: each command asks a room below and prints the answer, for people or, with `--json`, for programs.
What comes from outside passes `text.clean` before it reaches the terminal.
"""

from yarn_gpu_sched.cli.command_line import main, ygs

__all__ = ["main", "ygs"]
