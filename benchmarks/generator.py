"""The load generator: simulated servers and masters, a Java program in `load/`, built here when its sources changed.

It speaks Hadoop's own RPC to a real ResourceManager, and reports one JSON object a line. Its exit codes: 0 ran, and
what must hold held; 1 it did not hold; 2 wrong options; 3 the run itself failed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from yarn_gpu_sched.embedded import fetch_jars
from yarn_gpu_sched.embedded.java import java_command

LOAD = Path(__file__).parent / "load"
MAIN_CLASS = "io.github.yarn_gpu_sched.load.Main"
HELD, BROKEN, USAGE, FAILED = range(4)
_JAVAC_S_MAX = 300
_FLAGS = (
    "-Xmx2g",
    "-Xss256k",  # a connection is two threads of Hadoop's client, and there are thousands
    "-XX:+UseParallelGC",
    "-XX:-UsePerfData",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
_LOG4J = """\
log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""


@dataclass(frozen=True, slots=True)
class Run:
    """How a run of the generator went: its exit code, its events in order, and what it complained of."""

    exit_code: int
    events: tuple[dict[str, Any], ...]
    complaints: str

    def event(self, name: str) -> dict[str, Any]:
        """Return the last event of that name; raises LookupError, with the complaints, if there is none."""
        found = [event for event in self.events if event["event"] == name]
        if not found:
            raise LookupError(f"no event {name!r}, exit code {self.exit_code}: {self.complaints[-4000:]}")
        return found[-1]


def build() -> Path:
    """Compile the generator if its sources changed; returns the folder of its classes.

    Raises RuntimeError with the compiler's messages. Two builds at once wait for each other.
    """
    sources = sorted((LOAD / "src").rglob("*.java"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    target = LOAD / "target"
    target.mkdir(exist_ok=True)
    classes = target / "classes"
    stamp = classes / "sources.sha256"
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.is_file() and stamp.read_text() == digest:
            return classes
        shutil.rmtree(classes, ignore_errors=True)
        classes.mkdir()
        compile_java(sources, classes)
        (classes / "log4j.properties").write_text(_LOG4J)
        stamp.write_text(digest)
    return classes


def compile_java(sources: Iterable[Path], classes: Path, *more: Path) -> None:
    """Compile for a folder, with Hadoop's jars and more on the class path; raises RuntimeError with what javac says."""
    javac = str(Path(java_command()).resolve().with_name("javac"))
    lint = "-Xlint:all,-classfile,-path,-processing"  # the three that speak of Hadoop's jars, not of ours
    path = ":".join([_hadoop(), *map(str, more)])
    argv = [javac, "--release", "17", lint, "-Werror", "-proc:none", "-cp", path, "-d", str(classes)]
    done = subprocess.run(
        [*argv, *map(str, sources)], check=False, timeout=_JAVAC_S_MAX, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{javac} says:\n{done.stderr}")


def _hadoop() -> str:
    return f"{fetch_jars().folder}/lib/*"


def command(conf: Path, scenario: str, **options: str | int) -> list[str]:
    """Return the command line for a scenario; `conf` is a folder with the cluster's yarn-site.xml and neighbours.

    Options are the generator's own, with `_` for `-`: `gangs=500` is `--gangs 500`.
    """
    # Ours goes first: its log4j.properties keeps Hadoop's client quiet.
    path = f"{build()}:{conf}:{_hadoop()}"
    given = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    return [java_command(), *_FLAGS, "-cp", path, MAIN_CLASS, scenario, *given]


def run(conf: Path, scenario: str, *, timeout_s: float = 900.0, **options: str | int) -> Run:
    """Run a scenario to its end, whatever its exit code; raises TimeoutExpired after `timeout_s`, having ended it."""
    done = subprocess.run(
        command(conf, scenario, **options),
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout_s,
    )
    return Run(done.returncode, tuple(map(json.loads, done.stdout.splitlines())), done.stderr)


class Held:
    """A scenario that goes on until it is told to end: `with Held(conf, "hold", …) as held: held.wait("holding")`."""

    def __init__(self, conf: Path, scenario: str, **options: str | int) -> None:
        self._command = command(conf, scenario, **options)
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by __exit__
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        process = self._running()
        try:
            process.communicate(timeout=120)  # closes its standard input, at which it ends
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        self._errors.close()

    def wait(self, event: str) -> dict[str, Any]:
        """Return the next event of that name; raises LookupError if the generator ends without it."""
        output = self._running().stdout
        assert output is not None
        for line in output:
            found: dict[str, Any] = json.loads(line)
            if found["event"] == event:
                return found
        self._errors.seek(0)
        raise LookupError(f"the generator ended without {event!r}: {self._errors.read()[-4000:]}")

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        given = self._running().stdin
        assert given is not None
        given.write(f"{line}\n")
        given.flush()

    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "used outside its with block"
        return self._process
