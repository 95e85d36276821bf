"""Every queue that docs/ lists has a bound, a word on what happens when it is full, and a test that exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 4
PYTHON_TEST = re.compile(r"`(?:tests/)?([\w/]+\.py)::(?:\w+::)?(test_\w+)`")
JAVA_TEST = re.compile(r"`(\w+Test)(?:\.|#|::)(\w+)`")


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the tables whose first column is `queue`."""
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            inside = False
        elif cells[0].lower() == "queue":
            inside = True
        elif inside and not set("".join(cells)) <= set("-: "):
            yield cells


def functions(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text())) if path.is_file() else []
    return {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def has_java_test(name: str, method: str) -> bool:
    sources = (ROOT / "rm-shim" / "src" / "test").rglob(f"{name}.java")
    return any(re.search(rf"\bvoid {method}\(", source.read_text()) for source in sources)


def faults(row: list[str]) -> list[str]:
    """Say what is wrong with a row; nothing where it is right."""
    if len(row) != COLUMNS or not all(row):
        return [f"{row}: a row has queue, bound, what happens when it is full, and test"]
    python, java = PYTHON_TEST.findall(row[3]), JAVA_TEST.findall(row[3])
    missing = [f"{path}::{test}" for path, test in python if test not in functions(ROOT / "tests" / path)]
    missing += [f"{name}.{method}" for name, method in java if not has_java_test(name, method)]
    if not python and not java:
        missing = ["its cell names none, as `room/test_file.py::test_name` or `SomeTest.method`"]
    return [f"{row[0]}: no such test: {test}" for test in missing]


def documents() -> list[Path]:
    return sorted(path for path in (ROOT / "docs").rglob("*.md") if any(rows(path.read_text())))


def test_queues_are_documented() -> None:
    assert documents()


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_every_queue_has_a_bound_and_a_test(path: Path) -> None:
    assert [fault for row in rows(path.read_text()) for fault in faults(row)] == []


TABLE = "| queue | bound | when it is full | test |\n|---|---|---|---|\n"


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("| asks | 8 | refused | `project/test_queue_table.py::test_queues_are_documented` |", None),
        ("| asks | 8 | refused | `project/test_queue_table.py::test_gone` |", "no such test"),
        ("| asks | 8 | refused | `project/gone.py::test_gone` |", "no such test"),
        ("| asks | 8 | refused | `GoneTest.gone` |", "no such test"),
        ("| asks | 8 | refused | by hand |", "its cell names none"),
        ("| asks | | refused | `project/test_queue_table.py::test_queues_are_documented` |", "a row has"),
        ("| asks | 8 | refused |", "a row has"),
    ],
)
def test_row_without_bound_or_test_is_found(row: str, fault: str | None) -> None:
    (cells,) = rows(f"words\n\n{TABLE}{row}\n\n| other | table |\n")
    found = faults(cells)
    assert bool(found) == (fault is not None)
    assert all(fault in text for text in found if fault)


def queues_without_a_bound(source: str) -> Iterator[int]:
    """Yield the lines that make a `Queue()` of the standard library without a size, or one that has no bound."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            made = node.func.attr
            sized = bool(node.args) or any(keyword.arg == "maxsize" for keyword in node.keywords)
            if made == "SimpleQueue" or (made in {"Queue", "LifoQueue", "PriorityQueue"} and not sized):
                yield node.lineno


def test_no_queue_of_the_standard_library_is_unbounded() -> None:
    sources = (ROOT / "yarn_gpu_sched").rglob("*.py")
    places = {str(path.relative_to(ROOT)): list(queues_without_a_bound(path.read_text())) for path in sources}
    assert {path: lines for path, lines in places.items() if lines} == {}


def test_unbounded_queue_is_found() -> None:
    assert list(queues_without_a_bound("a = queue.Queue(8)\nb = asyncio.Queue()\nc = queue.SimpleQueue()\n")) == [2, 3]
