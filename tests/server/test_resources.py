"""Resources: the entry of each URI, listed details, and the contents of returned values."""

import base64
import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import msgspec
import pytest
from msgspec.structs import astuple

from accord.errors import InvalidParams, RegistrationError, ResourceNotFound
from accord.protocol.endpoint import Endpoint
from accord.protocol.uri_template import Several
from accord.server.entries.registry import Resources
from accord.server.entries.resources import (
    ResourceEntry,
    TemplateEntry,
    build_resource,
)
from accord.server.media import Audio, Image, build_contents, not_found
from accord.server.schema.signature import inspect
from accord.types import (
    Annotations,
    ReadResourceResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
)
from support.tables import cases


def entry(uri: str, function: Callable[..., Any], **details: Any) -> ResourceEntry | TemplateEntry:
    return build_resource(uri, function, signature=inspect(function), **details)


def fixed(uri: str = "note://today", **details: Any) -> ResourceEntry | TemplateEntry:
    def today() -> str:
        """Say what is on today."""
        return ""

    return entry(uri, today, **details)


def note(name: str) -> str:
    """Read a note."""
    return name


def filled(*templates: str) -> Resources:
    resources = Resources()
    for template in templates:
        resources.add(stub(template))
    return resources


def stub(template: str) -> TemplateEntry | ResourceEntry:
    """Make an entry whose function takes whatever the template has."""
    from accord.protocol.uri_template import parse

    source = ", ".join(f"{name}: str = ''" for name in parse(template).variables)
    names: dict[str, Any] = {}
    exec(f"def reader({source}): ...", names)
    return entry(template, names["reader"])


# -- what is listed


@pytest.mark.requirement("resources.item.uri", "resources.item.name")
def test_a_resource_is_named_and_described_by_its_function() -> None:
    made = fixed()
    assert isinstance(made, ResourceEntry)
    assert made.key == "note://today"
    assert made.item == Resource(
        uri="note://today", name="today", description="Say what is on today."
    )


@pytest.mark.requirement("resources.template.uri-template", "resources.template.name")
def test_a_uri_with_variables_is_a_template() -> None:
    made = entry("note://{name}", note)
    assert isinstance(made, TemplateEntry)
    assert made.key == "note://{name}"
    assert made.item == ResourceTemplate(
        uri_template="note://{name}", name="note", description="Read a note."
    )


@pytest.mark.requirement(
    "resources.item.description-and-mime",
    "resources.item.size",
    "resources.item.title",
)
def test_all_details_of_a_resource_are_listed() -> None:
    annotations = Annotations(audience=["user"], priority=0.5)
    made = fixed(
        name="n",
        title="T",
        description="D",
        mime_type="text/markdown",
        size=3,
        annotations=annotations,
        meta={"a/b": 1},
    )
    assert made.item == Resource(
        uri="note://today",
        name="n",
        title="T",
        description="D",
        mime_type="text/markdown",
        size=3,
        annotations=annotations,
        meta={"a/b": 1},
    )


@pytest.mark.requirement("resources.template.description-and-mime")
def test_all_details_of_a_template_are_listed() -> None:
    made = entry("note://{name}", note, title="T", mime_type="text/markdown", meta={"a/b": 1})
    assert made.item == ResourceTemplate(
        uri_template="note://{name}",
        name="note",
        title="T",
        description="Read a note.",
        mime_type="text/markdown",
        meta={"a/b": 1},
    )


def test_the_type_is_listed_where_the_uri_tells_it() -> None:
    made = fixed("config://app.json")
    assert isinstance(made, ResourceEntry)
    assert made.item.mime_type == "application/json"
    assert made.mime_type is None


class Reader:
    """Read by an object."""

    def __call__(self) -> str:
        return ""

    def method(self) -> str:
        """Read by a method."""
        return ""


