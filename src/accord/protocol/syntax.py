"""Small grammars that members of messages must follow: base64, MIME types, header names, URIs."""

import re
from typing import Final

# Compiled when first used, by `re` itself: most servers never look at most of them.
_BASE64: Final = r"[A-Za-z0-9+/]*={0,2}"

_RESTRICTED_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
_TCHARS: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_QUOTED: Final = r'"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[\x20-\x7e])*"'
_MIME_TYPE: Final = (
    rf"{_RESTRICTED_NAME}/{_RESTRICTED_NAME}(?:[ \t]*;[ \t]*{_TCHARS}=(?:{_TCHARS}|{_QUOTED}))*"
)

_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.-]*(?=:)"
_USER: Final = r"[A-Za-z0-9._~!$&'()*+,;=:%-]"
_IN_PATH: Final = r"[A-Za-z0-9._~!$&'()*+,;=:@%/-]"
_AFTER_PATH: Final = r"[A-Za-z0-9._~!$&'()*+,;=:@%/?-]"
_URI: Final = (
    rf"[A-Za-z][A-Za-z0-9+.-]*:"
    rf"(?://(?:{_USER}*@)?(?:\[[0-9A-Za-z:._~!$&'()*+,;=-]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?"
    rf"(?=[/?#]|\Z)|(?!//))"
    rf"{_IN_PATH}*(?:\?{_AFTER_PATH}*)?(?:\#{_AFTER_PATH}*)?"
)
_BAD_ESCAPE: Final = r"%(?![0-9A-Fa-f]{2})"


def is_base64(text: str) -> bool:
    """Return whether text is base64 of RFC 4648 section 4, padded and without line breaks.

    >>> is_base64("aGk="), is_base64("aGk"), is_base64("aG-_")
    (True, False, False)
    """
    return len(text) % 4 == 0 and re.fullmatch(_BASE64, text) is not None


def is_mime_type(text: str) -> bool:
    """Return whether text is a media type of RFC 6838, with or without parameters.

    >>> is_mime_type("text/plain;charset=utf-8"), is_mime_type("text"), is_mime_type("image/*")
    (True, False, False)
    """
    return re.fullmatch(_MIME_TYPE, text) is not None


def is_http_token(text: str) -> bool:
    """Return whether text is a token of RFC 9110, as the name of a header must be.

    >>> is_http_token("Region"), is_http_token("two words"), is_http_token("")
    (True, False, False)
    """
    return re.fullmatch(_TCHARS, text) is not None


def scheme_of(text: str) -> str | None:
    """Return the scheme with which a URI begins, in lower case; None where it has none.

    >>> scheme_of("Note://a"), scheme_of("/a:b"), scheme_of("1st:a")
    ('note', None, None)
    """
    found = re.match(_SCHEME, text)
    return found[0].lower() if found else None


def is_uri(text: str) -> bool:
    """Return whether text is a URI of RFC 3986: a scheme, then only what may stand there.

    >>> is_uri("note://a/b?c#d"), is_uri("a/b"), is_uri("note://a b"), is_uri("note:%zz")
    (True, False, False, False)
    """
    return re.fullmatch(_URI, text) is not None and re.search(_BAD_ESCAPE, text) is None
