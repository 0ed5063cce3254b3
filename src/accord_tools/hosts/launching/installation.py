"""How accord was installed, and the words that launch it from any folder, without PATH.

Paths are those that survive an upgrade: the Python of a virtual environment by its name there, not
the one that it links to; the folder of Homebrew that stays, not the one of a version. Hosts without
HTTP, folders or variables get entries that launch accord around a server.
"""

import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from accord.cli.installation import import_folders, is_environment, python_words
from accord.client.server_spec import HttpForm, ServerSpec
from accord.secrets.recognition import names_secret
from accord.version import __version__
from accord_tools.hosts.definition import HostsError, Machine
from accord_tools.hosts.entries.literals import variable_name

InstallationKind: TypeAlias = Literal["venv", "pipx", "uv-tool", "uvx", "pip", "checkout"]

# Folders in the cache of uv: uvx links to an archive, `uv run --with` makes a build.
_UV_CACHE: Final = re.compile(r"(?:archive|environments|builds)-v\d+")
# A module of each extra, to find out which ones an installation has.
_EXTRAS: Final = {
    "http": ("httptools", "aiohttp"),
    "auth": ("jwt", "cryptography"),
    "schema": ("jsonschema_rs",),
    "cli": ("rich",),
}
# Where uv looks for Python instead of PATH; versions before 2026 ignore it.
_SEARCH_PATH: Final = "UV_PYTHON_SEARCH_PATH"
_UV_PYTHON: Final = re.compile(r"/uv/python/")
# Hosts do not have the variables of a shell: without these, uvx may reach no index, or another one.
UVX_VARIABLES: Final = (
    *("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"),
    *("UV_CONFIG_FILE", "UV_CACHE_DIR", "UV_PYTHON_INSTALL_DIR", "UV_PYTHON_DOWNLOADS"),
    _SEARCH_PATH,
    *("UV_OFFLINE", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("https_proxy", "http_proxy", "all_proxy", "no_proxy"),
)
_CREDENTIALS: Final = re.compile(r"://[^/?#\s]*@")
_MANAGED: Final = re.compile(r"[/\\](?:\.pyenv|pyenv|\.asdf|mise|\.local/share/mise)[/\\]")


class AccordCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The words that launch accord, such as `/venv/bin/python -P -m accord`.

    Attributes:
        words: the arguments of accord follow them.
        kind: how it was installed.
        remarks: what a user should know about them, sentences.
        env: variables that they need.
    """

    words: tuple[str, ...]
    kind: InstallationKind
    remarks: tuple[str, ...] = ()
    env: Mapping[str, str] = {}


class RunningPython(msgspec.Struct, frozen=True, kw_only=True):
    """The Python that runs accord.

    Attributes:
        executable: its path, as it was started.
        prefix: the folder of its environment.
        base_prefix: the folder of the Python that the environment was made from.
        package: the folder that accord is imported from.
        is_editable: whether that is the folder of its source.
        folders: those that have to be in PYTHONPATH.
        requirement: what installs the same accord.
        version: the first two numbers of its version.
        temporary: folders whose contents are deleted now and then.
    """

    executable: Path
    prefix: Path
    base_prefix: Path
    package: Path
    is_editable: bool = False
    folders: tuple[str, ...] = ()
    requirement: str = f"accord=={__version__}"
    version: str = f"{sys.version_info[0]}.{sys.version_info[1]}"
    temporary: tuple[Path, ...] = ()

    @classmethod
    def current(cls, machine: Machine) -> "RunningPython":
        """Return the Python of this process.

        Raises:
            HostsError: its path is not known.
        """
        if not sys.executable:
            raise HostsError("the path of this Python is unknown; write the entry by hand")
        import accord

        origin = _read_origin()
        package = Path(accord.__file__).parent
        is_installed = any("-packages" in part for part in package.parts)
        return cls(
            executable=Path(os.path.abspath(sys.executable)),
            prefix=Path(sys.prefix),
            base_prefix=Path(sys.base_prefix),
            package=package,
            is_editable=not is_installed,
            folders=tuple(import_folders()),
            requirement=_requirement(origin),
            temporary=_temporary_folders(machine),
        )


def accord_command(machine: Machine, python: RunningPython | None = None) -> AccordCommand:
    """Return the words that launch accord from any folder and with an empty environment.

    Args:
        machine: where it will run; a throw-away environment is replaced by `uvx` of its PATH.
        python: what runs accord; the Python of this process by default.

    Raises:
        HostsError: accord is in a throw-away environment, and there is no `uvx`.
    """
    given = RunningPython.current(machine) if python is None else python
    kind = _kind_of(given)
    temporary = next((each for each in given.temporary if given.prefix.is_relative_to(each)), None)
    if kind == "uvx":
        return _throw_away_command(given, machine)
    remarks = tuple(_remarks(given, kind, temporary))
    env = {"PYTHONPATH": os.pathsep.join(given.folders)} if given.folders else {}
    return AccordCommand(
        words=python_words(given.executable, given.prefix), kind=kind, remarks=remarks, env=env
    )


def _kind_of(python: RunningPython) -> InstallationKind:
    parts = python.prefix.parts
    if any(_UV_CACHE.fullmatch(part) for part in parts) or _is_pipx_cache(python.prefix):
        return "uvx"
    if (python.prefix / "pipx_metadata.json").is_file():
        return "pipx"
    if (python.prefix / "uv-receipt.toml").is_file():
        return "uv-tool"
    if python.is_editable:
        return "checkout"
    return "venv" if is_environment(python.prefix) else "pip"


def _is_pipx_cache(prefix: Path) -> bool:
    """Whether an environment is one of `pipx run`, which keeps it for some days."""
    place = prefix.parent
    names = (place.parent.name.lower(), place.name.lower())
    return names in (
        (".cache", "pipx"),  # Linux
        ("caches", "pipx"),  # macOS
        ("pipx", ".cache"),  # with PIPX_HOME
        ("pipx", "cache"),  # Windows
    )


def _throw_away_command(python: RunningPython, machine: Machine) -> AccordCommand:
    problem = f"accord runs in {python.prefix}, which is in a cache and will be deleted"
    uvx = _find_uvx(machine)
    if uvx is None:
        raise HostsError(
            f"{problem}: install it to stay, with `uv tool install accord`, `pipx install accord` "
            "or into a virtual environment, and repeat the command with that one"
        )
    remark = f"{problem}: the entry uses uvx, which installs {python.requirement} again when needed"
    # Without a version uv takes whichever Python a host has in PATH, or downloads the newest. The
    # script `accord` of such an environment is one of the shell, which needs programs in PATH.
    words = (str(uvx), "--python", python.version, "--from", python.requirement)
    env, remarks = _uvx_settings(python, machine)
    return AccordCommand(
        words=(*words, "python", "-P", "-m", "accord"),
        kind="uvx",
        remarks=(remark, *remarks),
        env=env,
    )


def _find_uvx(machine: Machine) -> Path | None:
    """Return uvx of PATH, or the one that runs accord now, which may have been started by path."""
    from accord_tools.hosts.launching.command import find_program

    found = find_program("uvx", machine)
    running = machine.environ.get("UV", "")  # uv sets it for what it runs
    if found is None and running:
        beside = Path(running).with_name("uvx.exe" if machine.system == "windows" else "uvx")
        found = beside if beside.is_file() else None
    return found


def _uvx_settings(python: RunningPython, machine: Machine) -> tuple[dict[str, str], list[str]]:
    """Return the variables that lead uvx to Python and packages, and remarks on those left out."""
    given = {name: machine.environ.get(name, "") for name in UVX_VARIABLES}
    if machine.system != "windows" and not _UV_PYTHON.search(python.base_prefix.as_posix()):
        # Hosts have a short PATH: uv would download a Python that is there.
        folders = (str(python.base_prefix / "bin"), "/usr/local/bin", "/usr/bin", "/bin")
        given[_SEARCH_PATH] = given[_SEARCH_PATH] or ":".join(dict.fromkeys(folders))
    env = {name: text for name, text in given.items() if text and not _CREDENTIALS.search(text)}
    left_out = [name for name, text in given.items() if _CREDENTIALS.search(text)]
    return env, [
        f"{name} has a password, and is not written into the entry: uvx needs it where the host "
        "runs, or in the file uv.toml"
        for name in left_out
    ]


def _remarks(python: RunningPython, kind: InstallationKind, temporary: Path | None) -> list[str]:
    remarks = []
    if kind == "checkout":
        remarks.append(f"the entry uses the source of accord in {python.package}")
    if temporary is not None:
        remarks.append(f"{python.prefix} is in a folder for temporary files, and may be deleted")
    if kind == "pip":
        which = "of a version manager " if _MANAGED.search(str(python.executable)) else ""
        remarks.append(
            f"the entry uses the Python {which}at {python.executable}: install accord again, and "
            "repeat this command, after Python was upgraded"
        )
    return remarks


def _temporary_folders(machine: Machine) -> tuple[Path, ...]:
    given = [machine.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")]
    usual = [] if machine.system == "windows" else ["/tmp", "/var/tmp"]  # noqa: S108
    folders = [tempfile.gettempdir(), *usual, *filter(None, given)]
    # Python finds the real path of its environment: on macOS, /tmp is a link.
    return tuple(dict.fromkeys(Path(each(path)) for path in folders for each in _BOTH))


_BOTH: Final = (os.path.abspath, os.path.realpath)


# -- what was installed


class _Origin(NamedTuple):
    url: str
    commit: str
    scheme: str


def _read_origin() -> _Origin:
    """Return where pip or uv took accord from, if it was not an index."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        data: Any = msgspec.json.decode(distribution("accord").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, msgspec.DecodeError, OSError):
        data = {}
    info = data.get("vcs_info") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(data.get("url"), str):
        return _Origin("", "", "")
    if isinstance(info, dict):
        return _Origin(data["url"], str(info.get("commit_id", "")), f"{info.get('vcs', 'git')}+")
    return _Origin(data["url"], "", "")


def _requirement(origin: _Origin) -> str:
    """Return what installs the same accord with the same extras."""
    extras = "".join(f"[{each}]" for each in [_installed_extras()] if each)
    if not origin.url:
        return f"accord{extras}=={__version__}"
    at = f"@{origin.commit}" if origin.commit else ""
    return f"accord{extras} @ {origin.scheme}{origin.url}{at}"


def _installed_extras() -> str:
    from importlib.util import find_spec

    found = [name for name, modules in _EXTRAS.items() if all(map(find_spec, modules))]
    return "standard" if len(found) == len(_EXTRAS) else ",".join(found)


# -- wrapping


_BEARER: Final = re.compile(r"(?i)bearer +(?=\S)")
_REFERENCE: Final = re.compile(r"\$\{(?:env|input):[^${}]+\}")
_FOLDERS: Final = "PYTHONPATH"
_BEARER_VARIABLE: Final = "ACCORD_BEARER"
_HEADER_VARIABLE: Final = "ACCORD_HEADER"


def bridge_entry(
    entry: ServerSpec, accord: AccordCommand, *, uses_oauth: bool = False
) -> ServerSpec:
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
        entry, transport=None, command=tuple(words), env=env, url="", headers={}
    )


