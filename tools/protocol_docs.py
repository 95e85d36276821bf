"""Generate docs/protocol.md from the protocol's files and their comments: `protocol_docs.py` writes it, `--check` compares."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
TARGET = ROOT / "docs" / "protocol.md"
PACKAGE = ".yarn_gpu_sched.v1."
HEAD = """# The protocol

`yarn_gpu_sched.v1`, generated from `proto/` by `python tools/protocol_docs.py`; do not edit. How to use it from Python:
[client.md](client.md). What the service does with it: [service.md](service.md).

Fields are optional where the table says so; others that are not set have their type's zero. A field that is refused is named in the
error's details (`google.rpc.BadRequest`), with what would be right.
"""
# Numbers of fields in the descriptors of files, messages, services and enums: paths of comments are made of them.
_MESSAGES, _ENUMS, _SERVICES, _FIELDS, _VALUES, _METHODS, _NESTED, _NESTED_ENUMS = 4, 5, 6, 2, 2, 2, 3, 4

Path_ = tuple[int, ...]


class Comments:
    """What stands above each thing of a file."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._by_path = {tuple(one.path): one.leading_comments for one in file.source_code_info.location}

    def of(self, path: Path_) -> str:
        """Return the comment of a thing, as one paragraph."""
        return " ".join(self._by_path.get(path, "").split())


def descriptors() -> list[FileDescriptorProto]:
    """Return the protocol's files with their comments, in order of their names; raises CalledProcessError."""
    sources = sorted((PROTO / "yarn_gpu_sched" / "v1").glob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.binpb"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={PROTO}", "--include_source_info"]
        command += [f"--descriptor_set_out={out}", *(str(source.relative_to(PROTO)) for source in sources)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return list(FileDescriptorSet.FromString(out.read_bytes()).file)


def linked(type_name: str) -> str:
    """Return a type's name, with a link if it is one of ours."""
    if not type_name.startswith(PACKAGE):
        return f"`{type_name.lstrip('.')}`"
    name = type_name.removeprefix(PACKAGE)
    return f"[{name}](#{anchor(name)})"


def anchor(name: str) -> str:
    """Return where a heading of this name is linked to."""
    return re.sub(r"[^a-z0-9_ -]", "", name.lower())


def kind(field: FieldDescriptorProto, maps: dict[str, DescriptorProto]) -> str:
    """Return a field's type as the table shows it."""
    if field.type_name in maps:
        key, value = maps[field.type_name].field
        return f"map of {kind(key, maps)} to {kind(value, maps)}"
    name = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    shown = linked(field.type_name) if field.type_name else f"`{name}`"
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"list of {shown}"
    return f"{shown}, optional" if field.proto3_optional else shown


def cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return text.replace("|", "\\|")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(map(cell, row))} |" for row in rows)
    yield ""


def service_lines(service: ServiceDescriptorProto, path: Path_, comments: Comments) -> Iterator[str]:
    """Yield what is said of a service."""
    yield from (f"## {service.name}", "", comments.of(path), "")
    rows = []
    for number, method in enumerate(service.method):
        asked, answered = linked(method.input_type), linked(method.output_type)
        asked = f"stream of {asked}" if method.client_streaming else asked
        answered = f"stream of {answered}" if method.server_streaming else answered
        rows.append((f"`{method.name}`", asked, answered, comments.of((*path, _METHODS, number))))
    yield from table(("RPC", "takes", "answers", "meaning"), rows)


def message_lines(name: str, message: DescriptorProto, path: Path_, comments: Comments) -> Iterator[str]:
    """Yield what is said of a message, and of what is defined inside it."""
    maps = {f"{PACKAGE}{name}.{one.name}": one for one in message.nested_type if one.options.map_entry}
    yield from (f"### {name}", "", comments.of(path), "")
    rows = []
    for number, field in enumerate(message.field):
        one_of = field.HasField("oneof_index") and not field.proto3_optional
        choice = f", one of `{message.oneof_decl[field.oneof_index].name}`" if one_of else ""
        meaning = comments.of((*path, _FIELDS, number))
        rows.append((f"`{field.name}`", str(field.number), kind(field, maps) + choice, meaning))
    yield from table(("field", "number", "type", "meaning"), rows) if rows else ("It has no fields.", "")
    for number, nested in enumerate(message.nested_type):
        if not nested.options.map_entry:
            yield from message_lines(f"{name}.{nested.name}", nested, (*path, _NESTED, number), comments)
    for number, one in enumerate(message.enum_type):
        yield from enum_lines(f"{name}.{one.name}", one, (*path, _NESTED_ENUMS, number), comments)


def enum_lines(name: str, one: EnumDescriptorProto, path: Path_, comments: Comments) -> Iterator[str]:
    """Yield what is said of an enum."""
    yield from (f"### {name}", "", comments.of(path), "")
    rows = [
        (f"`{value.name}`", str(value.number), comments.of((*path, _VALUES, number)))
        for number, value in enumerate(one.value)
    ]
    yield from table(("value", "number", "meaning"), rows)


def document() -> str:
    """Return the whole page."""
    services: list[str] = []
    types: list[tuple[str, list[str]]] = []
    for file in descriptors():
        comments = Comments(file)
        for number, service in enumerate(file.service):
            services += service_lines(service, (_SERVICES, number), comments)
        for number, message in enumerate(file.message_type):
            types.append((message.name, list(message_lines(message.name, message, (_MESSAGES, number), comments))))
        for number, one in enumerate(file.enum_type):
            types.append((one.name, list(enum_lines(one.name, one, (_ENUMS, number), comments))))
    lines = [*services, "## Messages and enums", "", *(line for _, some in sorted(types) for line in some)]
    return re.sub(r"\n{3,}", "\n\n", HEAD + "\n" + "\n".join(lines).rstrip() + "\n")


def main() -> int:
    """Write the page, or say whether it is as generated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page differs")
    made = document()
    if not parser.parse_args().check:
        TARGET.write_text(made, encoding="utf-8")
        return 0
    same = TARGET.exists() and TARGET.read_text(encoding="utf-8") == made
    print("docs/protocol.md: " + ("as generated" if same else "run python tools/protocol_docs.py"))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
