"""Names for servers: made from a file, a package or a URL; refused if a host cannot use them."""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final
from unicodedata import combining, normalize
from urllib.parse import urlsplit

from accord_tools.hosts.definition import HostsError

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST: Final = 64
# Files that say nothing about their server; their folder does.
_COMMON_STEMS: Final = frozenset(
    ("server", "main", "__main__", "__init__", "app", "mcp", "index", "cli", "run")
)
_COMMON_FOLDERS: Final = frozenset(("src", "dist", "build", "lib", "server", "app", "bin", ""))
_COMMON_LABELS: Final = frozenset(("mcp", "api", "www", "app", "server"))
_SECOND_LEVEL: Final = frozenset(("co", "com", "org", "net", "ac", "gov", "edu"))
_RUNNERS: Final = frozenset(
    ("npx", "bunx", "pnpx", "uvx", "uv", "pipx", "pnpm", "yarn", "npm", "bun", "deno", "node")
)
_PYTHONS: Final = re.compile(r"python[\d.]*w?(?:\.exe)?|py(?:\.exe)?", re.IGNORECASE)
# Words of runners that are not the package.
_VERBS: Final = frozenset(("run", "dlx", "exec", "x", "tool", "start"))
# Options of runners whose value is the next word.
_WITH_VALUE: Final = frozenset(
    ("--from", "--with", "--python", "-p", "--directory", "--project", "--package", "--spec")
)


def check_name(name: str) -> str:
    """Return a name that a user chose for a server.

    Raises:
        HostsError: some host could not use it.
    """
    if not name:
        raise HostsError("the name of the server is empty; give one with --name")
    if len(name) > _LONGEST:
        raise HostsError(f"the name {name[:20]!r}... is longer than {_LONGEST} characters")
    wrong = re.sub(r"[A-Za-z0-9_-]", "", name)
    if wrong:
        shown = "a blank" if wrong[0].isspace() else repr(wrong[0])
        raise HostsError(
            f"the name {name!r} has {shown}; names have letters, digits, - and _ alone, "
            f"such as {clean_name(name)}"
        )
    return name


def clean_name(text: str) -> str:
    """Return a name made of letters, digits, dashes and underscores.

    >>> clean_name("@scope/My Server")
    'My-Server'
    >>> clean_name("schöner")
    'schoner'
    """
    last = normalize("NFKD", text.rstrip("/").rpartition("/")[2])
    last = "".join(each for each in last if not combining(each))
    return re.sub(r"[^A-Za-z0-9_-]+", "-", last).strip("-_")[:_LONGEST] or "server"


def file_name(path: PurePath) -> str:
    """Return a name for the server in a file.

    >>> file_name(PurePath("/code/desk/server.py"))
    'desk'
    """
    if path.stem.lower() not in _COMMON_STEMS:
        return clean_name(path.stem)
    folders = (each.name for each in path.parents)
    named = next((each for each in folders if each.lower() not in _COMMON_FOLDERS), "")
    return clean_name(named or path.stem)


def url_name(url: str) -> str:
    """Return a name for the server at a URL.

    >>> url_name("https://mcp.example.co.uk/mcp")
    'example'
    """
    host = urlsplit(url).hostname or "server"
    if re.fullmatch(r"[\d.]+|.*:.*|localhost", host):
        return "localhost" if host in ("localhost", "127.0.0.1", "::1") else clean_name(host)
    labels = host.split(".")
    end = -1
    if len(labels) > 2 and labels[-2] in _SECOND_LEVEL:
        end = -2
    named = [each for each in labels[:end] if each not in _COMMON_LABELS]
    return clean_name(named[-1] if named else labels[0])


def package_name(text: str) -> str:
    """Return a name for the server of a package or an image.

    >>> package_name("@modelcontextprotocol/server-memory@1.2")
    'memory'
    """
    bare = re.split(r"(?<=.)@|==|[\[<>~!:]", text.rpartition("/")[2] or text)[0]
    plain = clean_name(bare)
    short = re.sub(r"^(?:mcp-server-|server-|mcp-)|(?:-mcp-server|-mcp|-server)$", "", plain)
    return short or plain


def command_name(words: Sequence[str]) -> str:
    """Return a name for the server that a command launches.

    >>> command_name(["npx", "-y", "@modelcontextprotocol/server-memory"])
    'memory'
    """
    program = PurePath(words[0].replace("\\", "/"))
    stem = program.stem if program.suffix.lower() in (".exe", ".cmd", ".bat") else program.name
    rest = list(words[1:])
    if stem == "cmd" and rest[:1] in (["/c"], ["/C"]) and len(rest) > 1:
        return command_name(rest[1:])
    if stem in ("docker", "podman"):
        return _image_name(rest)
    if _PYTHONS.fullmatch(program.name) and "-m" in rest[:-1]:
        return package_name(rest[rest.index("-m") + 1].partition(".")[0])
    if stem in _RUNNERS or _PYTHONS.fullmatch(program.name):
        package = _first_package(rest)
        if package:
            is_file = PurePath(package).suffix in (".py", ".js", ".mjs", ".cjs", ".ts")
            return file_name(PurePath(package)) if is_file else package_name(package)
    return package_name(stem)


def _first_package(words: Sequence[str]) -> str:
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in _WITH_VALUE:
            skip = True
        elif not word.startswith("-") and word not in _VERBS:
            return word
    return ""


def _image_name(words: Sequence[str]) -> str:
    """Return a name for the image of `docker run`, the first word with a slash or a colon."""
    after = [each for each in words if not each.startswith("-") and "=" not in each]
    likely = [each for each in after if ("/" in each or ":" in each) and not each.startswith("/")]
    named = likely or [each for each in after if each != "run"]
    return package_name(named[0]) if named else "docker"
