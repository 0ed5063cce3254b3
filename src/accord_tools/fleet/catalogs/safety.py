"""Texts of one server that may harm a model or its user, and tools that may harm together."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from accord.cli.terminal import escape_unprintable
from accord.json_schema.reader import properties_of
from accord.secrets.masks import Secrets
from accord.secrets.recognition import find_secret_forms, is_secret_name
from accord.types import JsonObject
from accord_tools.fleet.catalogs.characters import describe_hidden, find_blanks, find_hidden
from accord_tools.fleet.catalogs.entries import (
    CatalogEntry,
    CatalogText,
    annotations_of,
    instructions_of,
    texts_of,
    tool_schema,
    word_set,
    words_of,
)
from accord_tools.fleet.catalogs.lint_rules import make_finding, quote, some_of
from accord_tools.fleet.results import CatalogFinding

# -- flows: what tools could do together
# A model that reads a stranger's text may obey it. With all three kinds of tools, the text can make
# it send private data to the stranger. The labels come from hints and names, so they are guesses.


FlowLabel: TypeAlias = Literal["untrusted", "private", "out"]
"""What a tool does with data: reads texts of strangers, reads private data, sends data out."""

FLOW_LABELS: Final[Mapping[FlowLabel, str]] = {
    "untrusted": "reads texts of strangers",
    "private": "reads private data",
    "out": "sends data out",
}
_WEB: Final = word_set("browse browser crawl crawler http scrape scraper url web webpage website")
_FOREIGN: Final = word_set(
    "article articles comment comments email emails feed feeds inbox issue issues mail message"
    " messages news page pages post posts review reviews rss thread threads ticket tickets tweet"
    " tweets"
)
_OWN: Final = word_set(
    "account accounts calendar contact contacts credential credentials customer customers database"
    " document documents drive email emails env file files folder folders inbox invoice invoices"
    " key keys mail memory message messages note notes order orders password passwords payment"
    " payments query record records repository secret secrets sql table tables user users vault"
)
_READS: Final = word_set(
    "browse check crawl download export fetch find get list load lookup open query read retrieve"
    " scrape search select show view"
)
_SENDS: Final = word_set(
    "broadcast comment email forward invite mail notify post publish push reply send share submit"
    " tweet upload webhook"
)
_ADDRESSES: Final = word_set("url uri link webhook endpoint")


def label_tool(entry: CatalogEntry) -> frozenset[FlowLabel]:
    """Return what a tool does with data, as far as its hints and names show."""
    hints = annotations_of(entry)
    words = set(words_of(entry.name))
    reads = bool(words & _READS) or hints.get("readOnlyHint") is True
    is_closed = hints.get("openWorldHint") is False
    takes_address = any(name.lower() in _ADDRESSES for name in properties_of(tool_schema(entry)))
    found: set[FlowLabel] = set()
    if not is_closed and (
        words & _WEB or (reads and (words & _FOREIGN or (takes_address and words & _READS)))
    ):
        found.add("untrusted")
    if reads and words & _OWN and not words & _WEB:
        found.add("private")
    is_reader = hints.get("readOnlyHint") is True
    if not is_closed and (
        (words & _SENDS and not is_reader and not words & _READS)
        or (takes_address and words & (_READS | _WEB | _SENDS))
    ):
        found.add("out")
    return frozenset(found)


def label_tools(tools: Iterable[CatalogEntry]) -> dict[FlowLabel, list[str]]:
    """Return the names of the tools that have each label."""
    found: dict[FlowLabel, list[str]] = {label: [] for label in FLOW_LABELS}
    for entry in tools:
        for label in label_tool(entry):
            found[label].append(entry.name)
    return found


# -- suspicions: words that attacks on models use, and texts that have the form of secrets
# The patterns find words, not intentions: honest texts match them too, so their findings are hints.


_AROUND: Final = 40


class WordPattern(NamedTuple):
    """A family of words.

    Attributes:
        does: what a text with these words does.
        signs: texts in lower case of which one is in every match; most texts have none of them.
        pattern: the words.
    """

    does: str
    signs: tuple[str, ...]
    pattern: re.Pattern[str]


def _pattern(does: str, signs: str, pattern: str) -> WordPattern:
    return WordPattern(does, tuple(signs.split("|")), re.compile(pattern, re.IGNORECASE))


PATTERNS: Final[tuple[WordPattern, ...]] = (
    _pattern(
        "asks to ignore other instructions",
        "ignore|disregard|forget|override|bypass",
        r"\b(?:ignore|disregard|forget|override|bypass)\s{1,5}(?:(?:all|any|the|your|these|of)\s{1,5}){0,3}"
        r"(?:previous|prior|earlier|above|preceding|system|existing|other)\s{1,5}"
        r"(?:instruction|prompt|rule|message|direction|guideline|command|constraint|polic)\w{0,5}",
    ),
    _pattern(
        "asks to hide something from the user",
        "user",
        r"\b(?:(?:do\s{1,3}not|don't|never|must\s{1,3}not|should\s{1,3}not)\s{1,5}(?:ever\s{1,3})?"
        r"(?:tell|inform|mention|reveal|notify|alert|show|disclose)"
        r"|without\s{1,3}(?:telling|informing|mentioning|notifying|alerting|asking))"
        r"(?:\s{1,5}(?:this|that|it|anything|any|of|to|the|about)){0,5}\s{1,5}user\b",
    ),
    _pattern(
        "imitates the marks of a system message",
        "<|[|system",
        r"<\s?/?\s?(?:important|system|admin|instructions?|secret|critical|hidden)\s?>"
        r"|\[\s?/?(?:system|admin|inst|important)\s?\]|<\|\w{1,20}\|>|<</?sys>>"
        r"|^\s{0,4}#{1,4}\s{0,4}system\s{0,2}(?:prompt|message)?\s{0,2}:",
    ),
    _pattern("has an HTML comment, which pages do not show", "<!--", r"<!--"),
    _pattern(
        "asks to decode something",
        "decode|base64",
        r"\b(?:decode|base64)\b[^\n]{0,80}?[A-Za-z0-9+/]{40,}={0,2}"
        r"|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40,}+={0,2}[^\n]{0,80}?\b(?:decode|base64)\b",
    ),
    _pattern(
        "asks to send something along",
        "secretly|silently|quietly|covertly|send|forward|upload|exfiltrate",
        r"\b(?:secretly|silently|quietly|covertly)\s{1,5}(?:send|collect|forward|include|post|upload"
        r"|append|copy|log|read|store|add)\b|\bexfiltrat\w{1,5}"
        r"|\b(?:send|forward|upload|append)\s{1,5}(?:\w{1,20}\s{1,3}){0,4}"
        r"(?:conversation|chat\s{1,3}history|system\s{1,3}prompt|credentials|passwords?|private\s{1,3}keys?)\b",
    ),
    _pattern(
        "gives the model another role",
        "you are now|from now on|pretend|your new|your real|your true",
        r"\byou\s{1,3}are\s{1,3}now\s{1,3}(?:an?|the|in)\b|\bfrom\s{1,3}now\s{1,3}on,?\s{1,3}you\b"
        r"|\bpretend\s{1,3}(?:to\s{1,3}be|that\s{1,3}you)\b"
        r"|\byour\s{1,3}(?:new|real|true)\s{1,3}(?:role|task|instructions?|purpose|goal)\b",
    ),
    _pattern(
        "names files that have secrets in them",
        ".ssh|id_rsa|id_ed25519|.aws|/etc/|.netrc|.env|git-credentials|mcp.json|desktop_config",
        r"(?:~|\$HOME|\.)/?\.ssh\b|\bid_(?:rsa|ed25519)\b|\.aws/credentials|/etc/(?:passwd|shadow)\b"
        r"|\.netrc\b|\.git-credentials\b|\.cursor/mcp\.json|claude_desktop_config\.json"
        r"|(?<![\w.])\.env\b(?!\.example)",
    ),
    _pattern(
        "pushes itself before other tools",
        "before|prior|instead|other tool",
        r"\b(?:before|prior\s{1,3}to)\s{1,3}(?:using|calling|invoking|running)\s{1,3}"
        r"(?:any|every|all|each)\s{1,3}(?:other\s{1,3}|of\s{1,3}the\s{1,3})?tools?\b"
        r"|\binstead\s{1,3}of\s{1,3}(?:any|all|every)\s{1,3}other\s{1,3}tools?\b"
        r"|\b(?:do\s{1,3}not|don't|never)\s{1,3}(?:use|call)\s{1,3}(?:any\s{1,3})?other\s{1,3}tools?\b",
    ),
)
_SIGNS: Final = tuple({sign for each in PATTERNS for sign in each.signs})
# Parameters through which a server may collect what a model knows.
_SIDE_CHANNELS: Final = frozenset({"sidenote", "side_note", "sidenotes", "side_notes"})
_COLLECTS: Final = re.compile(
    r"(?i)\b(?:conversation|chat\s{1,3}history|system\s{1,3}prompt|previous\s{1,3}messages)\b"
)

# Examples of tokens, and passwords of examples.
_FAKE: Final = re.compile(
    r"(?i)example|sample|placeholder|dummy|fake|changeme|your|x{4,}|0{6,}|1234|abcd|\.\.\.|\*{3,}"
    r"|^(?:pass|password|passwd|pwd|secret|pw|token|key|user|admin|postgres|root)$"
)
_LEAST_KINDS: Final = 6
_KEY: Final = re.compile(r"(?=\S{0,200}\d)(?=\S{0,200}[A-Za-z])[\w.~+/=-]{12,}")


def may_instruct(lowered: str) -> bool:
    """Return whether a text in lower case may match one of the patterns: a quick test."""
    return any(sign in lowered for sign in _SIGNS)


def find_words(text: str) -> Iterator[tuple[str, str]]:
    """Yield what words of a text do, and these words with the text around them, marked."""
    lowered = text.lower()
    for family in PATTERNS:
        if any(sign in lowered for sign in family.signs) and family.pattern.search(text):
            # The text around the words may have a secret in it.
            clean = Secrets().mask_text(text)
            found = family.pattern.search(clean)
            yield family.does, "" if found is None else _mark(clean, *found.span())


def _mark(text: str, start: int, end: int) -> str:
    """Return a part of a text with signs around some words."""
    before = text[max(0, start - _AROUND) : start]
    words, after = text[start:end], text[end : end + _AROUND]
    parts = (
        f"{'...' if start > _AROUND else ''}{before}",
        f">>>{words[: 3 * _AROUND]}<<<",
        f"{after}{'...' if len(text) > end + _AROUND else ''}",
    )
    return " ".join("".join(parts).split())


def find_side_channels(schema: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the parameters by which a server may collect a conversation, and why each may."""
    properties = schema.get("properties")
    for name, each in properties.items() if isinstance(properties, dict) else ():
        about = each.get("description") if isinstance(each, dict) else None
        if name.lower() in _SIDE_CHANNELS:
            yield name, "has a name that attacks use to collect what a model knows"
        elif isinstance(about, str) and name.lower() in (
            "context",
            "notes",
            "metadata",
            "thoughts",
        ):
            found = _COLLECTS.search(about)
            if found is not None:
                yield name, f"asks for the {found[0].lower()}"


