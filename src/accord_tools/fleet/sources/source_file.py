"""A file or folder to import servers from, in any form that accord knows.

Forms are the configurations of hosts, those of mcp-jest, and the Docker catalogue.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from accord.secrets.recognition import names_secret
from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.file.document import read_document
from accord_tools.fleet.sources.host_files import move_entry, read_host_file, relative_path
from accord_tools.fleet.sources.insertion import hide_literals
from accord_tools.hosts.documents.value_texts import (
    format_comment,
    format_pair,
    format_value,
    without_nulls,
)
from accord_tools.hosts.entries.literals import variable_name
from accord_tools.hosts.sources.entry_forms import (
    FoundServer,
    convert_entry,
    is_server_json,
    plain_name,
    read_server_json,
)
from accord_tools.reports.wording import plural

# -- server.yaml of the Docker catalogue


def is_docker_server(data: Mapping[str, Any]) -> bool:
    """Return whether a document is a `server.yaml` of the Docker catalogue."""
    return isinstance(data.get("name"), str) and (
        isinstance(data.get("image"), str) or isinstance(data.get("remote"), Mapping)
    )


def read_docker_server(data: Mapping[str, Any], source: str) -> FoundServer:
    """Return the server of a `server.yaml`."""
    config = data.get("config")
    settings = config if isinstance(config, Mapping) else data
    needs: list[str] = []
    env: dict[str, str] = {}
    for row in _rows(settings, "secrets"):
        if isinstance(row.get("env"), str):
            needs.append(row["env"])
            env[row["env"]] = f"${{env:{row['env']}}}"
    for row in _rows(settings, "env"):
        name, value = row.get("name"), row.get("value", "")
        if not isinstance(name, str):
            continue
        is_open = "{{" in str(value) or value == "" or names_secret(name)
        env[name] = f"${{env:{name}}}" if is_open else str(value)
        needs += [name] if is_open else []
    remarks: list[str] = []
    remote = data.get("remote")
    entry: dict[str, Any]
    if isinstance(remote, Mapping) and isinstance(remote.get("url"), str):
        kind = "sse" if remote.get("transport_type") == "sse" else "http"
        entry = {"type": kind, "url": remote["url"]}
        headers = remote.get("headers")
        if isinstance(headers, Mapping):
            entry["headers"] = {str(name): str(value) for name, value in headers.items()}
        for row in _rows(data, "secrets"):
            entry.setdefault("headers", {}).setdefault(
                "Authorization", f"Bearer ${{env:{variable_name(str(row.get('env', 'token')))}}}"
            )
    else:
        entry = {"command": "docker", "args": _run_words(data, list(env), remarks)}
        if env:
            entry["env"] = env
    needed = list(dict.fromkeys(needs))
    return FoundServer(
        name=plain_name(str(data["name"])),
        entry=entry,
        source=source,
        settings={"needs": needed} if needed else {},
        remarks=tuple(remarks),
        variables=tuple(needed),
    )


def _run_words(data: Mapping[str, Any], names: list[str], remarks: list[str]) -> list[str]:
    run = data.get("run")
    settings = run if isinstance(run, Mapping) else {}
    words = ["run", "-i", "--rm"]
    words += [word for name in names for word in ("-e", name)]
    if settings.get("disableNetwork") is True:
        words += ["--network", "none"]
    if isinstance(settings.get("user"), str):
        words += ["-u", settings["user"]]
    for volume in settings.get("volumes") or ():
        if "{{" in str(volume):
            remarks.append(f"the volume {volume} has to be written by hand")
        else:
            words += ["-v", str(volume)]
    words.append(str(data.get("image")))
    for each in settings.get("command") or ():
        if "{{" in str(each):
            remarks.append(f"the argument {each} has to be written by hand")
        else:
            words.append(str(each))
    return words


def _rows(table: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = table.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


# -- configurations of mcp-jest: the server as an entry, its tests as a file of cases


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


# -- files and folders


_ENDINGS: Final = (".json", ".jsonc", ".yaml", ".yml", ".toml")
_MOST_FILES: Final = 2_000


def read_source(source: Path, folder: Path) -> tuple[list[FoundServer], list[str]]:
    """Read all servers of a file, or of the files of a folder.

    Args:
        source: a host's configuration, a `server.json`, a configuration of mcp-jest, a
            `server.yaml` of the Docker catalogue, or a folder of such files.
        folder: that of the fleet file, which relative paths are made relative to.

    Returns:
        the servers, with placeholders for secrets; and remarks on files that were left out.

    Raises:
        FleetError: there is nothing to import.
    """
    if not source.is_dir():
        return hide_literals(_read_file(source, folder)), []
    files = sorted(each for each in source.rglob("*") if each.suffix.lower() in _ENDINGS)
    found: list[FoundServer] = []
    remarks: list[str] = []
    for file in files[:_MOST_FILES]:
        if "node_modules" in file.parts or file.name in ("package.json", "package-lock.json"):
            continue
        if file.name.startswith("accord-fleet.") or file.name.endswith(".accord.toml"):
            continue  # what accord wrote itself
        try:
            found += _read_file(file, folder)
        except FleetError as error:
            remarks.append(str(error))
    if not found:
        said = f": {remarks[0]}" if remarks else ""
        raise FleetError(f"{source} has no file with servers to import{said}")
    return hide_literals(found), remarks


def _read_file(path: Path, folder: Path) -> list[FoundServer]:
    data = read_document(path).data
    shown = relative_path(path, folder)
    if is_jest_configuration(data):
        return [read_jest_configuration(data, path.stem, shown)]
    if is_server_json(data):
        return read_server_json(data, shown)
    if is_docker_server(data):
        return [read_docker_server(data, shown)]
    return [move_entry(each, path, folder) for each in read_host_file(path, shown)]
