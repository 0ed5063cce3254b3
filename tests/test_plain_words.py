"""The measurable part of the style that CONTRIBUTING.md describes, kept by counting."""

import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from support.tables import cases

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "docs", "examples", "benchmarks", "fuzz", "interop", "tools")
FILES = sorted(
    path
    for folder in FOLDERS
    for suffix in ("*.py", "*.md")
    for path in (ROOT / folder).rglob(suffix)
    if "node_modules" not in path.parts and path != Path(__file__)
)
PAGES = [ROOT / name for name in ("README.md", "SECURITY.md")]
SOURCE = [path for path in FILES if path.is_relative_to(ROOT / "src")]

PARTICIPLES = """
begun borne bought bound broken brought built caught chosen done drawn driven fallen felt found
forgotten frozen given gone got grown heard held hidden hung kept known laid led left lost made
meant met paid said seen sent shaken shown sold sought spent spoken stolen struck swept taken
taught thought thrown told torn understood undone withdrawn woken won written
"""
# Words that end like participles, and are verbs or nouns of the field.
WORDS = """
bring docstring embed encoding exceed feed finding heading listing missing need padding ping
proceed seed setting string succeed timing warning
"""
IRREGULAR = frozenset(PARTICIPLES.split())
VERBS_AND_NOUNS = frozenset(WORDS.split())
# Names of the public API, which stay.
PUBLIC = frozenset({"broken", "challenged", "connected", "structured", "unattended"})

# Words of before, and those in their place; the glossary in CONTRIBUTING.md explains these.
OLD_WORDS = {
    r"stand[-_ ]?alone": "stateless",
    r"listen_?place": "listener",
    r"(?<![a-z])bells?(?![a-z])": "notify, notification",
    r"(?<![a-z])receipts?(?![a-z])": "acknowledgement",
    r"(?<![a-z])dut(?:y|ies)(?![a-z])": "recovery record",
    r"(?<![a-z])surfaces?(?![a-z])": "catalog",
}
OLD_IN_TEXT = {re.compile(old, re.IGNORECASE): new for old, new in OLD_WORDS.items()}
# "Listened to" is English, and a `ListenedRequest` is a riddle.
OLD_IN_NAMES = OLD_IN_TEXT | {
    re.compile(r"^_*Listened|(?<!has_)listened_|^listened$"): "listener, or subscription",
    re.compile(r"(?<=[a-z])(?:Bell|Receipt|Duty|Duties|Surface)s?(?![a-z])"): "the new word",
}
# What is published or stored under an old word, and stays; names that work until 0.4.
KEPT = (
    *("surface.", "surface-changed", "surface-breaking", "surface_revision"),  # fleets: ids
    *('"surface"', '"name":"surface"', "_surface ("),  # fleets: a stage, a member, tables
    *("TABLE surface", "UPDATE surface", "REFERENCES surface", "FROM surface", "INTO surface"),
    *("surface INTEGER", "ON surface"),
    *('"receipt"', "accord-bell-", "worker_missed_bells", "{bell}"),  # between workers
    *("check_surface", "surface_of", "bells: the name of", "bells=..."),  # until 0.4
    "uv-receipt.toml",  # a file of another program
)
KEPT_NAMES = frozenset({"bells"})  # an option of SqliteBackend, until 0.4

PERSON = (
    "administrator|anyone|attacker|author|beginner|caller|client|developer|handler|host|listener|"
    "maintainer|newcomer|one|operator|owner|peer|people|person|program|reader|reporter|server|someone|"
    "stranger|subscriber|those|user|visitor"
)
PATTERNS = {
    "say what it is": re.compile(
        r"(?<![Tt]here )\b(?:is|are|was|were|be|being) (?:no|none)\b"
        r"(?! (?:longer|more|fewer|less|better|later|earlier|matter)\b)"
        r"|\bthere (?:is|are|was|were) none\b"
    ),
    "name the one who acts": re.compile(
        r"\b(?:whoever|whomever|whom|somebody|nobody|everybody|anybody)\b", re.IGNORECASE
    ),
    "say reported, said or informed": re.compile(r"\btold\b", re.IGNORECASE),
}
# A word for a person or a program, a name, or a placeholder for one.
WHO_OF_A_PERSON = re.compile(
    rf"(?:\b(?:{PERSON})s?|(?-i:\b[A-Z][a-z]+)|\{{\}}),? who\b", re.IGNORECASE
)


def is_bare_participle(name: str) -> bool:
    word = name.strip("_").lower()
    if name.startswith("__") or "_" in word or word in VERBS_AND_NOUNS:
        return False
    return word in IRREGULAR or (
        (word.endswith("ed") and len(word) > 3) or (word.endswith("ing") and len(word) > 4)
    )