@cases(
    ("function", "name"),
    [
        (Reader(), "Reader"),
        (Reader().method, "method"),
        (functools.partial(note, "a"), "note"),
        (lambda: "x", "note://today"),
        (lambda page="1": page, "note://today"),
    ],
    ids=["object", "method", "partial", "lambda", "defaults"],
)
def test_anything_callable_can_read(function: Callable[..., Any], name: str) -> None:
    assert entry("note://today", function).item.name == name


# -- what is refused


@pytest.mark.requirement("resources.uri.custom-scheme")
@cases("uri", ["", "today", "/etc/passwd", "note", "no te://x", "note://a b", "1st://a", "x://%zz"])
def test_an_invalid_uri_cannot_be_registered(uri: str) -> None:
    with pytest.raises(RegistrationError, match="invalid URI"):
        fixed(uri)


@cases(
    ("uri", "why"),
    [
        ("note://{name", "never closed"),
        ("note://name}", "'}' is not allowed"),
        ("note://{}", "expected the name of a variable"),
        ("note://{!name}", "reserved for extensions"),
        ("/search/{q}", "begins with a scheme; write for example 'desk://search/{q}'"),
        ("{name}", "a URI begins with a scheme"),
        ("notes/{name}", "a URI begins with a scheme"),
        ("1://{name}", "does not expand to URIs"),
    ],
)
def test_an_invalid_template_cannot_be_registered(uri: str, why: str) -> None:
    with pytest.raises(RegistrationError, match=why):
        entry(uri, note)


def test_a_fixed_uri_needs_a_function_without_arguments() -> None:
    with pytest.raises(RegistrationError) as caught:
        entry("note://all", note)
    assert "needs 'name'" in str(caught.value)
    assert "note://all/{name}" in str(caught.value)
    assert f"{__file__}:{note.__code__.co_firstlineno}" in str(caught.value)


def two(a: str, b: str) -> None: ...
def defaulted(a: str, b: str = "") -> None: ...


@cases(
    ("template", "function", "why"),
    [
        ("x://{b}", note, "'b' in the template but not a parameter; 'name' a parameter without"),
        ("x://{name}/{b}", note, "'b' in the template but not a parameter"),
        ("x://{a}", two, "'b' a parameter without default but not in the template"),
        ("x://{c}", two, "'a', 'b' a parameter without default but not in the template"),
        ("x://{a}{?b}", two, "'b' optional in the template but without a default"),
        ("x://{a};{b.c}", defaulted, "'b.c' in the template but not a parameter"),
    ],
)
def test_variables_and_parameters_must_match(
    template: str, function: Callable[..., Any], why: str
) -> None:
    with pytest.raises(RegistrationError) as caught:
        entry(template, function)
    assert why in str(caught.value)
    assert f"{__file__}:{function.__code__.co_firstlineno}" in str(caught.value)


@cases(
    ("template", "function"),
    [
        ("x://{a}", defaulted),
        ("x://{a}{?b}", defaulted),
        ("x://{a}/{b}", defaulted),
        ("x://{a}/{b}", two),
        ("x://{b}/{a}", two),
        ("x://{a}{/b}", two),
        ("x://{+a}.{b}", two),
    ],
)
def test_variables_that_match_are_taken(template: str, function: Callable[..., Any]) -> None:
    assert isinstance(entry(template, function), TemplateEntry)


def test_a_template_has_no_size() -> None:
    with pytest.raises(RegistrationError, match="a template has no size"):
        entry("note://{name}", note, size=3)


@cases("mime_type", ["", "text", "text/", "a b/c"])
def test_an_invalid_mime_type_is_refused(mime_type: str) -> None:
    with pytest.raises(RegistrationError, match="invalid MIME type"):
        fixed(mime_type=mime_type)


def test_a_uri_is_registered_once() -> None:
    resources = Resources()
    resources.add(fixed())
    with pytest.raises(RegistrationError, match=r"'note://today' .* twice: .* another URI"):
        resources.add(fixed())
    resources.add(entry("note://{name}", note))
    with pytest.raises(RegistrationError, match=r"resource template 'note://\{name\}' is"):
        resources.add(entry("note://{name}", note))
    resources.add(fixed(title="new"), replace=True)
    assert [each.item.title for each in resources.fixed] == ["new"]


