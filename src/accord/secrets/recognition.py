"""Names and forms of secrets: one definition for recordings, reports, logs and files.

A secret is recognised by the name of its member, by its form, or by the text before it.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, TypeAlias

from accord.trace import MASK

# -- names

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET_NAME: Final = re.compile(
    r"pass(?:word|wd|phrase|code)|secret(?!ar)|credential|cookie|session_?id|token$"
    r"|api_?keys?|(?:private|access|account|encryption|master|shared|signing|ssh)_?keys?$"
    r"|connection_?str(?:ing)?|conn_?str|authorization(?:_header|_code)?$"
    r"|(?:^|_)assertion$|code_verifier$|device_code$"
    r"|(?:^|_)(?:bearer|dsn|jwt|otp|pwd|totp)(?:_|$)|(?:^|_)auth(?:_(?:header|data|key))?$"
)
_TOKENS: Final = re.compile(r"tokens$")
# Names of the protocol, and counts that models report.
_HARMLESS_NAME: Final = re.compile(
    r"progress_?token"
    r"|(?:\w+_)?(?:max|min|total|input|output|prompt|completion|cached|reasoning|used|num)_?tokens"
)
# Names that mean a secret only with the digits of one: a pin may be on a board or on a map.
_CODE_NAME: Final = re.compile(r"(?:^|_)(?:pin|cvv2?|cvc2?|csc)$")
_CODE: Final = re.compile(r"\d{3,12}")
_CARD_NAME: Final = re.compile(r"(?:^|_)(?:card|cc)_?(?:number|no|num)?$")
# Names of variables, headers and options, beside those that mean a secret everywhere: PGPASS.
_VARIABLE_NAME: Final = re.compile(
    r"(?:^|_)(?:pat|creds?|pin(?:_code)?|cvv|cvc|credit_?card|card_?number)$|pass$"
    r"|(?<!public)(?<!primary)(?<!partition)(?<!sort)(?<!hot)_key$"
)
# Names that mean a secret only in the query of a URL.
QUERY_NAMES: Final = frozenset({"key", "sig", "signature", "x_amz_signature"})
# -- forms

_FORMS: Final = re.compile(
    r"(?<![\w-])(?:"
    r"sk-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{16,}|glpat-[\w-]{10,}"
    r"|xox[abprs]-[\w-]{10,}|xapp-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{20,}"
    r"|[srp]k_(?:live|test)_\w{8,}|hf_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{32,}"
    r"|ya29\.[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"
    r")"
    # A key that was cut off has no end.
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
)
_SCHEME: Final = r"(?:basic|bearer|digest|dpop|negotiate|token)"
# In each, the last group is the secret.
_HEADER: Final = re.compile(
    r"(?i)(?<![\w-])((?:proxy-)?authorization[\"']?[ \t]*[:=][ \t]*[\"']?"
    # Without a scheme and without a digit it is prose, as in "Authorization: see below".
    rf"(?:{_SCHEME}[ \t]+|(?=[^\s\"']*\d)))([^\s\"',;]+)"
)
_HEADER_LINE: Final = re.compile(
    r"(?im)^([ \t]*(?:set-cookie|cookie|x-api-key|x-auth-token):[ \t]*)(\S[^\r\n]*)$"
)
# Without a digit it is prose, as in "bearer authentication".
_BEARER: Final = re.compile(r"(?i)(?<![\w-])(bearer[ \t]+)((?=[^\s\"']*\d)[\w.~+/-]{12,}=*)")
_USER_INFO: Final = re.compile(
    r"(?i)(?<![\w+.-])([a-z][a-z0-9+.-]{0,30}://[^/\s:@\"'<>]{0,256}:)([^/\s@\"'<>]{1,256})(?=@)"
)
_LONG_USER: Final = re.compile(
    r"(?i)(?<![\w+.-])([a-z][a-z0-9+.-]{0,30}://)([^/\s:@\"'<>]{20,256})(?=@)"
)
# A word of letters before a parenthesis is code, as in auth=Protected(...).
_PAIR: Final = re.compile(
    r"([?&]?)(?<![\w.-])([\w.-]{1,60}+)=(?:\"([^\"\n]{1,4096})\"|'([^'\n]{1,4096})'"
    r"|(?![A-Z][A-Za-z]*\()([^\s&;,\"'<>()]+))"
)
_MEMBER: Final = re.compile(
    r"([\"'])([\w.-]{1,60})\1(\s{0,8}:\s{0,8})([\"'])((?:(?!\4)[^\\\n]|\\.){1,4096})\4"
)
# JSON within JSON has backslashes before each quote.
_INNER_MEMBER: Final = re.compile(
    r"(\\{1,3}\")([\w.-]{1,60})\1(\s{0,8}:\s{0,8})(\\{1,3}\")((?:(?!\4)(?:[^\\\n]|\\.)){1,4096})\4"
)
# As people write it: "my password is hunter2". It has letters with digits or signs, or digits only,
# or is quoted; "the password is case-sensitive" and "the token is base64-encoded" are prose.
_IS: Final = r"[ \t]+(?:is|was)[ \t]*:?[ \t]+"
_PROSE: Final = (
    r"(?:utf-?\d+|base-?\d+|sha-?\d+|md5|oauth\d?|\d+-?(?:digits?|char\w*|bits?|bytes?))(?![\w@#$])"
)
_SENTENCE: Final = re.compile(
    rf"(?i)(?<![\w-])((?:pass(?:word|wd|phrase|code)|pwd|secret|token|(?:api|access) key){_IS})"
    rf"(?!{_PROSE}|[a-z]+://)"
    r"((?=[^\s\"'`]*[a-z])(?=[^\s\"'`]*[\d!@#$%^&*+=~])[^\s\"'`]{3,200}[^\s\"'`.,;:!?)]"
    r"|\d{5,}(?![\w-]|[.,]\d))"
)
_QUOTED_PASSWORD: Final = re.compile(
    rf"(?i)(?<![\w-])((?:pass(?:word|wd|phrase|code)|pwd){_IS}[\"'`])([^\s\"'`]{{4,200}})(?=[\"'`])"
)
_WRITTEN_CODE: Final = re.compile(
    r"(?i)(?<![\w-])((?:pin|cvv2?|cvc2?)(?:[ \t]+(?:is|was)[ \t]*:?|[ \t]*[:=])[ \t]*)"
    r"(\d{3,12})(?![\w-]|[ \t]+\w|[.,]\d)"
)
# Numbers of cards: digits in one piece, or in the groups that are printed on them.
_CARD: Final = re.compile(
    r"(?<![\w.,-])(?:\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{1,3})?"
    r"|\d{4}([ -])\d{6}\2\d{4,5})(?![\w-]|[.,]\d)"
)
# By their first digits, and how many there are.
_CARD_KINDS: Final = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|35\d{14}|6(?:011|5\d\d|4[4-9]\d)\d{12,15}"
)
_DOUBLED: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
# A part of a path or of a query that is a key: long, and letters and digits mixed.
KEY_FORM: Final = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[\w.~-]{24,}")
# Placeholders instead of a secret.
_PLACEHOLDER: Final = re.compile(r"(?i)none|null|undefined|true|false|value|[$%{*<].*|x{3,}|\.{3}")
_FIGURE: Final = re.compile(r"[\d.,_]+")

SCHEMES: Final = re.compile(rf"({_SCHEME}) +", re.IGNORECASE)
"""The beginning of a header with credentials, as in `Bearer `."""
# What stands before a secret; in each, the last group is the secret.
_AFTER: Final = (
    *(_HEADER, _HEADER_LINE, _BEARER, _USER_INFO, _LONG_USER),
    *(_SENTENCE, _QUOTED_PASSWORD, _WRITTEN_CODE),
)


@lru_cache(4096)
def plain_name(name: str) -> str:
    return re.sub(r"[-. ]", "_", _HUMP.sub("_", name)).lower()


@lru_cache(4096)
def is_secret_name(name: str) -> bool:
    """Return whether a member has the name of a secret.

    >>> is_secret_name("apiKey"), is_secret_name("db-password"), is_secret_name("max_tokens")
    (True, True, False)
    """
    plain = plain_name(name)
    if _HARMLESS_NAME.fullmatch(plain):
        return False
    return _SECRET_NAME.search(plain) is not None or _TOKENS.search(plain) is not None


@lru_cache(4096)
def names_secret(name: str) -> bool:
    """Return whether a variable, a header or an option has the name of a secret.

    >>> names_secret("GITHUB_PAT"), names_secret("--license-key"), names_secret("PUBLIC_KEY")
    (True, True, False)
    """
    return is_secret_name(name) or _VARIABLE_NAME.search(plain_name(name)) is not None


def is_oauth_secret(name: str) -> bool:
    """Return whether a member of a message of OAuth has the name of a secret."""
    return name in ("code", "user_code") or is_secret_name(name)


def is_code(name: str, value: object) -> bool:
    """Return whether a member is a code of a few digits, or the number of a card."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return False
    plain, text = plain_name(name), str(value)
    if _CODE_NAME.search(plain) is not None:
        return _CODE.fullmatch(text) is not None
    return _CARD_NAME.search(plain) is not None and is_card_number(text)


