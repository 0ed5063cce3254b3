"""What the history keeps of a run and of each server: one compressed JSON document.

Verdicts are letters in the order of the set of rules, and reports have no texts that the catalogue
has as well: these two are most of the size.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from accord.protocol.catalogue import Requirement, catalogue
from accord.protocol.verdict import VerdictName
from accord.types import JsonObject
from accord_tools.fleet.results import FleetRun, RunComparison, ServerResult

LETTERS: Final[Mapping[VerdictName, str]] = {
    "pass": "p",
    "fail": "f",
    "warn": "w",
    "not-applicable": "a",
    "not-exercised": "e",
    "not-recorded": "r",
}
"""One letter for each verdict."""
_NAMES: Final = {letter: name for name, letter in LETTERS.items()}
NOT_ASKED: Final = "."
"""Stands where there is no verdict."""
# No document is larger; a few bytes that someone else compressed may stand for more.
_LARGEST: Final = 96 * 1024 * 1024
# Texts of reports, and what the catalogue calls them.
_TEXTS: Final = {"clause": "text", "mend": "mend"}

Document = TypeVar("Document")


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run.

    Attributes:
        run: without its results.
        rules: the sorted ids of the set of rules.
        comparison: with an earlier run.
    """

    run: FleetRun
    rules: tuple[str, ...]
    comparison: RunComparison | None = None


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """A result.

    Attributes:
        result: its verdicts are only those on requirements outside of the set of rules.
        letters: a verdict for each rule of the set, or nothing at all.
    """

    result: ServerResult
    letters: str = ""

    def unpack(self, rules: tuple[str, ...]) -> ServerResult:
        """Return the result with all verdicts."""
        pairs = zip(rules, self.letters, strict=True) if self.letters else ()
        verdicts = {id: _NAMES[letter] for id, letter in pairs if letter != NOT_ASKED}
        return msgspec.structs.replace(self.result, verdicts={**verdicts, **self.result.verdicts})


class StoredCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """The catalog in the document of a result; None if only its digests are known."""

    catalog: JsonObject | None = None


class _WholeResult(StoredResult, frozen=True, kw_only=True):
    catalog: JsonObject | None


def pack_result(result: ServerResult, rules: tuple[str, ...], catalog: JsonObject | None) -> bytes:
    """Return the document of a result."""
    rest = dict(result.verdicts)
    found = (rest.pop(id, None) for id in rules)
    letters = "".join(NOT_ASKED if each is None else LETTERS[each] for each in found)
    return pack(
        _WholeResult(
            result=msgspec.structs.replace(result, verdicts=rest),
            letters=letters if len(rest) < len(result.verdicts) else "",
            catalog=catalog,
        )
    )


def pack(document: object) -> bytes:
    """Return a document in its stored form."""
    return zlib.compress(msgspec.json.encode(document))


def unpack(stored: bytes, kind: type[Document]) -> Document:
    """Return a document, or those of its members that a type has.

    Raises:
        zlib.error: it is damaged.
        ValueError: likewise, or it expands without end, or another version of accord wrote it.
    """
    return msgspec.json.decode(expand(stored), type=kind)


def expand(stored: bytes, words: bytes = b"") -> bytes:
    """Return the text of a stored form, which may have been compressed with some words."""
    reader = zlib.decompressobj(zdict=words)
    text = reader.decompress(stored, _LARGEST)
    if reader.unconsumed_tail or not reader.eof:
        raise ValueError("a document is cut off or too large")
    return text


def pack_report(report: bytes) -> bytes:
    """Return a report, which is JSON, in its stored form."""
    return zlib.compress(_edit_report(report, _remove_texts))


def unpack_report(stored: bytes) -> bytes:
    """Return a report; texts of the catalogue are those of this accord."""
    return _edit_report(expand(stored), _add_texts)


def _edit_report(report: bytes, edit: Callable[[dict[str, Any], Requirement], None]) -> bytes:
    """Return a report with each requirement edited; one of another shape is left as it is."""
    known = catalogue()
    try:
        members = msgspec.json.decode(report, type=dict[str, Any])
        for each in members["results"]:
            if each["id"] in known:
                edit(each, known[each["id"]])
    except (msgspec.DecodeError, KeyError, TypeError):
        return report
    return msgspec.json.encode(members)


def _remove_texts(members: dict[str, Any], row: Requirement) -> None:
    for name, attribute in _TEXTS.items():
        if members.get(name) == getattr(row, attribute):
            members.pop(name, None)


def _add_texts(members: dict[str, Any], row: Requirement) -> None:
    for name, attribute in _TEXTS.items():
        members.setdefault(name, getattr(row, attribute))