# -- finding


def test_a_fixed_resource_is_found_before_any_template() -> None:
    resources = filled("note://{name}")
    resources.add(fixed())
    found = resources.find("note://today")
    assert found is not None
    assert found.key == "note://today"
    assert found.match("note://today") == {}


def test_a_template_is_found_with_its_variables_decoded() -> None:
    found = filled("note://{name}{?page}").find("note://a%20b?page=2")
    assert found is not None
    assert found.match("note://a%20b?page=2") == {"name": "a b", "page": "2"}


@cases(
    ("templates", "uri", "winner"),
    [
        (["x://{a}", "x://special/{a}"], "x://special/1", "x://special/{a}"),
        (["x://{+a}", "x://{a}"], "x://1", "x://{a}"),
        (["x://{+a}", "x://{b}/{c}"], "x://1/2", "x://{b}/{c}"),
        (["x://{+a}", "x://{b}/{c}"], "x://1/2/3", "x://{+a}"),
        (["x://{+a}", "x://long/{+a}"], "x://long/1/2", "x://long/{+a}"),
        (["x://{a}{?q}", "x://{a}"], "x://1", "x://{a}"),
        (["x://{a}{?q}", "x://{a}"], "x://1?q=2", "x://{a}{?q}"),
        (["x://{a}", "x://{b}"], "x://1", "x://{a}"),
        (["x://{b}", "x://{a}"], "x://1", "x://{b}"),
        (["x://a%20b/{c}", "x://{+a}"], "x://a%20b/1", "x://a%20b/{c}"),
        (["x://é/{c}", "x://{+a}"], "x://%C3%A9/1", "x://é/{c}"),
        (["x://é/{c}", "x://{+a}"], "x://é/1", "x://é/{c}"),
        (["x://abc/{c}"], "x://%61bc/1", "x://abc/{c}"),
    ],
)
def test_the_most_specific_template_wins(templates: list[str], uri: str, winner: str) -> None:
    found = filled(*templates).find(uri)
    assert found is not None
    assert found.key == winner


@cases(
    "uri",
    [
        "",
        "note",
        "note://",
        "note://a/b",
        "other://a",
        "note://%ff",
        "Note://a",
        "note://" + "a" * 10_000,
    ],
)
def test_a_uri_without_an_entry_is_not_found(uri: str) -> None:
    assert filled("note://{name}").find(uri) is None


def test_added_removed_and_disabled_templates_take_effect_at_once() -> None:
    resources = filled("x://{a}")
    resources.add(stub("x://b/{a}"))
    found = resources.find("x://b/1")
    assert found is not None
    resources.templates.disable("x://b/{a}")
    assert resources.find("x://b/1") is None
    resources.templates.enable("x://b/{a}")
    assert resources.find("x://b/1") is not None
    resources.templates.remove("x://b/{a}")
    assert resources.find("x://b/1") is None


def test_both_kinds_are_disabled_enabled_and_removed_by_uri_or_template() -> None:
    resources = filled("x://a", "x://{b}/c")
    resources.disable("x://a", "x://{b}/c")
    assert not resources.is_enabled("x://a")
    assert resources.find("x://a") is resources.find("x://1/c") is None
    resources.enable("x://a", "x://{b}/c")
    assert resources.find("x://a") is not None
    assert resources.find("x://1/c") is not None
    with pytest.raises(KeyError, match="x://none"):
        resources.disable("x://a", "x://none")
    with pytest.raises(KeyError, match="none}"):
        resources.disable("x://a", "x://{none}")
    assert resources.is_enabled("x://a")
    assert resources.remove("x://a").key == "x://a"
    assert resources.remove("x://{b}/c").key == "x://{b}/c"
    assert resources.find("x://a") is resources.find("x://1/c") is None


