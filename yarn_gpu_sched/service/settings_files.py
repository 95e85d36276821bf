"""Where settings come from: flags over environment (``YGS_…``) over a TOML file over defaults.

Whatever is wrong is named with file, line, key, value and what would be right, all of it at once.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pydantic
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    TomlConfigSettingsSource,
)

from yarn_gpu_sched.protocol.bad_field import shown
from yarn_gpu_sched.service.settings import ENVIRONMENT_PREFIX, Settings

FILE_BYTES_MAX = 1 << 20
_LINE = re.compile(r"\(at line (\d+)")


class Problem(msgspec.Struct, frozen=True):
    """A setting that cannot be used.

    ``file`` is a path, ``environment`` or ``command line``; ``line`` is 0 where there are none.
    """

    file: str
    line: int
    key: str
    value: str
    right: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        what = f"{self.key} = {self.value}" if self.key else self.value
        return f"{where}: {what}: {self.right}"


class BadSettings(ValueError):  # noqa: N818 - a name that says what is wrong
    """Settings cannot be used; ``problems`` has all that is wrong with them."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))


def load_settings(path: str | Path | None = None, **flags: object) -> Settings:
    """Load settings: flags (None: not given) over environment over file over defaults.

    Raises `BadSettings`.
    """
    given = {key: value for key, value in flags.items() if value is not None}
    text = ""
    if path is not None:
        text = _read(path)
    try:
        return _layered(path)(**given)  # type: ignore[arg-type] # checked by pydantic
    except pydantic.ValidationError as error:
        sources = _Sources(str(path or ""), text, given)
        raise BadSettings([sources.problem(detail) for detail in error.errors()]) from None


def check_config(path: str | Path) -> list[Problem]:
    """Check a file by itself, whatever the environment says. Nothing wrong: an empty list."""
    try:
        text = _read(path)
        Settings.model_validate(tomllib.loads(text))
    except BadSettings as bad:
        return bad.problems
    except pydantic.ValidationError as error:
        sources = _Sources(str(path), text, {}, environment={})
        return [sources.problem(detail) for detail in error.errors()]
    return []


def _layered(path: str | Path | None) -> type[Settings]:
    class Layered(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            del dotenv_settings, file_secret_settings
            if path is None:
                return init_settings, env_settings
            file_settings = TomlConfigSettingsSource(settings_cls, Path(path))
            return init_settings, env_settings, file_settings

    return Layered


def _read(path: str | Path) -> str:
    """Read a file that is TOML; `BadSettings` if it is not."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1).decode()
    except OSError as error:
        reason = error.strerror or str(error)
        raise _bad_file(path, 0, reason, "must be a file that can be read") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise _bad_file(path, line, str(error.reason), "must be TOML in UTF-8") from None
    if len(text) > FILE_BYTES_MAX:
        raise _bad_file(path, 0, "too large", f"must have at most {FILE_BYTES_MAX} bytes")
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _LINE.search(str(error))
        line = int(found.group(1)) if found else text.count("\n") + 1
        raise _bad_file(path, line, str(error), "must be TOML") from None
    return text


def _bad_file(path: str | Path, line: int, value: str, right: str) -> BadSettings:
    return BadSettings([Problem(str(path), line, "", value, right)])


class _Sources:
    """Finds out where a bad setting was set."""

    def __init__(
        self,
        path: str,
        text: str,
        flags: Mapping[str, object],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._path = path
        self._lines = text.splitlines()
        self._flags = flags
        self._environment = {name.upper() for name in environment}

    def problem(self, detail: ErrorDetails) -> Problem:
        key = str(detail["loc"][0]) if detail["loc"] else _key_of(detail["msg"])
        value = shown(detail["input"]) if detail["loc"] else ""
        file, line, name = self._place(key)
        return Problem(file, line, name, value, _right(key, detail))

    def _place(self, key: str) -> tuple[str, int, str]:
        variable = ENVIRONMENT_PREFIX + key.upper()
        if key in self._flags:
            return "command line", 0, "--" + key.replace("_", "-")
        if variable in self._environment:
            return "environment", 0, variable
        return self._path, self._line(key), key

    def _line(self, key: str) -> int:
        bare = re.escape(key)
        pattern = re.compile(rf"""\s*(\[+\s*)?["']?{bare}["']?\s*([=.\]]|$)""")
        for number, line in enumerate(self._lines, 1):
            if pattern.match(line):
                return number
        return 0


def _key_of(message: str) -> str:
    return next((word for word in message.split() if word in Settings.model_fields), "")


def _right(key: str, detail: ErrorDetails) -> str:
    message = str(detail.get("ctx", {}).get("error", detail["msg"]))
    field = Settings.model_fields.get(key)
    if field is None:
        return "is not a setting; known: " + ", ".join(sorted(Settings.model_fields))
    if detail["type"] == "value_error":
        return message
    extra: Any = field.json_schema_extra
    return f"must be {extra['right']}"