def find_secrets(text: str) -> list[tuple[int, str]]:
    """Return where a text has the form of a secret, and how the secret begins."""
    return [
        (start + 1, _prefix_of(text[start:end]))
        for start, end in find_secret_forms(text)
        if not _is_fake(text[start:end])
    ]


def is_secret_value(name: str, value: object) -> bool:
    """Return whether the default or example of a parameter may be a real secret."""
    return (
        isinstance(value, str)
        and len(value) < 1_000
        and is_secret_name(name)
        and _KEY.fullmatch(value) is not None
        and not _is_fake(value)
    )


def _is_fake(secret: str) -> bool:
    return _FAKE.search(secret) is not None or len(set(secret)) < _LEAST_KINDS


def _prefix_of(secret: str) -> str:
    """Return the part of a token that names its kind, which is not secret."""
    found = re.match(r"-----BEGIN [A-Z ]{0,40}-----|[A-Za-z]{2,6}[-_.]|AKIA|ASIA|AIza|eyJ", secret)
    return f"{found[0]}..." if found else "a password"


# -- findings


_SHOWN: Final = 3
_GIVEN: Final = ("default", "const", "examples", "example")


def check_entry_texts(entry: CatalogEntry) -> Iterator[CatalogFinding]:
    """Yield what is suspicious about the texts of one entry."""
    yield from _check_texts(list(texts_of(entry)), entry.subject)
    if entry.list == "tools":
        schema = tool_schema(entry)
        yield from _check_defaults(schema, entry.subject)
        for name, why in find_side_channels(schema):
            yield make_finding(
                "safety.instruction",
                f"the parameter {quote(name, 120)} {why}; read what it is for",
                subject=entry.subject,
            )


