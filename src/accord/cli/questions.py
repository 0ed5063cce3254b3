"""What a server asks of its user, put to the person at the terminal."""

import sys
from typing import Any

from accord.cli.arguments import read_value, type_name
from accord.cli.terminal import harmless, note
from accord.types import ElicitParams

__all__ = ["ask_user", "somebody_is_there"]


def ask_user(question: ElicitParams) -> dict[str, Any] | bool:
    """Ask for each field of a form; the end of input (Ctrl-D) declines."""
    note(f"the server asks: {question.message}")
    if not somebody_is_there():
        note("declined: there is no terminal to answer on")
        return False
    schema = question.requested_schema or {}
    fields: dict[str, Any] = schema.get("properties") or {}
    required = schema.get("required") or ()
    note("(Ctrl-D declines)")
    try:
        if not fields:
            return {} if _line("agree? [y/N] ").lower() in ("y", "yes") else False
        answers = {
            name: _field(name, field, is_required=name in required)
            for name, field in fields.items()
        }
    except EOFError:
        note("\ndeclined")
        return False
    return {name: value for name, value in answers.items() if value is not None}


def somebody_is_there() -> bool:
    """Tell whether a person can read what is asked and type an answer."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _line(prompt: str) -> str:
    # Not input(): it writes the prompt to stdout, where the result goes.
    sys.stderr.write(harmless(" ".join(prompt.split("\n"))))
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()


def _field(name: str, schema: dict[str, Any], *, is_required: bool) -> Any:
    about = schema.get("description") or schema.get("title")
    if about:
        note(f"  {about}")
    default = schema.get("default")
    hint = f" [{default}]" if default is not None else "" if is_required else " [none]"
    while True:
        text = _line(f"  {name} ({type_name(schema)}){hint}: ")
        if not text and (default is not None or not is_required):
            return default
        try:
            if text:
                return read_value(text, schema)
        except ValueError as error:
            note(f"  {error}")
