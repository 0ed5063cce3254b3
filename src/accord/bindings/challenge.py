"""What a server says in WWW-Authenticate: read leniently, since proxies and frameworks write it."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

_WORD: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_PARAM: Final = re.compile(rf'({_WORD})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"=][^\s,"]*))')
_SCHEME: Final = re.compile(rf"({_WORD})(?:\s+|$|(?=,))")
_CREDENTIALS: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*(?=\s*(?:,|$))")
_GAP: Final = re.compile(r"[\s,]*")
# Longer than any that means something, and short enough to read in no time.
_LONGEST: Final = 8 * 1024


class AuthChallenge(msgspec.Struct, frozen=True):
    """One challenge: its scheme and parameters, the names of both in lower case."""

    scheme: str
    params: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes it names."""
        return tuple(dict.fromkeys(self.params.get("scope", "").split()))

    @property
    def error(self) -> str:
        """Its error code, empty where it has none."""
        return self.params.get("error", "")

    @property
    def resource_metadata(self) -> str | None:
        """Where the metadata of the protected resource is."""
        return self.params.get("resource_metadata") or None


def parse_challenges(values: Iterable[str]) -> list[AuthChallenge]:
    """Read the challenges of all WWW-Authenticate headers; unreadable ones are left out."""
    found: list[AuthChallenge] = []
    for value in values:
        found += _parse(value[:_LONGEST])
    return found


def bearer_challenge(values: Iterable[str]) -> AuthChallenge | None:
    """Find the challenge for bearer tokens: the one that says most about them."""
    bearers = [each for each in parse_challenges(values) if each.scheme == "bearer"]
    return max(bearers, key=lambda each: len(each.params), default=None)


def _parse(text: str) -> list[AuthChallenge]:
    found: list[AuthChallenge] = []
    scheme, params, at = "", dict[str, str](), 0
    while at < len(text):
        at = _gap(text, at)
        param = _PARAM.match(text, at)
        if param is not None and scheme:
            quoted, plain = param[2], param[3]
            value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
            # The first counts: a second one may have been appended on the way.
            params.setdefault(param[1].lower(), value)
            at = param.end()
            continue
        word = _SCHEME.match(text, at)
        if word is None:
            # Nothing that belongs here: go on after the next comma.
            comma = text.find(",", at)
            at = len(text) if comma < 0 else comma + 1
            continue
        if scheme:
            found.append(AuthChallenge(scheme, params))
        scheme, params, at = word[1].lower(), {}, word.end()
        credentials = _CREDENTIALS.match(text, at)
        if credentials is not None:
            at = credentials.end()
    if scheme:
        found.append(AuthChallenge(scheme, params))
    return found


def _gap(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return at if gap is None else gap.end()