def check_instructions(catalog: JsonObject) -> Iterator[CatalogFinding]:
    """Yield what is suspicious about the instructions and the name of a server."""
    named = catalog.get("server")
    if isinstance(named, str):
        yield from _check_texts([CatalogText("name", named, True, False)], "")
    text = instructions_of(catalog)
    if text:
        yield from _check_texts([CatalogText("", text, False, True)], "the instructions")


def _check_texts(texts: list[CatalogText], subject: str) -> Iterator[CatalogFinding]:
    joined = "\n".join(each.text for each in texts)
    # Most entries pass these quick tests.
    is_plain = joined.isascii() and joined.replace("\n", "").isprintable()
    if not is_plain or find_blanks(joined) is not None:
        yield from _check_invisible(texts, subject)
    if may_instruct(joined.lower()):
        yield from _check_words(texts, subject)
    if any(True for _ in find_secrets(joined)):
        yield from _check_secrets(texts, subject)


def _check_invisible(texts: Iterable[CatalogText], subject: str) -> Iterator[CatalogFinding]:
    for each in texts:
        found = find_hidden(each.text, is_name=each.is_name)
        if found:
            yield make_finding(
                "safety.invisible",
                f"{_where(each)}has characters that people do not see:"
                f" {describe_hidden(found, each.text)}; remove them",
                subject=subject,
            )
        blank = find_blanks(each.text)
        if blank is not None:
            yield make_finding(
                "safety.invisible",
                f"{_where(each)}has a long run of blanks at character {blank}, which moves the"
                " text after it out of sight; remove them",
                subject=subject,
            )


