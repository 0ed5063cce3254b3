"""Texts in double quotes, as TOML and YAML write them; invisible characters are escaped."""

from collections.abc import Mapping

from accord_tools.hosts.definition import HostsError


def quote_text(text: str, escapes: Mapping[str, str], language: str) -> str:
    """Return a text in double quotes.

    Args:
        text: any text.
        escapes: how some characters are written.
        language: named in errors.

    Raises:
        HostsError: it has half of a surrogate pair, which the language cannot express.
    """
    return f'"{"".join(_escape(each, escapes, language) for each in text)}"'


def _escape(sign: str, escapes: Mapping[str, str], language: str) -> str:
    if sign in escapes:
        return escapes[sign]
    if sign.isprintable():
        return sign
    code = ord(sign)
    if 0xD800 <= code <= 0xDFFF:
        raise HostsError(
            f"the character U+{code:04X} is half of a pair, which {language} cannot express"
        )
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