def wrap_entry(
    entry: ServerSpec,
    accord: AccordCommand,
    *,
    cwd: Path | None = None,
    env_file: Path | None = None,
) -> ServerSpec:
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
    if _wrapped_words(entry.command, "exec") is not None:
        entry = unwrap_entry(entry)
    file = str(env_file or entry.env_file)
    folder = str(cwd) if cwd is not None else entry.cwd
    if folder is None and not file:
        return entry
    words = [*_apart(accord, entry.env), "exec"]
    words += [] if folder is None else ["--cwd", folder]
    words += ["--env-file", file] if file else []
    return msgspec.structs.replace(
        entry,
        command=(*words, "--", *entry.command),
        env=_join_env(entry.env, accord.env),
        cwd=None,
        env_file="",
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


def unwrap_entry(entry: ServerSpec) -> ServerSpec:
    """Return the server that an entry launches through accord; the same if it does not.

    It has the folder and the file of variables that accord was to use.
    """
    words = _wrapped_words(entry.command, "proxy")
    if words is not None:
        return _unbridge(entry, words)
    words = _wrapped_words(entry.command, "exec")
    if words is None or "--" not in words:
        return entry
    at = words.index("--")
    options = dict(zip(words[:at:2], words[1:at:2], strict=False))
    if at % 2 or not options.keys() <= {"--cwd", "--env-file"}:
        return entry  # written by hand, in another way
    file = options.get("--env-file")
    inner = msgspec.structs.replace(
        entry, command=tuple(words[at + 1 :]), cwd=options.get("--cwd", entry.cwd)
    )
    # A URL may be inside: a bridge that gets its token from a file.
    found = unwrap_entry(inner)
    return msgspec.structs.replace(found, env_file=file or found.env_file)


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


def _unbridge(entry: ServerSpec, words: Sequence[str]) -> ServerSpec:
    url = words[0] if words else ""
    options = [each for each in words[1:] if each != "--oauth"]
    is_plain = len(options) % 2 == 0 and url.lower().startswith(("http://", "https://"))
    pairs = list(zip(options[::2], options[1::2], strict=False))
    if not is_plain or any(each not in _BRIDGE_OPTIONS for each, _ in pairs):
        return entry  # it does more than a URL says
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
    form: HttpForm = "sse" if url.rstrip("/").endswith("/sse") else "http"
    return msgspec.structs.replace(
        entry, transport=form, command=(), env=env, url=url, headers=headers
    )


_BRIDGE_OPTIONS: Final = ("--bearer", "--header", "--header-from")