def faults_of_prose(text: str) -> Iterator[str]:
    flat = " ".join(re.sub(r"\{[^{}]*\}", "{}", text).split())
    if " " not in flat:
        return  # a key or a name, not a sentence
    for advice, pattern in PATTERNS.items():
        for match in pattern.finditer(flat):
            yield f"{advice}: {flat[max(0, match.start() - 40) : match.end() + 40]!r}"
    if re.search(r"\bwho\b", WHO_OF_A_PERSON.sub("", flat), re.IGNORECASE):
        yield f"name the one who acts: {flat[:120]!r}"


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments, docstrings and other texts of a module, and the lines of a page."""
    text = path.read_text()
    if not any(faults_of_prose(text)):
        return
    if path.suffix == ".md":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.start[0], token.string


class Definition(NamedTuple):
    kind: str
    name: str
    place: str
    is_outermost: bool


DEFINITION = re.compile(r"^( *)(?:async )?(def|class) (\w+)", re.MULTILINE)


@cache
def definitions_of(path: Path) -> list[Definition]:
    text = path.read_text()
    return [
        Definition(
            kind=match[2],
            name=match[3],
            place=f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}",
            is_outermost=match[1] == "",
        )
        for match in DEFINITION.finditer(text)
    ]


def old_words_of(text: str, *, is_name: bool = False) -> Iterator[str]:
    """Yield the words of before in a name, a comment or a text of the source, with advice."""
    if is_name:
        text = "" if text in KEPT_NAMES else text
    for kept in KEPT:
        text = text.replace(kept, "")
    for pattern, new in (OLD_IN_NAMES if is_name else OLD_IN_TEXT).items():
        if found := pattern.search(text):
            yield f"{found[0]!r} is an old word, say {new}"


def test_source_has_no_words_of_before():
    faults = []
    for path in (ROOT / "src").rglob("*.py"):
        place = path.relative_to(ROOT)
        for part in place.with_suffix("").parts:
            faults += [f"{place}: {each}" for each in old_words_of(part, is_name=True)]
        text = path.read_text()
        if not re.search("|".join((*OLD_WORDS, "listened")), text, re.IGNORECASE):
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.NAME, tokenize.COMMENT, tokenize.STRING):
                old = old_words_of(token.string, is_name=token.type == tokenize.NAME)
                faults += [f"{place}:{token.start[0]}: {each}" for each in old]
    assert faults == []


def test_words_of_the_glossary_are_words_of_the_code():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    table = page.partition("### Glossary")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([a-z][\w ,-]*) \| \w", table, re.MULTILINE)
    words = [word for row in rows for word in row.split(", ")]
    source = " ".join(path.read_text() for path in FILES if path.suffix == ".py")
    used = set(re.findall(r"[a-z]+", re.sub(r"([A-Z]?[a-z]+)", r" \1 ", source).lower()))
    assert len(words) > 60
    assert len(words) == len(set(words))
    assert [each for each in words if not set(each.split()) <= used] == []


def test_texts_are_plain():
    faults = [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for path in (*FILES, *PAGES)
        for line, text in prose_of(path)
        for fault in faults_of_prose(text)
    ]
    assert faults == []


def test_functions_are_named_by_verbs_or_nouns():
    faults = [
        f"{each.place}: {each.name} is a bare participle"
        for path in SOURCE
        for each in definitions_of(path)
        if each.kind == "def" and is_bare_participle(each.name) and each.name not in PUBLIC
    ]
    assert faults == []


def test_tests_are_named_by_condition_and_outcome():
    tests = [path for path in FILES if path.suffix == ".py" and "src" not in path.parts]
    faults = [
        f"{each.place}: {each.name}"
        for path in tests
        for each in definitions_of(path)
        if each.name.startswith("test_")
        and (
            each.name.startswith(("test_what_", "test_who_"))
            or list(faults_of_prose(each.name.replace("_", " ")))
        )
    ]
    assert faults == []


@cases(
    ("name", "is_old"),
    [
        ("StandaloneRequests", True),
        ("stand_alone", True),
        ("ListenedRequest", True),
        ("listened_exchange", True),
        ("has_listened", False),
        ("listener", False),
        ("listen_place", True),
        ("RedisBells", True),
        ("missed_bells", True),
        ("labelled", False),
        ("keep_duty", True),
        ("end_duties", True),
        ("_Receipt", True),
        ("surface_of", False),
        ("find_surface", True),
        ("ServerSurface", True),
        ("resurfaced", False),
    ],
)
def test_a_name_of_before_is_noticed(name, is_old):
    assert bool(list(old_words_of(name, is_name=True))) == is_old


@cases(
    ("text", "is_old"),
    [
        ("# a bell rings", True),
        ("# the address cannot be listened on", False),
        ('"""What the surface of a server is."""', True),
        ('"surface.token-cost"', False),
        ('"the surface changed"', True),
        ("# stand-alone requests", True),
    ],
)
def test_a_word_of_before_is_noticed_in_comments_and_texts(text, is_old):
    assert bool(list(old_words_of(text))) == is_old


def test_public_classes_have_one_name_each():
    places = defaultdict(list)
    for path in SOURCE:
        for each in definitions_of(path):
            if each.kind == "class" and each.is_outermost and not each.name.startswith("_"):
                places[each.name].append(each.place)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@cases(
    ("name", "is_bare"),
    [
        ("told", True),
        ("_judged", True),
        ("running", True),
        ("feed", False),
        ("ping", False),
        ("is_closed", False),
        ("__missing__", False),
    ],
)
def test_a_bare_participle_is_noticed(name, is_bare):
    assert is_bare_participle(name) == is_bare


@cases(
    ("text", "count"),
    [
        ("'x' is no tool", 1),
        ("None where there is none", 1),
        ("None when there is no session", 0),
        ("the session is no longer open", 0),
        ("whoever asks", 1),
        ("who asks is refused", 1),
        ("the user who signed in", 0),
        ("Greet Ada, who is happy", 0),
        ("the client is told", 1),
    ],
)
def test_an_indirect_sentence_is_noticed(text, count):
    assert len(list(faults_of_prose(text))) == count
