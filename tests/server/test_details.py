"""Details of tools, resources and prompts: misspelt, of a wrong type, or as a dictionary."""

from typing import Any

import pydantic
import pytest

from accord import Server
from accord.errors import RegistrationError
from accord.types import Icon, ToolAnnotations
from support.tables import cases


def add(a: int, b: int) -> int:
    return a + b


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        pytest.param({"timeot": 5}, "did you mean 'timeout'", id="misspelt"),
        pytest.param(
            {"annotations": {"read_only_hint": True}},
            "annotations has no keyword 'read_only_hint'; did you mean 'readOnlyHint'",
            id="misspelt within",
        ),
    ],
)
def test_a_misspelt_keyword_of_a_tool_is_refused(given: Any, reported: str) -> None:
    with pytest.raises(TypeError, match=reported):
        Server("desk").tool(**given)(add)


@cases(
    ("given", "reported"),
    [
        pytest.param({"timeout": "5"}, "timeout: expected float, got str", id="text for a number"),
        pytest.param({"timeout": -1}, "timeout is -1, expected more than 0", id="no time at all"),
        pytest.param({"name": 5}, "name: expected str, got int", id="number for a name"),
        pytest.param({"name": ""}, "has no name", id="empty name"),
        pytest.param({"annotations": "x"}, "annotations: expected object", id="text for an object"),
    ],
)
def test_a_wrong_value_for_a_tool_is_refused_and_named(given: Any, reported: str) -> None:
    with pytest.raises(RegistrationError, match=reported):
        Server("desk").add_tool(add, **given)


def test_annotations_may_be_a_dictionary_or_none() -> None:
    annotations: Any = {"readOnlyHint": True}
    nothing: Any = None
    tool = Server("desk").add_tool(add, annotations=annotations, title=nothing).item
    assert tool.annotations == ToolAnnotations(read_only_hint=True)
    assert tool.title is None


def test_annotations_and_icons_of_another_library_are_taken() -> None:
    class Hints(pydantic.BaseModel):
        read_only_hint: bool | None = pydantic.Field(None, alias="readOnlyHint")
        title: str | None = None

    class Image(pydantic.BaseModel):
        src: str

    annotations: Any = Hints(readOnlyHint=True)
    icons: Any = [Image(src="https://desk.example/icon.png")]
    tool = Server("desk").add_tool(add, annotations=annotations, icons=icons).item
    assert tool.annotations == ToolAnnotations(read_only_hint=True)
    assert tool.icons == [Icon("https://desk.example/icon.png")]


def test_misspelt_keywords_of_prompts_resources_and_servers_are_refused() -> None:
    wrong: Any = {"titel": "x"}
    server = Server("desk")
    with pytest.raises(TypeError, match="prompt\\(\\) has no keyword 'titel'"):
        server.prompt(**wrong)(add)
    with pytest.raises(TypeError, match="resource\\('a://b'\\) has no keyword 'titel'"):
        server.resource("a://b", **wrong)(lambda: "x")
    settings: Any = {"page_sizes": 3}
    with pytest.raises(TypeError, match="did you mean 'page_size'"):
        Server("desk", **settings)


@cases(
    ("settings", "reported"),
    [
        pytest.param({"page_size": "3"}, "page_size is '3'", id="page size"),
        pytest.param({"page_size": 0}, "page_size is 0", id="page size below one"),
        pytest.param({"threads": 0}, "threads is 0", id="threads"),
        pytest.param({"in_flight": True}, "in_flight is True", id="a boolean"),
        pytest.param({"log_level": "loud"}, "log_level is 'loud', expected one of debug", id="log"),
        pytest.param({"middleware": [5]}, "middleware is a list of functions", id="no function"),
        pytest.param({"middleware": add}, "middleware is a list of functions", id="no list"),
        pytest.param({"version": 1.0}, "version: expected text, got 1.0", id="version"),
        pytest.param({"tasks": {"ttl": 3}}, "expected TaskSettings", id="tasks"),
    ],
)
def test_a_wrong_setting_is_refused_and_named(settings: Any, reported: str) -> None:
    with pytest.raises(RegistrationError, match=reported):
        Server("desk", **settings)


