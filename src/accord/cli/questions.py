"""Questions of a server to its user: answered by `--answer`, or by the user at the terminal."""

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from accord.cli.arguments import read_value, split_pairs, type_name
from accord.cli.terminal import escape_controls, note
from accord.types import ElicitParams

_YES: Final = ("y", "yes", "true")
# The key of `--answer` for a form without fields.
_AGREEMENT: Final = {"agree": None}


class _NoAnswer(Exception):
    """A form cannot be filled in: a field has no answer, and there is no terminal to ask on."""


def read_answers(words: list[str]) -> dict[str, tuple[str, bool]]:
    """Return the answers of `--answer` by field: the text, and whether it is JSON.

    Raises:
        UsageError: one is not key=value.
    """
    return {key: (value, is_json) for key, value, is_json in split_pairs(words)}


def ask_user(
    question: ElicitParams, given: Mapping[str, tuple[str, bool]] | None = None
) -> dict[str, Any] | bool:
    """Fill in a form, or decline: at the end of input (Ctrl-D), or if a field has no answer.

    Args:
        question: the form of the server.
        given: answers by field, from the command line; the other fields are asked for.
    """
    note(f"the server asks: {question.message}")
    if question.url is not None:
        note(f"  {question.url}")
    given = given or {}
    schema = question.requested_schema or {}
    fields: dict[str, Any] = schema.get("properties") or {}
    required = schema.get("required") or ()
    if is_interactive() and not (fields or _AGREEMENT).keys() <= given.keys():
        note("(Ctrl-D declines)")
    try:
        if not fields:
            return {} if _ask_agreement(given) else False
        answers = {
            name: _answer_field(name, field, given.get(name), is_required=name in required)
            for name, field in fields.items()
        }
    except EOFError:
        note("\ndeclined")
        return False
    except _NoAnswer as error:
        note(f"declined: {error}")
        return False
    return {name: value for name, value in answers.items() if value is not None}


def is_interactive() -> bool:
    """Whether a user can read questions on stderr and answer on stdin."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _ask_agreement(given: Mapping[str, tuple[str, bool]]) -> bool:
    if "agree" in given:
        return given["agree"][0].lower() in _YES
    if not is_interactive():
        raise _NoAnswer("there is no terminal to answer on; add --answer agree=yes")
    return _read_line("agree? [y/N] ").lower() in _YES


def _read_line(prompt: str) -> str:
    # Not input(), which writes the prompt to stdout: that is for the result.
    sys.stderr.write(escape_controls(" ".join(prompt.split("\n"))))
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()


def _answer_field(
    name: str, schema: dict[str, Any], given: tuple[str, bool] | None, *, is_required: bool
) -> Any:
    default = schema.get("default")
    if given is not None:
        return _read_given(name, schema, given)
    if not is_interactive():
        if default is not None or not is_required:
            return default
        kind = type_name(schema)
        raise _NoAnswer(f"there is no terminal to answer on; add --answer {name}=... ({kind})")
    about = schema.get("description") or schema.get("title")
    if about:
        note(f"  {about}")
    kind = "boolean, y or n" if schema.get("type") == "boolean" else type_name(schema)
    shown = default if isinstance(default, str) else json.dumps(default)
    hint = f" [{shown}]" if default is not None else "" if is_required else " [none]"
    while True:
        text = _read_line(f"  {name} ({kind}){hint}: ")
        if not text and (default is not None or not is_required):
            return default
        try:
            if text:
                return read_value(text, schema)
        except ValueError as error:
            note(f"  {error}")


def _read_given(name: str, schema: dict[str, Any], given: tuple[str, bool]) -> Any:
    text, is_json = given
    try:
        return json.loads(text) if is_json else read_value(text, schema)
    except ValueError as error:
        raise _NoAnswer(f"--answer {name}: {error}") from None