def _check_words(texts: Iterable[CatalogText], subject: str) -> Iterator[CatalogFinding]:
    seen: set[str] = set()
    for each in texts:
        for does, words in find_words(each.text):
            if does not in seen:
                seen.add(does)
                quoted = f": {escape_unprintable(words)}" if words else ""
                yield make_finding(
                    "safety.instruction",
                    f"{_where(each)}{does}{quoted}; if that is honest, accept it",
                    subject=subject,
                )


def _check_secrets(texts: Iterable[CatalogText], subject: str) -> Iterator[CatalogFinding]:
    for each in texts:
        found = find_secrets(each.text)
        if found:
            shown = ", ".join(f"{form} at character {at}" for at, form in found[:_SHOWN])
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            yield make_finding(
                "safety.secret",
                f"{_where(each)}has the form of a secret: {shown}{more}; if it is real, revoke it"
                " and remove it",
                subject=subject,
            )


def _check_defaults(schema: JsonObject, subject: str) -> Iterator[CatalogFinding]:
    for name, each in properties_of(schema).items():
        for key in _GIVEN if isinstance(each, dict) else ():
            value = each.get(key)
            values = value if isinstance(value, list) else [value]
            if any(is_secret_value(name, one) and not find_secrets(one) for one in values):
                yield make_finding(
                    "safety.secret",
                    f"the parameter {quote(name, 120)} has a {key} that may be a real secret; if it"
                    " is, revoke it and remove it",
                    subject=subject,
                )


def _where(text: CatalogText) -> str:
    return f"its {escape_unprintable(text.place[:120])} " if text.place else ""


# -- tools together


def check_flow(tools: list[CatalogEntry]) -> Iterator[CatalogFinding]:
    """Yield a finding if one server has all three kinds of tools that leak data together."""
    labels = label_tools(tools)
    if all(labels.values()):
        shown = "; ".join(
            f"{FLOW_LABELS[label]}: {some_of(names, _SHOWN)}" for label, names in labels.items()
        )
        yield make_finding(
            "safety.flow",
            f"a text of a stranger could make a model send private data: {shown}; let people"
            " confirm what is sent",
        )
