"""Targets of `accord add`: what a user names becomes an entry that any host can launch or reach."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from accord.cli.installation import import_folders, python_words
from accord.cli.target import locate
from accord.client.server_spec import HttpForm, NeededValue, ServerSpec
from accord.secrets.recognition import names_secret
from accord_tools.hosts.definition import HostsError, Machine
from accord_tools.hosts.launching.environment import REFERENCE
from accord_tools.hosts.launching.installation import (
    AccordCommand,
    accord_command,
)
from accord_tools.hosts.server_names import check_name, command_name, file_name, url_name

_URL: Final = re.compile(r"https?://", re.IGNORECASE)
_NAMED: Final = re.compile(r"([^/\\=]+)=(.+)", re.DOTALL)
_CONFIGURATIONS: Final = (".json", ".jsonc", ".toml", ".yaml", ".yml")
_BUNDLES: Final = (".mcpb", ".dxt")
_SCRIPTS: Final = (".js", ".mjs", ".cjs")
_PACKAGE_FILES: Final = {"package.json": "npx -y", "pyproject.toml": "uvx"}
# Names of packages, with a version; npm: may be left out before a scope.
_REGISTRY: Final = re.compile(r"(npm|pypi):(.*)", re.DOTALL)
_NPM: Final = re.compile(r"(?:@[a-z0-9~][\w.~-]*/)?[a-z0-9~][\w.~-]*(?:@[\w.^~+-]+)?")
_PYPI: Final = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w.,-]+\])?(?:(?:==|@)[\w.+!-]+)?")
_MOST_BYTES: Final = 10_000_000
# A file that serves with another library, and does not import accord.
_FOREIGN: Final = re.compile(r"^\s*(?:from|import)\s+(mcp|fastmcp)\b", re.MULTILINE)
_OWN: Final = re.compile(r"^\s*(?:from|import)\s+accord\b", re.MULTILINE)


class TargetReader(msgspec.Struct, frozen=True, kw_only=True):
    """What targets are read with.

    Attributes:
        machine: whose paths entries have.
        accord: the words that launch accord; found out when a target needs them, by default.
        values: values of a bundle's settings that a user gave, by key or variable.
    """

    machine: Machine
    accord: AccordCommand | None = None
    values: Mapping[str, str] = {}

    def find_accord(self) -> AccordCommand:
        """Return the words that launch accord.

        Raises:
            HostsError: it is in a throw-away environment.
        """
        return accord_command(self.machine) if self.accord is None else self.accord


def read_target(
    text: str,
    rest: Sequence[str],
    reader: TargetReader,
    *,
    command: Sequence[str] = (),
    name: str = "",
) -> ServerSpec:
    """Return the server that a user names.

    Args:
        text: a URL; a Python file, `module:object`; NAME=TARGET; a configuration, with `#NAME` if
            it has several servers; a `server.json`; a bundle; a package. With a command: its name,
            or empty.
        rest: words that follow it by mistake.
        reader: what it is read with.
        command: the words after `--`.
        name: for the entry; made from the target by default.

    Raises:
        HostsError: it cannot be read, or has a name that hosts refuse.
    """
    given = check_name(name) if name else ""
    if command:
        words = tuple(command)
        named = given or (check_name(text) if text else command_name(words))
        return complete_target(ServerSpec(name=named, command=words))
    found = _NAMED.fullmatch(text)
    is_plain = _URL.match(text) or _REGISTRY.match(text) or Path(text).exists()
    if found and not is_plain:
        given, text = given or check_name(found[1]), found[2]
    target = _read_place(text, rest, reader)
    if given:
        target = msgspec.structs.replace(target, name=given)
    return target


def _read_place(text: str, rest: Sequence[str], reader: TargetReader) -> ServerSpec:
    if _URL.match(text):
        return _read_url(text)
    package = _find_package(text)
    if package is not None:
        return package
    where, _, fragment = text.partition("#")
    path = Path(expand_home(where, reader.machine))
    suffix = path.suffix.lower()
    if path.name in _PACKAGE_FILES:
        runner = _PACKAGE_FILES[path.name]
        raise HostsError(
            f"{where} describes a package; write the command that launches its server after --, "
            f"as in: accord add -- {runner} PACKAGE"
        )
    if suffix in _BUNDLES:
        return _foreign(_read_bundle(path, reader))
    if path.is_dir() and (path / "plugin.json").is_file() and (path / "mcp.json").is_file():
        path, suffix = path / "mcp.json", ".json"
    if suffix in _CONFIGURATIONS and path.is_file():
        from accord_tools.hosts.sources.configuration_file import read_configuration_file

        return _foreign(read_configuration_file(path, fragment, reader))
    if suffix in _SCRIPTS and path.is_file():
        full = reader.machine.project / path
        entry = ServerSpec(name=file_name(full), command=("node", os.path.normpath(full)))
        return complete_target(entry)
    if suffix in _CONFIGURATIONS:
        raise HostsError(f"there is no file {where}")
    return _read_python(text, rest, reader)


def _find_package(text: str) -> ServerSpec | None:
    """Return the server of a package of npm or PyPI; None if the text does not name one.

    Raises:
        HostsError: it is not the name of a package.
    """
    found = _REGISTRY.fullmatch(text)
    if found is None and not (
        text.startswith("@") and _NPM.fullmatch(text) and not Path(text).exists()
    ):
        return None
    registry, name = found.groups() if found else ("npm", text)
    form, runner = (_NPM, ("npx", "-y")) if registry == "npm" else (_PYPI, ("uvx",))
    if not form.fullmatch(name):
        example = "npm:@scope/name@1.2.3" if registry == "npm" else "pypi:name==1.2.3"
        raise HostsError(f"{text!r} is not a package of {registry}; expected {example}")
    command = (*runner, name)
    return _foreign(complete_target(ServerSpec(name=command_name(command), command=command)))


def suggest_package(text: str) -> str:
    """Return what to type for a package of that name; empty if it has the form of a file."""
    if "." in text:
        return ""
    if "/" in text:
        return f"; did you mean a package: @{text}?" if _NPM.fullmatch(f"@{text}") else ""
    return f"; did you mean a package: npm:{text} or pypi:{text}?" if _NPM.fullmatch(text) else ""


def _foreign(target: ServerSpec) -> ServerSpec:
    return msgspec.structs.replace(target, is_foreign=True)


def complete_target(
    entry: ServerSpec,
    *,
    title: str = "",
    needed: Sequence[NeededValue] = (),
    remarks: Sequence[str] = (),
) -> ServerSpec:
    """Return a server with the values that it refers to, beside those that are known."""
    known = {each.name: each for each in needed}
    texts = [("", text) for text in (*entry.command, entry.url, entry.cwd or "")]
    for place, text in [*texts, *entry.env.items(), *entry.headers.items()]:
        is_named = place.lower() == "authorization" or names_secret(place)
        for _, name, default in REFERENCE.findall(text):
            is_secret = is_named or names_secret(name)
            needed_value = NeededValue(name=name, is_secret=is_secret, is_required=not default)
            known.setdefault(name, needed_value)
    return msgspec.structs.replace(
        entry,
        title=title or entry.name,
        needed=tuple(known.values()),
        remarks=tuple(remarks),
    )


def expand_home(text: str, machine: Machine) -> str:
    """Return a path with the user's folder in place of `~`."""
    return str(machine.home) + text[1:] if text == "~" or text.startswith("~/") else text


