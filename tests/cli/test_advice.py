"""Advice in error messages names options of the command line, not parameters of Python."""

import ast
from pathlib import Path

import accord
from accord.cli.connection import advise_in_options
from support.tables import cases

SOURCES = Path(accord.__file__).parent
OF_PYTHON = ("OAuth(", "ClientKey(", 'auth="', "open_browser=", "trust=[", "redirect_port")


@cases(
    ("message", "expected"),
    [
        (
            "pass OAuth(client_id=...), with redirect URI http://h:8/x, and OAuth(redirect_port=8)",
            "name it: --client-id ID --redirect-uri http://h:8/x",
        ),
        (
            "end what uses it, or choose another redirect_port or redirect_uri",
            "end what uses it, or choose another --redirect-uri",
        ),
        (
            "use another grant, as in OAuth(grant='client_credentials')",
            "use another grant, as in --grant client-credentials",
        ),
        (
            "some servers want OAuth(resource='omit'); else wait",
            "some servers want OAuth(resource='omit') in a program; else wait",
        ),
        ("try again later", "try again later"),
    ],
)
def test_parameters_are_replaced_by_options(message, expected):
    assert advise_in_options(message) == expected


def hints():
    """Return the texts of the sources that name parameters of the library."""
    places = [
        *(SOURCES / "auth").glob("*.py"),
        SOURCES / "http" / "client" / "auth.py",
    ]
    for place in places:
        tree = ast.parse(place.read_text())
        parts = {id(part) for node in ast.walk(tree) for part in getattr(node, "values", ())}
        docs = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if _has_doc(node)}
        for node in ast.walk(tree):
            text = None if id(node) in parts else _text(node)
            if text is not None and text not in docs and any(each in text for each in OF_PYTHON):
                yield text


def _has_doc(node):
    return isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)


def _text(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each) or "X" for each in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def test_every_advice_with_parameters_has_a_form_with_options():
    found = list(hints())
    assert len(found) > 10
    for text in found:
        expected = advise_in_options(text)
        left = [each for each in OF_PYTHON if each in expected.replace("in a program", "")]
        assert not left or "in a program" in expected, (text, expected)