def test_changes_of_resources_and_templates_are_announced() -> None:
    reported: list[int] = []
    resources = Resources(changed=lambda: reported.append(1))
    resources.add(fixed())
    resources.add(entry("note://{name}", note))
    assert len(reported) == 2
    resources.registry_of("note://today").remove("note://today")
    resources.registry_of("note://{name}").remove("note://{name}")
    assert len(reported) == 4
    assert not resources.fixed
    assert not resources.templates


# -- arguments


def numbered(id: int, verbose: bool = False) -> str:
    return f"{id} {verbose}"


def test_variables_become_arguments_of_their_types() -> None:
    made = entry("row://{id}{?verbose}", numbered)
    bound = made.bind({"id": "7", "verbose": "true"})
    assert made.signature.call(made.function, bound, None) == "7 True"
    assert made.signature.call(made.function, made.bind({"id": "7"}), None) == "7 False"


def listed(tags: list[str], numbers: list[int] | None = None, text: str | list[str] = "") -> str:
    return f"{tags} {numbers} {text}"


@pytest.mark.parametrize(
    ("uri", "read"),
    [
        ("x://a", "['a'] None "),
        ("x://a/b%2Fc?numbers=1&numbers=2&text=d,e", "['a', 'b/c'] [1, 2] d,e"),
        ("x://a?numbers=%5B1,2%5D", "['a'] [1, 2] "),
    ],
)
def test_a_list_takes_the_parts_of_its_variable(uri: str, read: str) -> None:
    made = entry("x:/{/tags*}{?numbers*,text}", listed)
    assert isinstance(made, TemplateEntry)
    variables = made.match(uri)
    assert variables is not None
    bound = made.bind(variables)
    assert all(type(each) is not Several for each in astuple(bound))
    assert made.signature.call(made.function, bound, None) == read


def at(path: str = "") -> str:
    return path


def many(path: list[str] | None = None) -> str:
    return "|".join(path or ())


ESCAPES = [
    ("note://{path}", at, "note://..%2Fsecret"),
    ("note://{path}", at, "note://..%2fsecret"),
    ("note://{path}", at, "note://%2e%2e"),
    ("note://{path}", at, "note://%2E%2E%5Csecret"),
    ("note://{path}", at, "note://.."),
    ("note://{path}", at, "note://a%2Fb"),
    ("note://{path}", at, "note://a%5Cb"),
    ("note://{path}", at, "note://a%00.txt"),
    ("note:{/path}", at, "note:/a%2Fb"),
    ("note:{;path}", at, "note:;path=a%2Fb"),
    ("note://{+path}", at, "note://a/../../b"),
    ("note://{+path}", at, "note://a/%2e%2e/b"),
    ("note://{+path}", at, "note:///etc/passwd"),
    ("note://{+path}", at, "note://%2Fetc/passwd"),
    ("file://{+path}", at, "file:///a/../b"),
    ("note:{/path*}", many, "note:/a/../b"),
    ("note:{/path*}", many, "note:/a/..%2Fb"),
    ("note:{?path}", at, "note:?path=../b"),
    ("note:{?path*}", many, "note:?path=a&path=.."),
]


@pytest.mark.requirement("resources.uri.validated")
@cases(("template", "function", "uri"), ESCAPES)
def test_a_variable_that_leads_out_of_a_path_is_refused_unless_allowed(
    template: str, function: Callable[..., Any], uri: str
) -> None:
    made = entry(template, function)
    assert isinstance(made, TemplateEntry)
    variables = made.match(uri)
    assert variables is not None
    with pytest.raises(InvalidParams, match=r"variable 'path' .*allow_path_escapes"):
        made.bind(variables)
    allowed = entry(template, function, allow_path_escapes=True)
    assert astuple(allowed.bind(variables))


