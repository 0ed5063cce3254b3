"""Configurations of mcp-jest: the server as an entry, its tests as a file of cases."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from accord_tools.check.rendering.wording import plural
from accord_tools.hosts.documents.toml_text import (
    format_comment,
    format_pair,
    format_value,
    without_nulls,
)
from accord_tools.hosts.sources.entry_forms import convert_entry
from accord_tools.hosts.sources.found_server import FoundServer, plain_name

# A comparison of a value in the result with a text, a number, true, false or null.
_EQUAL: Final = re.compile(r"([A-Za-z_][\w.\[\]]*)\s*={2,3}\s*(.+)", re.DOTALL)
_TEXTS: Final = ("content[0].text", "contents[0].text")
_FILLED: Final = re.compile(r"([A-Za-z_][\w.\[\]]*)\.length\s*(?:>\s*0|>=\s*1)")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
_CONTENTS: Final = ("content", "contents", "messages")
_VERBS: Final = {"tools": "call", "resources": "read", "prompts": "prompt"}
# Names that say nothing about the server.
_USUAL_NAMES: Final = ("mcp-jest", "mcp-jest.config", "mcp-test", "mcp-jest.generated", "config")


def is_jest_configuration(data: Mapping[str, Any]) -> bool:
    """Return whether a document is a configuration of mcp-jest."""
    server = data.get("server")
    return (
        isinstance(server, Mapping)
        and ("command" in server or "url" in server)
        and isinstance(data.get("tests", {}), Mapping)
    )


class _Translation(NamedTuple):
    """A test in the form of a case, or a comment about one that has no such form."""

    text: str
    is_case: bool


def read_jest_configuration(data: Mapping[str, Any], name: str, source: str) -> FoundServer:
    """Return the server of a configuration, with a file of cases for its tests.

    Args:
        data: what the configuration contains.
        name: of its file, without the ending.
        source: where it is, for people.
    """
    server = data["server"]
    entry, variables = convert_entry(server)
    tests = data.get("tests") or {}
    own = plain_name(re.sub(r"[._-]?mcp-(?:jest|test)(?:[._-]config)?[._-]?", "", name) or name)
    if name in _USUAL_NAMES:
        words = [str(each) for each in entry.get("args", ())]
        stem = next((each for each in reversed(words) if re.search(r"\w\.\w+$", each)), "")
        own = plain_name(stem.rpartition(".")[0]) if stem else plain_name(name)
    rows = list(_translate(tests))
    has_snapshot = any(_has_snapshot(tests.get(kind)) for kind in _VERBS)
    cases = [each.text for each in rows if each.is_case]
    lost = [each.text for each in rows if not each.is_case]
    settings: dict[str, Any] = {}
    files: dict[str, str] = {}
    remarks: list[str] = []
    if cases or lost:
        path = f"cases/{own}.accord.toml"
        settings["cases"] = [path]
        files[path] = _case_file(source, tests, cases, lost)
        remarks.append(f"{plural(len(cases), 'case')} translated, {len(lost)} not: see {path}")
    if has_snapshot:
        settings["lock"] = f"locks/{own}.lock.json"
        remarks.append(
            "it had snapshots: accord fleet --update-locks writes the file that lock names"
        )
    return FoundServer(
        name=own,
        entry=entry,
        source=source,
        settings=settings,
        remarks=tuple(remarks),
        files=files,
        variables=variables,
    )


def _has_snapshot(tests: object) -> bool:
    return isinstance(tests, Mapping) and any(
        isinstance(each, Mapping) and each.get("snapshot") for each in tests.values()
    )


def _case_file(source: str, tests: Mapping[str, Any], cases: list[str], lost: list[str]) -> str:
    lines = [format_comment(f"Translated from {source}.")]
    timeout = tests.get("timeout")
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout > 0:
        lines.append(format_pair("timeout", timeout / 1000))
    if lost:
        lines += ["", "# Not translated:", *(format_comment(each) for each in lost)]
    return "\n".join([*lines, "", "\n\n".join(cases)]).rstrip() + "\n"


def _translate(tests: Mapping[str, Any]) -> Iterator[_Translation]:
    for kind, verb in _VERBS.items():
        given = tests.get(kind)
        if isinstance(given, list):
            for each in given:
                yield _translate_name(verb, str(each))
        elif isinstance(given, Mapping):
            for name, test in given.items():
                yield _translate_test(verb, str(name), test if isinstance(test, Mapping) else {})
    for key in ("filter", "skip"):
        if tests.get(key):
            yield _Translation(
                f"{key}: {tests[key]}; accord fleet run --server chooses servers", False
            )


def _translate_name(verb: str, name: str) -> _Translation:
    """Translate a test that only wants something to be offered."""
    if verb == "read" and re.search(r"[*?]", name):
        return _Translation(f"{verb} {name}: a pattern of resources", False)
    what = {"call": "tool", "read": "resource", "prompt": "prompt"}[verb]
    return _case(f"{what} {name} is offered", "offers", f"{what} {name}", {}, {})


def _translate_test(verb: str, name: str, test: Mapping[str, Any]) -> _Translation:
    if verb == "read" and re.search(r"[*?]", name):
        return _Translation(f"{verb} {name}: a pattern of resources", False)
    expectation = test.get("expect")
    wanted: dict[str, Any] = {}
    if test.get("shouldThrow"):
        wanted["error"] = True
    elif test.get("shouldExist") is False:
        return _Translation(f"{verb} {name}: must not exist", False)
    elif expectation is not None:
        found = _translate_expectation(expectation)
        if found is None:
            return _Translation(f"{verb} {name}: expect {_shorten(expectation)}", False)
        wanted = found
    arguments = test.get("args")
    given = without_nulls(arguments) if isinstance(arguments, Mapping) else {}
    if verb == "prompt":
        given = {key: _prompt_text(each) for key, each in given.items()}
    # A variant of a test is written behind the name of the tool, which has no colon itself.
    asked = name.partition(":")[0] if verb == "call" else name
    return _case(f"{verb} {name}", verb, asked, {} if verb == "read" else given, wanted)


def _prompt_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _shorten(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]} ..."


def _translate_expectation(given: object) -> dict[str, Any] | None:
    """Return what a case expects for it; None if a case cannot say it."""
    if not isinstance(given, str):
        return None
    wanted: dict[str, Any] = {}
    parts: list[str] = []
    for each in (part.strip() for part in given.split("&&")):
        equal, filled = _EQUAL.fullmatch(each), _FILLED.fullmatch(each)
        if each == "exists" or f"{each}.length > 0" in given:
            continue
        if filled is not None and "not_empty" not in wanted:
            wanted["not_empty"] = True if filled[1] in _CONTENTS else filled[1]
        elif each.startswith("contains:"):
            parts.append(_unquote(each.removeprefix("contains:").strip()))
        elif equal is not None and equal[1] in _TEXTS and "text" not in wanted:
            wanted["text"] = _unquote(equal[2].strip())
        elif equal is not None and _is_literal(equal[2].strip()):
            wanted.setdefault("at", {})[equal[1]] = _literal(equal[2].strip())
        else:
            return None
    if parts:
        wanted["contains"] = parts[0] if len(parts) == 1 else parts
    return wanted


def _is_literal(text: str) -> bool:
    return (
        _unquote(text) != text or text in ("true", "false") or _NUMBER.fullmatch(text) is not None
    )


def _literal(text: str) -> object:
    return _unquote(text) if _unquote(text) != text else json.loads(text)


def _unquote(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text


def _case(
    name: str, verb: str, asked: str, arguments: Mapping[str, Any], wanted: Mapping[str, Any]
) -> _Translation:
    lines = ["[[case]]", format_pair("name", name), format_pair(verb, asked)]
    if arguments:
        lines.append(f"arguments = {format_value(arguments)}")
    if wanted:
        lines.append(f"expect = {format_value(wanted)}")
    return _Translation("\n".join(lines), True)