def is_card_number(text: str) -> bool:
    """Return whether digits are those of a card: its kind, its length, and the last digit fit.

    >>> is_card_number("4111 1111 1111 1111"), is_card_number("4111 1111 1111 1112")
    (True, False)
    """
    digits = text.replace(" ", "").replace("-", "")
    if _CARD_KINDS.fullmatch(digits) is None:
        return False
    # ISO/IEC 7812-1, annex B: each second digit is doubled, from the right.
    plain, doubled = digits[-1::-2], digits[-2::-2]
    return (sum(map(int, plain)) + sum(_DOUBLED[int(each)] for each in doubled)) % 10 == 0


@lru_cache(4096)
def counts_tokens(name: str) -> bool:
    """Return whether a number of this name is a count: `tokens` may be secrets or a count."""
    plain = plain_name(name)
    return _TOKENS.search(plain) is not None and _SECRET_NAME.search(plain) is None


def has_secret_form(text: str) -> bool:
    """Return whether a text has a part with the form of a secret, such as a token.

    >>> has_secret_form("ghp_" + "0aZ" * 12), has_secret_form("https://example.com/mcp")
    (True, False)
    """
    if _FORMS.search(text):
        return True
    found = (pattern.search(text) for pattern in (_HEADER, _BEARER, _USER_INFO, _LONG_USER))
    return any(each is not None and not is_stand_in(each[2]) for each in found)


