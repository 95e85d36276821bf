"""Who somebody is: a role and a name, as a certificate says them in one URI, ``ygs://ROLE/NAME``."""

import enum
import re

import msgspec

SCHEME = "ygs"
NAME_CHARACTERS_MAX = 253
_URI = re.compile(rf"{SCHEME}://([^/]*)/(.*)", re.DOTALL)
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._@-]{{0,{NAME_CHARACTERS_MAX - 1}}}")


class Role(enum.Enum):
    """What somebody is to the service."""

    RESOURCE_MANAGER = "resource-manager"
    MONITOR = "monitor"
    OPERATOR = "operator"
    READER = "reader"
    SUBMITTER = "submitter"
    SERVICE = "service"


class BadIdentity(ValueError):  # noqa: N818 - a name that says what is wrong
    """A text or a certificate names nobody; the text says in one sentence what would be right."""


class Identity(msgspec.Struct, frozen=True):
    """A role and a name. A monitor's name is its server's host, a submitter's the user of its jobs."""

    role: Role
    name: str

    def __str__(self) -> str:
        return f"{self.role.value}/{self.name}"

    @property
    def uri(self) -> str:
        """How a certificate says it."""
        return f"{SCHEME}://{self}"


def parse_role(text: str) -> Role:
    """Read a role; raises `BadIdentity`."""
    try:
        return Role(text)
    except ValueError:
        known = ", ".join(role.value for role in Role)
        raise BadIdentity(f"role {text!a} is not known; known: {known}") from None


def checked_name(text: str) -> str:
    """Return a name that may stand in a certificate; raises `BadIdentity`."""
    if not _NAME.fullmatch(text):
        right = f"1 to {NAME_CHARACTERS_MAX} letters, digits, dots, dashes, underscores or @, beginning with a letter or digit"
        raise BadIdentity(f"name {text[:NAME_CHARACTERS_MAX]!a} must have {right}")
    return text


def parse_uri(text: str) -> Identity:
    """Read ``ygs://ROLE/NAME``; raises `BadIdentity`."""
    found = _URI.fullmatch(text)
    if found is None:
        raise BadIdentity(
            f"URI {text[:NAME_CHARACTERS_MAX]!a} must be {SCHEME}://ROLE/NAME, for example ygs://monitor/gpu-1"
        )
    return Identity(parse_role(found[1]), checked_name(found[2]))
