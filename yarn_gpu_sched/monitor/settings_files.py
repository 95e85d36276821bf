"""Where settings come from: flags over environment (``YGS_MONITOR_…``) over a TOML file over defaults.

Whatever is wrong is named with file or variable or flag, key, value and what would be right, all of it at once.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pydantic
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, TomlConfigSettingsSource

from yarn_gpu_sched.monitor.settings import ENVIRONMENT_PREFIX, Settings
from yarn_gpu_sched.protocol.bad_field import shown

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

FILE_BYTES_MAX = 1 << 20


class Problem(msgspec.Struct, frozen=True):
    """A setting that cannot be used; ``place`` is a file with its line, a variable or a flag."""

    place: str
    key: str
    value: str
    right: str

    def __str__(self) -> str:
        what = f"{self.key} = {self.value}" if self.key else self.value
        return ": ".join(part for part in (self.place, what, self.right) if part)


class BadSettings(ValueError):  # noqa: N818 - a name that says what is wrong
    """Settings cannot be used; ``problems`` has all that is wrong with them."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))


def load_settings(path: Path | None = None, **flags: object) -> Settings:
    """Load settings: flags (None: not given) over environment over file over defaults. Raises `BadSettings`."""
    given = {key: value for key, value in flags.items() if value is not None}
    text = _read(path) if path is not None else ""
    try:
        return _layered(path)(**given)  # type: ignore[arg-type] # checked by pydantic
    except pydantic.ValidationError as error:
        raise BadSettings([_problem(detail, path, text, given) for detail in error.errors()]) from None


def _layered(path: Path | None) -> type[Settings]:
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
            return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, path)

    return Layered


def _read(path: Path) -> str:
    """Read a file that is TOML; `BadSettings` if it is not."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise BadSettings([Problem(str(path), "", "too large", f"must have at most {FILE_BYTES_MAX} bytes")])
        text = content.decode()
        tomllib.loads(text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadSettings([Problem(str(path), "", reason, "must be a file that can be read")]) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSettings([Problem(str(path), "", shown(str(error)), "must be TOML in UTF-8")]) from None
    return text


def _problem(detail: ErrorDetails, path: Path | None, text: str, flags: dict[str, object]) -> Problem:
    message = str(detail.get("ctx", {}).get("error", detail["msg"]))
    key = (
        str(detail["loc"][0])
        if detail["loc"]
        else next(word for word in message.split() if word in Settings.model_fields)
    )
    value = shown(detail["input"]) if detail["loc"] else ""
    return Problem(*_place(key, path, text, flags), value or shown(flags.get(key, "")), _right(key, detail, message))


def _place(key: str, path: Path | None, text: str, flags: dict[str, object]) -> tuple[str, str]:
    variable = ENVIRONMENT_PREFIX + key.upper()
    if key in flags:
        return "command line", "--" + key.replace("_", "-")
    if variable in {name.upper() for name in os.environ}:
        return "environment", variable
    if path is None:
        return "defaults", key
    lines = enumerate(text.splitlines(), 1)
    line = next((number for number, line in lines if re.match(rf"""\s*\[?["']?{re.escape(key)}\b""", line)), 0)
    return f"{path}:{line}" if line else str(path), key


def _right(key: str, detail: ErrorDetails, message: str) -> str:
    field = Settings.model_fields.get(key)
    if field is None:
        return "is not a setting; known: " + ", ".join(sorted(Settings.model_fields))
    if detail["type"] == "value_error":
        return message
    extra: Any = field.json_schema_extra
    return f"must be {extra['right']}"