def is_path_like(text: str) -> bool:
    """Return whether a text is written as a path."""
    return re.match(r"(?:/|~/|\.{1,2}/|[A-Za-z]:[\\/])[\w./\\~@ +-]*$", text) is not None and (
        text.count("/") + text.count("\\") > 1 or "." in text
    )


def is_stand_in(text: str) -> bool:
    """Return whether a text stands for a value: a placeholder, `null`, `xxx`, `<key>`."""
    return not text or _PLACEHOLDER.fullmatch(text) is not None


# As in the files of hosts: `${NAME}`, and `${NAME:-default}`, whose default may be a secret.
_REFERENCE: Final = re.compile(r"\$\{[^${}]*\}")
_DEFAULT: Final = re.compile(r"\$\{[^${}]*?:-([^${}]*)\}")


def is_literal(text: str) -> bool:
    """Return whether a text is a value of its own: not a placeholder, and not one's default."""
    default = _DEFAULT.search(text)
    if default is not None and not is_stand_in(default[1]):
        return True
    # The value - of an option says that the program reads it elsewhere.
    return not _REFERENCE.search(text) and text != "-" and not is_stand_in(text.strip())


def has_literal_form(text: str) -> bool:
    """Return whether a text with placeholders has a part with the form of a secret."""
    return has_secret_form(_REFERENCE.sub("${}", text)) or any(
        has_secret_form(each) for each in _DEFAULT.findall(text)
    )


