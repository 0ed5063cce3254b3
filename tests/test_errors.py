import inspect
import re

import accord.errors as errors
from accord.errors import (
    AccordError,
    LocalProtocolError,
    MissingExtra,
    ProtocolError,
    RequestError,
    TraceError,
)
from support.tables import cases

CODES = {
    "ParseError": -32700,
    "InvalidRequest": -32600,
    "MethodNotFound": -32601,
    "InvalidParams": -32602,
    "InternalError": -32603,
    "ResourceNotFound": -32002,
    "HeaderMismatch": -32020,
    "MissingCapability": -32021,
    "UnsupportedRevision": -32022,
    "UrlElicitationRequired": -32042,
}

CLASSES = [
    each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, Exception)
]


@cases("name", CODES)
def test_every_request_error_has_its_code(name):
    error = getattr(errors, name)("why")
    assert isinstance(error, RequestError)
    assert (error.code, error.message, error.data) == (CODES[name], "why", None)
    assert str(error) == f"why ({CODES[name]})"


def test_no_request_error_is_forgotten():
    own = {each.__name__ for each in CLASSES if issubclass(each, RequestError)}
    assert own - {"RequestError"} == set(CODES)


def test_a_request_error_may_have_any_code_and_data():
    error = RequestError("no", code=7, data={"a": 1})
    assert (error.code, error.data) == (7, {"a": 1})
    assert RequestError("no").code == -32603


def test_a_protocol_error_knows_what_was_broken():
    assert ProtocolError("x").violations == ()
    assert LocalProtocolError("x", ["a"]).violations == ("a",)


def test_a_trace_error_names_its_line():
    assert str(TraceError("no JSON", line=3)) == "line 3: no JSON"
    assert TraceError("empty").line is None


def test_a_missing_extra_says_how_to_get_it():
    error = MissingExtra("schema", needed_for="validation")
    assert isinstance(error, ImportError)
    assert str(error) == (
        "validation needs the extra 'schema': run pip install '.[schema]' in a checkout of accord"
    )


def test_all_errors_have_one_root():
    assert all(issubclass(each, AccordError) for each in CLASSES)


def test_the_tree_in_the_docstring_is_the_tree():
    named = set(re.findall(r"\b[A-Z][A-Za-z]+\b", errors.__doc__ or ""))
    assert {each.__name__ for each in CLASSES} <= named


def test_exports_are_complete():
    assert set(errors.__all__) == {each.__name__ for each in CLASSES}
