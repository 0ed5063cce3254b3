"""Targets and texts as a shell, Python or TOML writes them; secrets are named, never written."""

import re
from shlex import quote
from typing import Final

from accord_tools.inspector.target_access import TOKEN_VARIABLE, SafeTarget

_PLACEHOLDER: Final = re.compile(r"\$\{env:([A-Za-z_]\w*)\}")


def quote_for_shell(text: str) -> str:
    """Return a text as one word of a shell; placeholders become variables.

    >>> print(quote_for_shell("it's"), quote_for_shell("--key=${env:API_KEY}"))
    'it'"'"'s' --key="$API_KEY"
    """
    parts = _PLACEHOLDER.split(text)
    words = [
        f'"${part}"' if number % 2 else (quote(part) if part else "")
        for number, part in enumerate(parts)
    ]
    return "".join(words) or "''"


def quote_for_python(text: str) -> str:
    """Return an expression of Python for a text; placeholders become `os.environ[...]`.

    >>> print(quote_for_python("Bearer ${env:TOKEN}"))
    "Bearer " + os.environ["TOKEN"]
    """
    parts = _PLACEHOLDER.split(text)
    words = [
        f'os.environ["{part}"]' if number % 2 else _python_text(part)
        for number, part in enumerate(parts)
        if part or len(parts) == 1
    ]
    return " + ".join(words)


def _python_text(text: str) -> str:
    shown = repr(text)
    is_plain = shown[0] == "'" and '"' not in shown and "\\" not in shown
    return f'"{shown[1:-1]}"' if is_plain else shown


def has_placeholder(text: str) -> bool:
    """Return whether a text has a place for a secret."""
    return _PLACEHOLDER.search(text) is not None


def placeholder_names(safe: SafeTarget) -> list[str]:
    """Return the variables that have to be set before an exported text works."""
    texts = [safe.url, *safe.command, *safe.headers.values()]
    found = dict.fromkeys(name for text in texts for name in _PLACEHOLDER.findall(text))
    if safe.has_token:
        found[TOKEN_VARIABLE] = None
    return [*found, *(name for name in safe.env if name not in found)]


def connection_options(safe: SafeTarget, revision: str = "") -> list[str]:
    """Return the options of accord's commands that reach the same server in the same way."""
    words: list[str] = []
    if revision:
        words += ["--revision", revision]
    for name in safe.env:
        words += ["--env", quote_for_shell(f"{name}=${{env:{name}}}")]
    if safe.cwd:
        words += ["--cwd", quote(safe.cwd)]
    for name, value in safe.headers.items():
        words += ["--header", quote_for_shell(f"{name}: {value}")]
    if safe.has_token:
        words += ["--bearer", f'"${TOKEN_VARIABLE}"']
    elif safe.has_sign_in:
        words.append("--oauth")
    return words


def target_word(safe: SafeTarget) -> str:
    """Return the target of a command line; empty for a command, which stands after `--`."""
    return quote_for_shell(safe.url) if safe.url else quote(safe.shown) if safe.shown else ""


def command_end(safe: SafeTarget) -> str:
    """Return `--` and the command, for a target that is one."""
    if target_word(safe):
        return ""
    return " -- " + " ".join(map(quote_for_shell, safe.command))


def check_words(safe: SafeTarget) -> tuple[str, str]:
    """Return the command line of a check, up to where options go, and what follows them."""
    words = ["accord check server", target_word(safe), *connection_options(safe)]
    return " ".join(filter(None, words)), command_end(safe)