# -- a URL


def _read_url(text: str) -> ServerSpec:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise HostsError(f"the URL is wrong: {error}") from None
    if not host or port == 0 or re.search(r"[\s\x00-\x1f]", text):
        raise HostsError("the URL is wrong: expected https://host/path")
    if parts.path.lower().endswith((*_BUNDLES, "/server.json")):
        raise HostsError(
            "the URL is that of a file, not of a server: download it, and name the file"
        )
    is_sse = parts.path.rstrip("/").endswith("/sse")
    transport: HttpForm = "sse" if is_sse else "http"
    remarks = []
    if is_sse:
        remarks.append("the path ends with /sse: the entry uses the older transport with events")
    if parts.scheme.lower() == "http" and url_name(text) != "localhost":
        remarks.append("the URL begins with http: what is sent can be read on the way")
    return complete_target(
        ServerSpec(name=url_name(text), transport=transport, url=text), remarks=remarks
    )


# -- a Python file or module


def _read_python(text: str, rest: Sequence[str], reader: TargetReader) -> ServerSpec:
    place = locate(text, rest)
    file = place.file
    if file is not None:
        foreign = _foreign_library(file)
        if foreign:
            return _foreign_target(file, foreign, reader)
    accord = reader.find_accord()
    remarks = list(accord.remarks)
    own = None if file is None else _project_python(file)
    is_apart = accord.kind in ("pipx", "uv-tool", "uvx")
    if own is not None and is_apart and _has_accord(own):
        words: tuple[str, ...] = (str(own), "-P", "-m", "accord")
        env: dict[str, str] = {}
        remarks = [f"the entry uses {own}, the environment of the project, which has accord too"]
    else:
        words, env = accord.words, dict(accord.env)
        if is_apart:
            remarks.append(
                f"the server runs with the packages that {accord.kind} installed with accord: add "
                "those that it imports there"
            )
        if file is None:
            folders = import_folders(place.module)
            env |= {"PYTHONPATH": os.pathsep.join(folders)} if folders else {}
    where = file.absolute() if file is not None else Path(place.module.replace(".", "/"))
    command = (*words, "run", place.target)
    entry = ServerSpec(name=file_name(where), command=command, env=env)
    return complete_target(entry, remarks=remarks)


