"""Hadoop's configuration files, as a daemon would read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException, ElementTree

from yarn_gpu_sched.doctor.finding import CannotLook

FILE_BYTES_MAX = 16 << 20
_VARIABLE = re.compile(r"\$\{([^}$\s]+)\}")
_EXPANSIONS_MAX = 20
_VALUE_CHARACTERS_MAX = 1 << 20
DEFAULTS = {
    "yarn.resourcemanager.webapp.address": "${yarn.resourcemanager.hostname}:8088",
    "yarn.resourcemanager.hostname": "localhost",
}
"""Hadoop's own, of the keys by which the ResourceManager is found."""


class Settings:
    """Keys with their values, and where they were read."""

    def __init__(self, values: Mapping[str, str], source: str) -> None:
        self._values = values
        self.source = source

    def get(self, key: str, default: str = "") -> str:
        """Return what a key says, `${…}` put in; the default if nobody says it."""
        text = self._values.get(key, default)
        for _ in range(_EXPANSIONS_MAX):
            found = _VARIABLE.search(text)
            if found is None:
                break
            value = self._values.get(found[1], DEFAULTS.get(found[1], ""))
            if len(text) + text.count(found[0]) * len(value) > _VALUE_CHARACTERS_MAX:
                break
            text = text.replace(found[0], value)
        return text.strip()

    def says(self, key: str) -> bool:
        """Whether somebody set this key."""
        return key in self._values

    def on(self, key: str, *, default: bool) -> bool:
        """Return a switch."""
        return self.get(key, str(default)).lower() == "true"


def read_file(path: Path) -> dict[str, str]:
    """Read a file of properties; raises `CannotLook`."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise CannotLook(f"{path} has more than {FILE_BYTES_MAX} bytes")
        root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CannotLook(f"{path}: {error.strerror}") from error
    except (ParseError, DefusedXmlException, UnicodeDecodeError) as error:
        raise CannotLook(f"{path} is no configuration file of Hadoop: {error}") from error
    items = ((item.findtext("name"), item.findtext("value")) for item in root.iter("property"))
    return {name.strip(): value or "" for name, value in items if name}


def read_files(folder: Path, names: Iterable[str]) -> Settings:
    """Read those of the files that are there; raises `CannotLook` if none is, or one cannot be read."""
    present = [folder / f"{name}.xml" for name in names if (folder / f"{name}.xml").exists()]
    if not present:
        raise CannotLook(f"{folder} has none of {', '.join(f'{name}.xml' for name in names)}")
    values: dict[str, str] = {}
    for path in present:
        values |= read_file(path)
    return Settings(values, str(folder))
