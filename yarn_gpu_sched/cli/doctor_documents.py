"""The document of `ygs doctor --json`."""

from __future__ import annotations

import msgspec


class FoundDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that was found: ``verdict`` is ok, unseen (it could not be looked at), warning or fault; ``do`` may be empty."""

    verdict: str
    sentence: str
    do: str


class ExaminedDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One check, by its name in docs/doctor.md: the worst verdict, and all that was found, the worst first."""

    check: str
    verdict: str
    findings: tuple[FoundDocument, ...]


class DoctorDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs doctor --json`; the counts are of checks."""

    checks: tuple[ExaminedDocument, ...]
    faults: int
    warnings: int
    unseen: int
