"""Count the lint and type ignores; each needs its reason beside it, on the same line.

`x()  # noqa: S310 - the address is loopback`, `y  # type: ignore[misc]  # the stub lacks it`,
`@SuppressWarnings("rawtypes") // Hadoop's own signature`. A rule switched off in pyproject.toml has its reason as a
comment on its line. Prints the number of each kind and fails where a reason is missing.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REASON_LETTERS_MIN = 8
SKIPPED = ("yarn_gpu_sched/protocol/v1/", "tests/vendored/", "tools/ignores.py", "tests/project/test_ignores.py")
CODES = r"[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*"

# Kind, file suffixes, what it looks like; the reason is what stands behind it.
KINDS = (
    ("ruff", (".py", ".pyi"), re.compile(rf"#\s*(?:ruff:\s*)?noqa(?::\s*(?:{CODES})?)?", re.IGNORECASE)),
    ("mypy", (".py", ".pyi"), re.compile(r"#\s*type:\s*ignore(?:\[[^\]]*\])?|#\s*mypy:\s*[\w-]+")),
    ("format", (".py", ".pyi"), re.compile(r"#\s*fmt:\s*(?:off|skip)")),
    ("javac", (".java",), re.compile(r"@SuppressWarnings\((?:\{[^}]*\}|[^)]*)\)")),
    ("buf", (".proto",), re.compile(r"//\s*buf:lint:ignore\s+\w+")),
    ("shellcheck", (".sh",), re.compile(r"#\s*shellcheck disable=[\w,]+")),
)
SWITCHED_OFF = re.compile(r'^\s+"[A-Z]+[0-9]*",')


@dataclass(frozen=True, slots=True)
class Ignore:
    """One place where a check is switched off."""

    kind: str
    place: str
    reason: str

    @property
    def reasoned(self) -> bool:
        """Whether a reason stands beside it: some words, not a mark alone."""
        return sum(letter.isalpha() for letter in self.reason) >= REASON_LETTERS_MIN


def tracked_files() -> list[str]:
    """Return the files that git tracks or would track, without generated and vendored ones."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return sorted({name for name in listed if not name.startswith(SKIPPED)})


def in_source(name: str, text: str) -> Iterator[Ignore]:
    """Yield the ignores of one source file. Two on one line share the reason behind the last of them."""
    suffix = Path(name).suffix
    patterns = [(kind, pattern) for kind, suffixes, pattern in KINDS if suffix in suffixes]
    for number, line in enumerate(text.splitlines(), start=1):
        found = [(kind, match.end()) for kind, pattern in patterns for match in pattern.finditer(line)]
        for kind, _ in found:
            yield Ignore(kind, f"{name}:{number}", line[max(end for _, end in found) :])


def in_settings(name: str, text: str) -> Iterator[Ignore]:
    """Yield the rules that the tools' settings switch off; the reason is the comment on their line."""
    for number, line in enumerate(text.splitlines(), start=1):
        if SWITCHED_OFF.match(line):
            yield Ignore("settings", f"{name}:{number}", line.partition("#")[2])


def collect() -> list[Ignore]:
    """Return every ignore of the project."""
    found: list[Ignore] = []
    for name in tracked_files():
        path = ROOT / name
        if name == "pyproject.toml":
            found += in_settings(name, path.read_text())
        elif path.is_file() and path.suffix in {suffix for _, suffixes, _ in KINDS for suffix in suffixes}:
            found += in_source(name, path.read_text())
    return found


def main() -> int:
    """Run from the command line."""
    found = collect()
    counted = Counter(ignore.kind for ignore in found)
    print(f"ignores: {len(found)} (" + ", ".join(f"{kind} {count}" for kind, count in sorted(counted.items())) + ")")
    unreasoned = [ignore for ignore in found if not ignore.reasoned]
    for ignore in unreasoned:
        print(f"{ignore.place}: {ignore.kind} ignore without a reason beside it")
    return 1 if unreasoned else 0


if __name__ == "__main__":
    sys.exit(main())
