"""The measurable part of the style that CONTRIBUTING.md describes, kept by counting."""

import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

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


def test_public_classes_have_one_name_each():
    places = defaultdict(list)
    for path in SOURCE:
        for each in definitions_of(path):
            if each.kind == "class" and each.is_outermost and not each.name.startswith("_"):
                places[each.name].append(each.place)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
