"""Entries that launch accord around a server: for hosts without HTTP, folders or variables."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

import msgspec

from accord_tools.hosts.definition import HostEntry, HostsError
from accord_tools.hosts.entries.literals import names_secret, variable_name
from accord_tools.hosts.launching.installation import UVX_VARIABLES, AccordCommand

_BEARER: Final = re.compile(r"(?i)bearer +(?=\S)")
_REFERENCE: Final = re.compile(r"\$\{(?:env|input):[^${}]+\}")
_FOLDERS: Final = "PYTHONPATH"
_BEARER_VARIABLE: Final = "ACCORD_BEARER"
_HEADER_VARIABLE: Final = "ACCORD_HEADER"


class UnwrappedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry without the accord around it.

    Attributes:
        entry: the server itself, with the folder that accord was to run it in.
        env_file: the file whose variables it gets.
        wrapper: what accord did: "exec", "proxy", or empty.
    """

    entry: HostEntry
    env_file: Path | None = None
    wrapper: str = ""


def bridge_entry(entry: HostEntry, accord: AccordCommand, *, uses_oauth: bool = False) -> HostEntry:
    """Return an entry for a host without HTTP: `accord proxy` connects to the URL.

    Headers that may be secret are variables, so that they are not in the list of processes.

    Args:
        entry: a server at a URL.
        accord: the words that launch accord.
        uses_oauth: whether the user has to sign in there, in a browser.

    Raises:
        HostsError: the entry has no URL.
    """
    if not entry.url:
        raise HostsError(f"{entry.name} is launched by a command; only a URL needs a bridge")
    words = [*accord.words, "proxy", entry.url, *(["--oauth"] if uses_oauth else [])]
    env = dict(accord.env)
    for name, value in entry.headers.items():
        bearer = _BEARER.match(value) if name.lower() == "authorization" else None
        if bearer:
            words += ["--bearer", "-"]
            env[_BEARER_VARIABLE] = value[bearer.end() :]
        elif names_secret(name) or name.lower() == "authorization" or _REFERENCE.search(value):
            variable = variable_name(_HEADER_VARIABLE, name)
            words += ["--header-from", f"{name}: {variable}"]
            env[variable] = value
        else:
            words += ["--header", f"{name}: {value}"]
    return msgspec.structs.replace(
        entry, transport="stdio", command=tuple(words), env=env, url="", headers={}
    )


def wrap_entry(
    entry: HostEntry,
    accord: AccordCommand,
    *,
    cwd: Path | None = None,
    env_file: Path | None = None,
) -> HostEntry:
    """Return an entry that runs its command in a folder, or with the variables of a file.

    Args:
        entry: a server that is launched.
        accord: the words that launch accord.
        cwd: the folder; that of the entry by default.
        env_file: a file with variables.

    Raises:
        HostsError: the entry has a URL.
    """
    if entry.url:
        raise HostsError(f"{entry.name} has a URL; only a command can be wrapped")
    inner = unwrap_entry(entry) if _wrapped_words(entry.command, "exec") is not None else None
    if inner is not None:
        entry = inner.entry
        env_file = env_file or inner.env_file
    folder = str(cwd) if cwd is not None else entry.cwd
    if folder is None and env_file is None:
        return entry
    words = [*_apart(accord, entry.env), "exec"]
    words += [] if folder is None else ["--cwd", folder]
    words += [] if env_file is None else ["--env-file", str(env_file)]
    return msgspec.structs.replace(
        entry,
        command=(*words, "--", *entry.command),
        env=_join_env(entry.env, accord.env),
        cwd=None,
    )


def _apart(accord: AccordCommand, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words for accord, which must not import what the server gets in PYTHONPATH."""
    has_python = any(name.startswith("PYTHON") for name in env)
    if has_python and accord.words[-3:-1] == ("-P", "-m") and _FOLDERS not in accord.env:
        return (*accord.words[:-3], "-E", *accord.words[-3:])
    return accord.words


def _join_env(own: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    folders = [each.get(_FOLDERS, "").split(os.pathsep) for each in (more, own)]
    path = os.pathsep.join(dict.fromkeys(each for part in folders for each in part if each))
    return {**more, **own, **({_FOLDERS: path} if path else {})}


def unwrap_entry(entry: HostEntry) -> UnwrappedEntry:
    """Return the server that an entry launches through accord; the same if it does not."""
    words = _wrapped_words(entry.command, "proxy")
    if words is not None:
        return _unbridge(entry, words)
    words = _wrapped_words(entry.command, "exec")
    if words is None or "--" not in words:
        return UnwrappedEntry(entry=entry)
    at = words.index("--")
    options = dict(zip(words[:at:2], words[1:at:2], strict=False))
    if at % 2 or not options.keys() <= {"--cwd", "--env-file"}:
        return UnwrappedEntry(entry=entry)  # written by hand, in another way
    file = options.get("--env-file")
    inner = msgspec.structs.replace(
        entry, command=tuple(words[at + 1 :]), cwd=options.get("--cwd", entry.cwd)
    )
    # A URL may be inside: a bridge that gets its token from a file.
    found = unwrap_entry(inner)
    return UnwrappedEntry(
        entry=found.entry, env_file=Path(file) if file else found.env_file, wrapper="exec"
    )


def _wrapped_words(command: Sequence[str], verb: str) -> Sequence[str] | None:
    """Return the words after `accord VERB`, whatever launches accord; None if it does not."""
    for at, word in enumerate(command[:-1]):
        stem = PurePath(word.replace("\\", "/")).name.lower()
        is_accord = stem in ("accord", "accord.exe") and (
            at == 0 or command[at - 1] == "-m" or "--from" in command[: at - 1]
        )
        if is_accord:
            return command[at + 2 :] if command[at + 1] == verb else None
        if word == "--":
            return None
    return None


def _unbridge(entry: HostEntry, words: Sequence[str]) -> UnwrappedEntry:
    url = words[0] if words else ""
    options = [each for each in words[1:] if each != "--oauth"]
    is_plain = len(options) % 2 == 0 and url.lower().startswith(("http://", "https://"))
    pairs = list(zip(options[::2], options[1::2], strict=False))
    if not is_plain or any(each not in _BRIDGE_OPTIONS for each, _ in pairs):
        return UnwrappedEntry(entry=entry)  # it does more than a URL says
    headers, used = {}, {_FOLDERS, *UVX_VARIABLES}
    for option, value in pairs:
        name, _, rest = value.partition(":")
        if option == "--bearer":
            headers["Authorization"] = f"Bearer {entry.env.get(_BEARER_VARIABLE, '')}"
            used.add(_BEARER_VARIABLE)
        elif option == "--header-from":
            headers[name] = entry.env.get(rest.strip(), "")
            used.add(rest.strip())
        else:
            headers[name] = rest.strip()
    env = {name: value for name, value in entry.env.items() if name not in used}
    transport = "sse" if url.rstrip("/").endswith("/sse") else "http"
    inner = msgspec.structs.replace(
        entry,
        transport="sse" if transport == "sse" else "http",
        command=(),
        env=env,
        url=url,
        headers=headers,
    )
    return UnwrappedEntry(entry=inner, wrapper="proxy")


_BRIDGE_OPTIONS: Final = ("--bearer", "--header", "--header-from")
