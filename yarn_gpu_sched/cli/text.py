"""The one way for text from outside to reach the terminal.

Names, tags, diagnostics and messages come from anybody who may submit a job. Whatever is printed goes through `clean`:
no control character, no direction override and no other invisible character survives it.
"""

import unicodedata

TEXT_CHARACTERS_MAX = 4_096
_WHITE = {"\t", "\n", "\r"}
# Controls (C0, C1, DEL), formats (bidi overrides, zero widths, tags), surrogates, private use, unassigned, line breaks.
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean(text: str, *, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    r"""Return ``text`` as one line of characters that can be seen.

    Tabs and line breaks become spaces, other hidden characters their code (``\x1b``, ``\u202e``); what is longer than
    ``characters_max`` characters is cut.
    """
    cut = text if len(text) <= characters_max else text[: characters_max - 1] + "…"
    return "".join(_visible(character) for character in cut)


def _visible(character: str) -> str:
    if " " <= character <= "~":
        return character
    if character in _WHITE:
        return " "
    if unicodedata.category(character) not in _HIDDEN_CATEGORIES:
        return character
    code = ord(character)
    if code <= 0xFF:  # noqa: PLR2004 - what two hexadecimal digits hold
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - as above, four digits