def test_a_wrong_choice_is_refused_with_the_right_ones() -> None:
    wrong: Any = {"task": "always"}
    with pytest.raises(RegistrationError, match="'always', expected 'optional' or 'required'"):
        Server("desk").tool(**wrong)(add)


def test_a_server_has_a_name() -> None:
    nothing: Any = None
    with pytest.raises(RegistrationError, match="name: expected text, got None"):
        Server(nothing)


def test_a_single_revision_may_be_given_as_text() -> None:
    revision: Any = "2025-06-18"
    assert Server("desk", revisions=revision)._core.revisions == ("2025-06-18",)


def test_registering_a_name_instead_of_a_function_explains_the_keyword() -> None:
    name: Any = "add"
    for register in (Server("desk").tool, Server("desk").prompt):
        with pytest.raises(RegistrationError, match="expected a function, got 'add'; a name is"):
            register(name)


def test_a_resource_without_a_uri_is_refused_where_it_is_decorated() -> None:
    reader: Any = add
    with pytest.raises(RegistrationError, match="resource needs a URI"):
        Server("desk").resource(reader)
    with pytest.raises(RegistrationError, match=r"the first argument of resource\(\) is a URI"):
        Server("desk").add_resource(reader, add)


def test_a_lambda_needs_a_name_as_a_tool() -> None:
    with pytest.raises(RegistrationError, match=r"test_details\.py:\d+ has no name"):
        Server("desk").add_tool(lambda: "x")


def test_replace_replaces_the_entry_of_the_same_name() -> None:
    server = Server("desk")
    for text in ("old", "new"):
        server.add_tool(lambda: "x", name="x", description=text, replace=True)
        server.add_prompt(lambda: "x", name="x", description=text, replace=True)
        server.add_resource("a://x", lambda: "x", description=text, replace=True)
        server.add_resource("a://x/{y}", lambda y: y, description=text, replace=True)
    for registry in (server.tool_entries, server.prompt_entries, server.resource_entries.fixed):
        assert [entry.item.description for entry in registry] == ["new"]
    assert [entry.item.description for entry in server.resource_entries.templates] == ["new"]


@cases(
    ("settings", "reported"),
    [
        pytest.param({"lifespn": None}, "did you mean 'lifespan'", id="misspelt"),
        pytest.param({"port": 80}, "no keyword 'port'; give it to run\\(\\)", id="of run"),
        pytest.param({"path": "/x"}, "no keyword 'path'; give it to run\\(\\)", id="of HTTP"),
        pytest.param({"zzz": 1}, "it has .*instructions, lifespan", id="unknown"),
    ],
)
def test_an_unknown_setting_of_a_server_names_the_right_one(settings: Any, reported: str) -> None:
    with pytest.raises(TypeError, match=reported):
        Server("desk", **settings)


def documented(ctx, n: int = 1) -> str:  # type: ignore[no-untyped-def]
    """Do it."""
    return f"{ctx} {n}"


def wrong_default(n: int = "x") -> int:  # type: ignore[assignment]
    """Do it."""
    return n


def undescribed() -> str:
    return "x"


def good(n: float = 1, when: Any = object(), names: list[str] = []) -> str:  # noqa: B006, B008
    """Do it."""
    return f"{n} {when} {names}"


@pytest.mark.parametrize(
    ("function", "name", "reported"),
    [
        pytest.param(documented, "a", 'parameter "ctx" has no annotation', id="context"),
        pytest.param(wrong_default, "a", "has the default 'x', which its type", id="default"),
        pytest.param(undescribed, "a", "'a' has no description", id="description"),
        pytest.param(good, "my tool!", "'my tool!': hosts refuse this name", id="name"),
    ],
)
def test_a_mistake_that_does_not_prevent_calls_is_logged(
    caplog: pytest.LogCaptureFixture, function: Any, name: str, reported: str
) -> None:
    Server("desk").add_tool(function, name=name)
    assert [reported in record.getMessage() for record in caplog.records] == [True]


def test_a_good_tool_is_registered_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    Server("desk").add_tool(good)
    assert caplog.records == []