def find_secret_forms(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has tokens and keys that are known by their form, and passwords of URLs.

    >>> list(find_secret_forms("the key AKIAABCDEFGHIJKLMNOP is ours"))
    [(8, 28)]
    """
    if may_hide(text.encode(errors="replace")):
        yield from (found.span() for found in _FORMS.finditer(text))
        for found in _USER_INFO.finditer(text):
            if not _PLACEHOLDER.fullmatch(found[2]):
                yield found.span(2)


_SIGNS: Final = tuple(
    sign.encode()
    for sign in (
        *("pass", "secret", "token", "key", "credential", "auth", "cookie", "session", "conn"),
        *("bearer", "dsn", "jwt", "otp", "pwd", "sig=", "signature", "sk-", "k_live_", "k_test_"),
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "xapp-"),
        *("akia", "asia", "aiza", "hf_", "npm_", "pypi-", "ya29.", "sg.", "eyj"),
        # A name may contain JSON escapes.
        *("private", "@", "\\u00"),
        *("cvv", "cvc", "csc", 'pin"', "pin ", "pin:", "pin="),
    )
)
_PROGRESS: Final = b'"progresstoken"'
# How the number of a card looks when each digit is a zero.
_ZEROS: Final = bytes.maketrans(b"123456789", b"0" * 9)
_ESCAPED: Final = re.compile(r"\\.")
_CARD_SIGNS: Final = (
    b"0" * 13,
    *(b"0000%b%b%b0" % (gap, group, gap) for gap in (b" ", b"-") for group in (b"0000", b"000000")),
)


def may_hide(data: bytes) -> bool:
    """Return whether data may hold a secret: a quick test, since most messages do not."""
    lowered = data.lower()
    if _PROGRESS in lowered:
        # A harmless name that looks like one of a secret, and occurs in many messages.
        lowered = lowered.replace(_PROGRESS, b"")
    for sign in _SIGNS:  # a generator takes twice as long
        if sign in lowered:
            return True
    figures = data.translate(_ZEROS)
    if not any(sign in figures for sign in _CARD_SIGNS):
        return False
    # Most long numbers are times and ids. A number begins after an escape such as \n.
    text = _ESCAPED.sub(" ", data.decode("utf-8", "replace"))
    return any(is_card_number(found[0]) for found in _CARD.finditer(text))


Mask: TypeAlias = Callable[[str], str]
"""Returns what stands in place of a secret."""


def mask_forms(text: str, mask: Mask) -> str:
    """Return a text with a mask in place of each secret that its form or its surroundings tell."""
    text = _FORMS.sub(lambda found: mask(found[0]), text)
    for pattern in _AFTER:
        text = pattern.sub(lambda found: _mask_last_group(found, mask), text)
    text = _CARD.sub(lambda found: mask(found[0]) if is_card_number(found[0]) else found[0], text)
    text = _MEMBER.sub(lambda found: _mask_member(found, mask), text)
    if '\\"' in text:
        text = _INNER_MEMBER.sub(lambda found: _mask_member(found, mask), text)
    return _PAIR.sub(lambda found: _mask_pair(found, mask), text)


def _mask_last_group(found: re.Match[str], mask: Mask) -> str:
    if MASK.match(found[2]) or _PLACEHOLDER.fullmatch(found[2]):
        return found[0]
    return found[1] + mask(found[2])


def _mask_member(found: re.Match[str], mask: Mask) -> str:
    quote, name, colon, other, value = found.groups()
    if not _is_given(name, value):
        return found[0]
    return f"{quote}{name}{quote}{colon}{other}{mask(value)}{other}"


def _mask_pair(found: re.Match[str], mask: Mask) -> str:
    before, name, *values = found.groups()
    value = next(each for each in values if each is not None)
    is_query = bool(before) and plain_name(name) in QUERY_NAMES
    if not _is_given(name, value, is_secret=is_query):
        return found[0]
    start = found.start(2) - found.start() + len(name) + 1
    return found[0][:start] + found[0][start:].replace(value, mask(value), 1)


def _is_given(name: str, value: str, *, is_secret: bool = False) -> bool:
    """Return whether a name is that of a secret and the value is not a placeholder."""
    if not is_secret and not is_secret_name(name):
        return is_code(name, value)
    is_figure = counts_tokens(name) and _FIGURE.fullmatch(value) is not None
    return not is_figure and not MASK.match(value) and not _PLACEHOLDER.fullmatch(value)
