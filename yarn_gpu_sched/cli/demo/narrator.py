"""Says what happens: what is done now and for how long, and the output of `ygs` commands as it goes."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from yarn_gpu_sched.cli.output import console, duration, text

REPEAT_TERMINAL_S = 1.0
REPEAT_PIPE_S = 10.0
_ERASE_LINE = "\r\x1b[2K"


class Narrator:
    """Prints to standard output; on a terminal the current step's line is kept up to date, elsewhere repeated."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._terminal = sys.stdout.isatty()
        self._detail = ""

    @property
    def elapsed_s(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began_s

    def say(self, sentence: str, style: str = "") -> None:
        """Print a sentence with the time since the beginning."""
        console().print(text(f"[{duration(self.elapsed_s):>5}] {sentence}", style), soft_wrap=True)

    def detail(self, detail: str) -> None:
        """Say more about the step that is going on; shown with its time."""
        self._detail = detail

    def command(self, *arguments: str) -> None:
        """Print a `ygs` command and what it prints."""
        console().print(text(f"$ ygs {shlex.join(arguments)}", "bold cyan"))
        try:
            click.get_current_context().find_root().command.main([*arguments], prog_name="ygs", standalone_mode=False)
        except click.ClickException as error:  # what it shows must not end the show; the claims judge
            error.show()

    @contextmanager
    def step(self, sentence: str) -> Iterator[None]:
        """Announce something that takes a while, and say now and then that it still goes on."""
        self._detail = ""
        began_s, done = time.monotonic(), threading.Event()
        self.say(sentence)
        ticking = threading.Thread(target=self._tick, args=(began_s, done), daemon=True)
        ticking.start()
        try:
            yield
        finally:
            done.set()
            ticking.join()

    def _tick(self, began_s: float, done: threading.Event) -> None:
        pause_s = REPEAT_TERMINAL_S if self._terminal else REPEAT_PIPE_S
        while not done.wait(pause_s):
            line = text(f"        … {duration(time.monotonic() - began_s)} {self._detail}").plain
            if self._terminal:
                sys.stdout.write(f"{_ERASE_LINE}{line[: console().width - 1]}")
            else:
                sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        if self._terminal:
            sys.stdout.write(_ERASE_LINE)
            sys.stdout.flush()