@cases(
    ("template", "function", "uri", "read"),
    [
        ("note://{path}", at, "note://a..b", "a..b"),
        ("note://{path}", at, "note://.hidden", ".hidden"),
        ("note://{+path}", at, "note://a/b/c.txt", "a/b/c.txt"),
        ("note://{+path}", at, "note://a%2Fb", "a/b"),
        ("file:///{+path}", at, "file:///a/b", "a/b"),
        ("file://{+path}", at, "file:///var/log", "/var/log"),
        ("note:{/path*}", many, "note:/a/b%2Fc", "a|b/c"),
        ("note:{?path}", at, "note:?path=a/b", "a/b"),
    ],
)
def test_a_variable_that_stays_within_a_path_is_served(
    template: str, function: Callable[..., Any], uri: str, read: str
) -> None:
    made = entry(template, function)
    assert isinstance(made, TemplateEntry)
    variables = made.match(uri)
    assert variables is not None
    assert made.signature.call(made.function, made.bind(variables), None) == read


@pytest.mark.requirement("resources.uri.validated")
def test_a_variable_that_does_not_fit_is_refused_and_named() -> None:
    with pytest.raises(InvalidParams, match='argument "id"') as caught:
        entry("row://{id}", numbered).bind({"id": "seven"})
    assert caught.value.code == -32602


# -- not found


@pytest.mark.requirement(
    "errors.code.resource-not-found",
    "errors.resource-not-found.data-uri",
    "resources.read.not-found-32602",
)
@pytest.mark.parametrize(
    ("revision", "code"), [("2025-06-18", -32002), ("2026-07-28", -32602)], ids=["older", "newest"]
)
def test_not_found_names_the_uri_and_has_the_code_of_the_revision(revision: str, code: int) -> None:
    error = not_found("note://gone")
    assert isinstance(error, ResourceNotFound)
    assert error.message == "resource 'note://gone' not found"
    assert refusal(error, revision) == {
        "code": code,
        "message": error.message,
        "data": {"uri": "note://gone"},
    }


def refusal(error: ResourceNotFound, revision: str) -> Any:
    """Let an endpoint refuse a read with the error."""
    from accord.protocol.exchange import Exchange
    from accord.protocol.revisions import REVISIONS

    endpoint = Endpoint("server", enforce=False)
    row = REVISIONS[revision]
    method = row.requests["client"]["resources/read"]
    exchange = Exchange(1, "resources/read", "client", row, method, None)
    reply = endpoint.fail(exchange, error)
    assert reply is not None
    return msgspec.json.decode(reply)["error"]


def test_an_endless_uri_is_not_repeated_in_the_message() -> None:
    assert len(not_found("x://" + "a" * 100_000).message) < 300


# -- what a reader returned


@dataclass
class Point:
    x: int
    y: int


class Model(msgspec.Struct):
    at: date


PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.requirement(
    "resources.read.contents-array",
    "resources.contents.uri",
    "resources.contents.text-or-blob",
    "resources.contents.mime-type",
    "resources.binary.encoded",
)
@cases(
    ("uri", "value", "mime_type", "text", "blob"),
    [
        ("x://a", "hello", "text/plain", "hello", None),
        ("x://a", "", "text/plain", "", None),
        ("x://a.md", "# a", "text/markdown", "# a", None),
        ("x://a.json", "{}", "application/json", "{}", None),
        ("x://a.png", "text", "text/plain", "text", None),
        ("x://a", b"\xff", "application/octet-stream", None, b"\xff"),
        ("x://a", b"", "application/octet-stream", None, b""),
        ("x://a", bytearray(b"ab"), "application/octet-stream", None, b"ab"),
        ("x://a", memoryview(b"ab"), "application/octet-stream", None, b"ab"),
        ("x://a.png", PNG, "image/png", None, PNG),
        ("x://a", Image(PNG), "image/png", None, PNG),
        ("x://a", Audio(b"ID3", mime_type="audio/mpeg"), "audio/mpeg", None, b"ID3"),
        ("x://a", {"a": 1}, "application/json", '{"a":1}', None),
        ("x://a", [1, "b"], "application/json", '[1,"b"]', None),
        ("x://a", [], "application/json", "[]", None),
        ("x://a", ["a", "b"], "application/json", '["a","b"]', None),
        ("x://a", 7, "application/json", "7", None),
        ("x://a", False, "application/json", "false", None),
        ("x://a", Point(1, 2), "application/json", '{"x":1,"y":2}', None),
        ("x://a", Model(date(2025, 1, 2)), "application/json", '{"at":"2025-01-02"}', None),
        ("x://a.txt", Point(1, 2), "application/json", '{"x":1,"y":2}', None),
    ],
)
def test_values_become_text_or_blob_by_their_kind(
    uri: str, value: object, mime_type: str, text: str | None, blob: bytes | None
) -> None:
    result = build_contents(fixed(uri), uri, value)
    encoded = None if blob is None else base64.b64encode(blob).decode()
    assert result == ReadResourceResult(
        [ResourceContents(uri=uri, mime_type=mime_type, text=text, blob=encoded)]
    )