def _foreign_library(file: Path) -> str:
    """Return the library that a file serves with, if it is not accord."""
    try:
        with open(file, encoding="utf-8", errors="replace") as source:
            code = source.read(_MOST_BYTES)
    except OSError as error:
        raise HostsError(f"{file}: {error.strerror}") from None
    found = _FOREIGN.search(code)
    return found[1] if found and not _OWN.search(code) else ""


def _foreign_target(file: Path, library: str, reader: TargetReader) -> ServerSpec:
    own = _project_python(file)
    python = str(own) if own is not None else python_words()[0]
    command = (python, str(file.absolute()))
    entry = ServerSpec(name=file_name(file.absolute()), command=command)
    remark = f"{file.name} serves with {library}: the entry runs it with {python}"
    return complete_target(entry, remarks=[remark])


def _project_python(file: Path) -> Path | None:
    """Return the Python of the environment beside a file, or in a folder above it."""
    for folder in file.absolute().parents:
        for name in (".venv", "venv"):
            place = folder / name
            if (place / "pyvenv.cfg").is_file():
                parts = ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")
                python = place.joinpath(*parts)
                return python if python.exists() else None
        if (folder / ".git").exists() or (folder / "pyproject.toml").is_file():
            break
    return None


def _has_accord(python: Path) -> bool:
    environment = python.parent.parent
    patterns = ("lib/python3*/site-packages", "Lib/site-packages")
    return any(
        (each / "accord").is_dir() or next(each.glob("accord-*.dist-info"), None) is not None
        for pattern in patterns
        for each in environment.glob(pattern)
    )


# -- a bundle


def _read_bundle(path: Path, reader: TargetReader) -> ServerSpec:
    from accord_tools.hosts.bundles.archive import read_bundle
    from accord_tools.hosts.bundles.entry import bundle_folder, bundle_target

    bundle = read_bundle(path)
    return bundle_target(bundle, bundle_folder(bundle), reader)
