#!/usr/bin/env python3
"""Check the shim's jar and its sources: `gate.py JAR`. Exit code 1 and one line a fault, or 0 and one line of numbers.

The jar lies on the ResourceManager's flat class path: whatever it holds beside our own packages could shadow Hadoop's.
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN = "io/github/yarn_gpu_sched/"
IN_HADOOP = "org/apache/hadoop/yarn/server/resourcemanager/scheduler/capacity/"
META = re.compile(r"META-INF/(MANIFEST\.MF|LICENSE|NOTICE|services/io\.github\.yarn_gpu_sched\.shaded\.[\w.$]+)")
UNRELOCATED = re.compile(rb"(?<![\w/.$])L?(?:io/grpc|io/netty|io/perfmark|com/google)/[\w/$]+")
CLASS_VERSION_MAX = 55  # Java 11
NOT_CODE = re.compile(r"\s*(?:$|//|/\*|\*|package |import )")
CODE_LINES_MAX = 1440
FILE_LINES_MAX = 300
SOURCES = Path(__file__).resolve().parent / "src" / "main" / "java"


def allowed_classes() -> set[str]:
    """Name the top-level classes that our sources put into Hadoop's package."""
    return {path.stem for path in (SOURCES / IN_HADOOP).glob("*.java")}


def entry_faults(name: str, ours: set[str]) -> Iterator[str]:
    """Yield a fault if an entry is none of those that may be in the jar."""
    if name.startswith(IN_HADOOP):
        top = name.removeprefix(IN_HADOOP).removesuffix(".class").split("$")[0]
        if top not in ours or not name.endswith(".class"):
            yield f"{name}: not made from a source of ours"
    elif not (name.startswith(OWN) and name.endswith(".class")) and not META.fullmatch(name):
        yield f"{name}: not allowed"


def class_faults(name: str, content: bytes) -> Iterator[str]:
    """Yield a fault for a class that Java 11 can't load or that names a package which is not relocated."""
    version = int.from_bytes(content[6:8], "big")
    if content[:4] != b"\xca\xfe\xba\xbe" or version > CLASS_VERSION_MAX:
        yield f"{name}: class version {version}, at most {CLASS_VERSION_MAX} would be right"
    found = UNRELOCATED.search(content)
    if found:
        yield f"{name}: refers to {found.group().decode()}, which is not relocated"


def service_faults(name: str, content: str, names: set[str]) -> Iterator[str]:
    """Yield a fault for each service implementation that is not in the jar."""
    for line in content.splitlines():
        implementation = line.split("#")[0].strip()
        if implementation and implementation.replace(".", "/") + ".class" not in names:
            yield f"{name}: {implementation} is not in the jar"


def jar_faults(jar: zipfile.ZipFile) -> Iterator[str]:
    """Yield every fault of the jar."""
    listed = [entry.filename for entry in jar.infolist() if not entry.is_dir()]
    names, ours = set(listed), allowed_classes()
    if len(names) != len(listed):
        yield f"{len(listed) - len(names)} entries are there twice"
    for name in listed:
        yield from entry_faults(name, ours)
        if name.endswith(".class"):
            yield from class_faults(name, jar.read(name))
        if name.startswith("META-INF/services/"):
            yield from service_faults(name, jar.read(name).decode(), names)


def code_lines(sources: dict[str, list[str]]) -> int:
    """Count the lines that are neither blank, comment, package nor import."""
    return sum(not NOT_CODE.match(line) for lines in sources.values() for line in lines)


def source_faults(sources: dict[str, list[str]]) -> Iterator[str]:
    """Yield a fault for each bound on the sources' size that is broken."""
    if code_lines(sources) >= CODE_LINES_MAX:
        yield f"{code_lines(sources)} lines of code, fewer than {CODE_LINES_MAX} would be right"
    for name, lines in sources.items():
        if len(lines) > FILE_LINES_MAX:
            yield f"{name}: {len(lines)} lines, at most {FILE_LINES_MAX} would be right"


def main() -> int:
    """Run the gate over the jar that the command line names."""
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program and its one argument
        print("usage: gate.py JAR", file=sys.stderr)
        return 2
    sources = {path.name: path.read_text().splitlines() for path in sorted(SOURCES.rglob("*.java"))}
    with zipfile.ZipFile(sys.argv[1]) as jar:
        faults = [*jar_faults(jar), *source_faults(sources)]
        entries = len(jar.namelist())
    for fault in faults:
        print(fault, file=sys.stderr)
    size = f"{sum(map(len, sources.values()))} lines of source, {code_lines(sources)} of them code, in {len(sources)} files"
    print(f"{sys.argv[1]}: {entries} entries; {size}; {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