@cases("value", ["a", b"a", {"a": 1}, Image(PNG)])
def test_a_type_that_was_given_is_kept(value: object) -> None:
    made = fixed(mime_type="application/x-own")
    (content,) = build_contents(made, made.key, value).contents
    assert content.mime_type == "application/x-own"


def test_the_uri_asked_for_decides_in_a_family() -> None:
    made = entry("note://{name}", note)
    (content,) = build_contents(made, "note://a.md", "x").contents
    assert (content.uri, content.mime_type) == ("note://a.md", "text/markdown")


def test_contents_are_kept_and_completed() -> None:
    own = ResourceContents(uri="x://other", mime_type="text/x-own", text="a", meta={"a/b": 1})
    bare = ResourceContents(uri="", text="b")
    blob = ResourceContents(uri="x://b.png", blob="AAAA")
    result = build_contents(fixed("x://dir"), "x://dir", [own, bare, blob])
    assert result.contents == [
        own,
        ResourceContents(uri="x://dir", mime_type="text/plain", text="b"),
        ResourceContents(uri="x://b.png", mime_type="image/png", blob="AAAA"),
    ]
    assert build_contents(fixed("x://dir"), "x://dir", own).contents == [own]
    assert build_contents(fixed("x://dir"), "x://dir", (own, "c")).contents[1].text == "c"
    words, picture = build_contents(fixed("x://dir"), "x://dir", ["a", Image(PNG)]).contents
    assert (words.text, picture.mime_type) == ("a", "image/png")


def test_a_whole_result_is_kept_and_completed() -> None:
    made = ReadResourceResult([ResourceContents(uri="", text="a")], ttl_ms=5000, meta={"a/b": 1})
    result = build_contents(fixed("x://a"), "x://a", made)
    assert (result.ttl_ms, result.meta) == (5000, {"a/b": 1})
    assert result.contents == [ResourceContents(uri="x://a", mime_type="text/plain", text="a")]


@pytest.mark.requirement("resources.read.no-empty-for-missing")
def test_none_means_not_found() -> None:
    with pytest.raises(ResourceNotFound):
        build_contents(fixed(), "note://today", None)


def test_a_value_that_json_cannot_express_raises_a_type_error() -> None:
    with pytest.raises(TypeError, match="the function of resource 'x://a' returned a object"):
        build_contents(fixed("x://a"), "x://a", object())


def test_meta_of_a_resource_is_repeated_with_contents_that_have_none() -> None:
    own = ResourceContents(uri="", text="a", meta={"c/d": 2})
    for made, uri in (
        (fixed(meta={"a/b": 1}), "note://today"),
        (entry("note://{name}", note, meta={"a/b": 1}), "note://x"),
    ):
        for value in (
            "text",
            b"bytes",
            {"json": 1},
            Image(PNG),
            ResourceContents(uri="", text="b"),
        ):
            (content,) = build_contents(made, uri, value).contents
            assert content.meta == {"a/b": 1}
        kept, bare = build_contents(made, uri, [own, "b"]).contents
        assert (kept.meta, bare.meta) == ({"c/d": 2}, {"a/b": 1})
