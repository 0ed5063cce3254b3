"""Arguments arrive at a real HTTP API in the place and style that the document says."""

import base64
import subprocess
import sys
from email import message_from_string

import pytest

from accord.compose import openapi
from support.api import call_tool, document, json_body, parameter, refusal, send, text_of

COLOURS = ["blue", "black"]
POINT = {"x": 1, "y": 2}
ANY = {"type": ["array", "object", "string", "integer", "boolean", "number"]}


@pytest.mark.parametrize(
    ("style", "explode", "value", "query"),
    [
        ("form", True, "a b&c=d", "q=a%20b%26c%3Dd"),
        ("form", True, 5, "q=5"),
        ("form", True, True, "q=true"),
        ("form", True, "", "q="),
        ("form", True, COLOURS, "q=blue&q=black"),
        ("form", False, COLOURS, "q=blue,black"),
        ("form", False, ["a,b", "c"], "q=a%2Cb,c"),
        ("form", True, [], ""),
        ("form", False, ["a", None], "q=a,"),
        ("form", True, POINT, "x=1&y=2"),
        ("form", False, POINT, "q=x,1,y,2"),
        ("spaceDelimited", False, COLOURS, "q=blue%20black"),
        ("spaceDelimited", True, COLOURS, "q=blue&q=black"),
        ("pipeDelimited", False, COLOURS, "q=blue%7Cblack"),
        ("deepObject", True, POINT, "q%5Bx%5D=1&q%5By%5D=2"),
        ("deepObject", True, {"a": {"b": ["c"]}}, "q%5Ba%5D%5Bb%5D%5B0%5D=c"),
    ],
)
def test_a_query_has_the_style_of_its_parameter(api, style, explode, value, query):
    described = parameter("q", "query", ANY, style=style, explode=explode)
    assert send(api, {"q": value}, parameters=[described])["query"] == query


@pytest.mark.parametrize(
    ("style", "explode", "value", "path"),
    [
        ("simple", False, "a b", "a%20b"),
        ("simple", False, "a/b?c#d%", "a%2Fb%3Fc%23d%25"),
        ("simple", False, COLOURS, "blue,black"),
        ("simple", False, POINT, "x,1,y,2"),
        ("simple", True, POINT, "x=1,y=2"),
        ("label", False, "blue", ".blue"),
        ("label", False, COLOURS, ".blue,black"),
        ("label", True, COLOURS, ".blue.black"),
        ("label", False, POINT, ".x,1,y,2"),
        ("label", True, POINT, ".x=1.y=2"),
        ("matrix", False, "blue", ";p=blue"),
        ("matrix", False, "", ";p"),
        ("matrix", False, COLOURS, ";p=blue,black"),
        ("matrix", True, COLOURS, ";p=blue;p=black"),
        ("matrix", False, POINT, ";p=x,1,y,2"),
        ("matrix", True, POINT, ";x=1;y=2"),
    ],
)
def test_a_path_has_the_style_of_its_parameter(api, style, explode, value, path):
    described = parameter("p", "path", ANY, style=style, explode=explode, required=True)
    sent = send(api, {"p": value}, path="/items/{p}/end", parameters=[described])
    assert sent["path"] == f"/items/{path}/end"


@pytest.mark.parametrize(
    ("explode", "value", "header"),
    [
        (False, "plain", "plain"),
        (False, COLOURS, "blue,black"),
        (False, POINT, "x,1,y,2"),
        (True, POINT, "x=1,y=2"),
    ],
)
def test_a_header_has_the_style_of_its_parameter(api, explode, value, header):
    described = parameter("X-Thing", "header", ANY, explode=explode)
    sent = send(api, {"X-Thing": value}, parameters=[described])
    assert sent["headers"]["x-thing"] == header


@pytest.mark.parametrize(
    ("explode", "value", "cookie"),
    [
        (True, "a;b=c", "c=a%3Bb=c"),
        (True, COLOURS, "c=blue; c=black"),
        (False, COLOURS, "c=blue,black"),
        (False, POINT, "c=x,1,y,2"),
        (True, POINT, "x=1; y=2"),
    ],
)
def test_a_cookie_has_the_style_of_its_parameter(api, explode, value, cookie):
    described = parameter("c", "cookie", ANY, explode=explode)
    assert send(api, {"c": value}, parameters=[described])["headers"]["cookie"] == cookie


@pytest.mark.parametrize(
    ("place", "path"),
    [("query", "/items"), ("header", "/items"), ("path", "/items/{v}"), ("cookie", "/items")],
)
def test_a_parameter_with_content_is_json(api, place, path):
    described = {"name": "v", "in": place, "content": {"application/json": {"schema": {}}}}
    sent = send(api, {"v": {"a": [1]}}, path=path, parameters=[described])
    headers = sent["headers"]
    found = {
        "query": sent["query"],
        "header": headers.get("v"),
        "path": sent["path"],
        "cookie": headers.get("cookie"),
    }
    assert found[place] in (
        "v=%7B%22a%22%3A%5B1%5D%7D",
        '{"a":[1]}',
        "/items/%7B%22a%22%3A%5B1%5D%7D",
    )


def test_reserved_characters_stay_where_the_document_allows_them(api):
    described = parameter("q", "query", allowReserved=True)
    sent = send(api, {"q": "/a:b?c&d#e"}, parameters=[described])
    assert sent["query"] == "q=/a:b?c%26d%23e"


@pytest.mark.parametrize("value", ["..", ".", "../admin", "a/../b", "a\\..\\b", "./x"])
def test_a_path_value_that_leads_to_another_path_is_refused(api, value):
    before = len(api.requests)
    described = parameter("p", "path", required=True)
    assert 'argument "p" is refused' in refusal(
        api, {"p": value}, path="/items/{p}", parameters=[described]
    )
    assert len(api.requests) == before


@pytest.mark.parametrize(
    ("path", "arguments", "style"),
    [
        ("/files/{p}", {"p": ["", ""]}, {"style": "label", "explode": True}),
        ("/files/{p}", {"p": ["/x"]}, {"style": "label"}),
        ("/files/{p}{q}", {"p": ".", "q": "."}, {}),
        ("/files/.{p}", {"p": "."}, {}),
        ("/files/%2e{p}", {"p": "."}, {}),
        ("/files/{p}.", {"p": "./."}, {"allowReserved": True}),
    ],
)
def test_dots_that_are_written_by_a_style_or_beside_others_are_refused(api, path, arguments, style):
    before = len(api.requests)
    described = [parameter(name, "path", ANY, required=True, **style) for name in arguments]
    why = refusal(api, arguments, path=path, parameters=described)
    assert "lead to another path" in why
    assert len(api.requests) == before


def test_dots_that_are_encoded_by_the_caller_stay_text(api):
    described = parameter("p", "path", required=True)
    sent = send(api, {"p": "%2e%2e"}, path="/items/{p}", parameters=[described])
    assert sent["path"] == "/items/%252e%252e"


def test_an_empty_part_of_a_path_is_refused(api):
    described = parameter("p", "path", required=True)
    why = refusal(api, {"p": ""}, path="/items/{p}", method="delete", parameters=[described])
    assert "is empty" in why


def test_a_label_without_text_is_refused(api):
    described = parameter("p", "path", style="label", required=True)
    assert "is empty" in refusal(api, {"p": ""}, path="/items/{p}", parameters=[described])


def test_null_is_left_out_of_a_query(api):
    described = parameter("q", "query", {"type": ["string", "null"]})
    assert send(api, {"q": None}, parameters=[described])["query"] == ""


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b"])
def test_a_header_value_with_control_characters_is_refused(api, value):
    why = refusal(api, {"X-Thing": value}, parameters=[parameter("X-Thing", "header")])
    assert "control characters" in why


def test_the_server_of_an_operation_is_the_nearest_that_is_named(api):
    sent = send(api, servers=[{"url": "http://127.0.0.1:1"}])  # base_url replaces all
    assert sent["path"] == "/items"
    described = document(
        servers=[{"url": api.url + "/{version}", "variables": {"version": {"default": "v2"}}}],
        servers_of_all=[{"url": "http://127.0.0.1:1"}],
    )
    assert '"path": "/v2/items"' in text_of(call_tool(openapi(described)))


def test_line_breaks_in_other_places_are_encoded(api):
    described = [parameter("q", "query"), parameter("c", "cookie")]
    sent = send(api, {"q": "a\r\nb", "c": "a\r\nb"}, parameters=described)
    assert (sent["query"], sent["headers"]["cookie"]) == ("q=a%0D%0Ab", "c=a%0D%0Ab")


def test_names_that_hosts_refuse_are_written_as_the_document_has_them(api):
    described = [
        parameter("filter[name]", "query"),
        parameter("$top", "query", {"type": "integer"}),
    ]
    sent = send(api, {"filter_name": "x", "top": 3}, parameters=described)
    assert sent["query"] == "filter%5Bname%5D=x&%24top=3"


def test_parameters_with_one_name_in_two_places_are_two_arguments(api):
    described = [parameter("id", "path", required=True), parameter("id", "query")]
    sent = send(api, {"id": "1", "id_query": "2"}, path="/items/{id}", parameters=described)
    assert (sent["path"], sent["query"]) == ("/items/1", "id=2")


def test_a_variable_of_the_path_that_is_not_described_is_text(api):
    assert send(api, {"id": "7"}, path="/items/{id}")["path"] == "/items/7"


def test_members_of_a_body_are_arguments(api):
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "tags": {}}}
    sent = send(api, {"name": "x", "tags": [1]}, method="post", requestBody=json_body(schema))
    assert sent["body"] == '{"name":"x","tags":[1]}'
    assert sent["headers"]["content-type"] == "application/json"


def test_a_body_whose_members_are_named_as_parameters_is_one_argument(api):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    sent = send(
        api,
        {"id": "1", "body": {"id": 2}},
        path="/items/{id}",
        method="put",
        parameters=[parameter("id", "path", required=True)],
        requestBody=json_body(schema),
    )
    assert (sent["path"], sent["body"]) == ("/items/1", '{"id":2}')


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
        ({"type": "string"}, "text"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}),
        ({"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "null"}]}, None),
    ],
)
def test_a_body_that_is_not_an_object_with_known_members_is_one_argument(api, schema, value):
    sent = send(api, {"body": value}, method="post", requestBody=json_body(schema))
    assert sent["body"] == {"[1, 2]": "[1,2]", "text": '"text"', "None": "null"}.get(
        str(value), '{"a":1}'
    )


def test_an_optional_body_is_left_out_without_arguments(api):
    schema = {"type": "object", "properties": {"a": {}}, "required": ["a"]}
    optional = json_body(schema, required=False)
    sent = send(api, method="post", requestBody=optional)
    assert (sent["body"], sent["headers"].get("content-length", "0")) == ("", "0")


def test_an_optional_body_that_is_one_argument_is_left_out_without_it(api):
    optional = json_body({"type": "array", "items": {"type": "integer"}}, required=False)
    sent = send(api, method="post", requestBody=optional)
    assert (sent["body"], sent["headers"].get("content-length", "0")) == ("", "0")


def test_a_list_of_anything_in_a_multipart_body_is_a_part_for_each(api):
    schema = {"type": "object", "properties": {"tags": {"type": "array"}}}
    body = {"content": {"multipart/form-data": {"schema": schema}}}
    sent = send(api, {"tags": ["a", 1]}, method="post", requestBody=body)
    head = 'Content-Disposition: form-data; name="tags"\r\n\r\n'
    assert [sent["body"].count(f"{head}{each}\r\n") for each in ("a", "1")] == [1, 1]


def test_bytes_can_be_given_as_a_data_url(api):
    content = {"application/octet-stream": {"schema": {}}}
    url = "data:image/png;base64,QUI="
    sent = send(api, {"body": url}, method="post", requestBody={"content": content})
    assert sent["body"] == "AB"


def test_a_form_has_the_encoding_of_its_members(api):
    schema = {
        "type": "object",
        "properties": {"a": {}, "list": {}, "object": {}, "deep": {}, "commas": {}},
    }
    media = {
        "schema": schema,
        "encoding": {
            "deep": {"style": "deepObject", "explode": True},
            "commas": {"style": "form", "explode": False},
        },
    }
    sent = send(
        api,
        {"a": "x&y", "list": [1, 2], "object": {"k": 1}, "deep": {"k": ["v"]}, "commas": [1, 2]},
        method="post",
        requestBody={"content": {"application/x-www-form-urlencoded": media}},
    )
    assert sent["body"] == (
        "a=x%26y&list=1&list=2&object=%7B%22k%22%3A1%7D&deep%5Bk%5D%5B0%5D=v&commas=1,2"
    )
    assert sent["headers"]["content-type"] == "application/x-www-form-urlencoded"


def test_a_multipart_body_has_a_part_for_each_member(api):
    file = {"type": "string", "format": "binary"}
    schema = {
        "type": "object",
        "properties": {
            "note": {"type": "string"},
            "info": {"type": "object"},
            "file": {"$ref": "#/components/schemas/File"},
            "more": {"type": "array", "items": file},
        },
    }
    data = bytes(range(256))
    sent = send(
        api,
        {
            "note": 'a\r\n"b"',
            "info": {"k": 1},
            "file": base64.b64encode(data).decode(),
            "more": ["QQ==", "Qg=="],
        },
        method="post",
        components={"schemas": {"File": file}},
        requestBody={
            "content": {
                "multipart/form-data": {
                    "schema": schema,
                    "encoding": {"file": {"contentType": "image/png"}},
                }
            }
        },
    )
    kind = sent["headers"]["content-type"]
    assert kind.startswith("multipart/form-data; boundary=")
    message = message_from_string(f"Content-Type: {kind}\r\n\r\n")
    boundary = message.get_boundary()
    parts = [part.partition("\r\n\r\n") for part in sent["body"].split(f"--{boundary}\r\n") if part]
    parts[-1] = (*parts[-1][:2], parts[-1][2].removesuffix(f"--{boundary}--\r\n"))
    found = [(head, body.removesuffix("\r\n")) for head, _, body in parts]
    assert found == [
        ('Content-Disposition: form-data; name="note"', 'a\r\n"b"'),
        (
            'Content-Disposition: form-data; name="info"\r\nContent-Type: application/json',
            '{"k":1}',
        ),
        (
            (
                'Content-Disposition: form-data; name="file"; filename="file"\r\n'
                "Content-Type: image/png"
            ),
            data.decode("latin-1"),
        ),
        (
            (
                'Content-Disposition: form-data; name="more"; filename="more"\r\n'
                "Content-Type: application/octet-stream"
            ),
            "A",
        ),
        (
            (
                'Content-Disposition: form-data; name="more"; filename="more"\r\n'
                "Content-Type: application/octet-stream"
            ),
            "B",
        ),
    ]


@pytest.mark.parametrize(
    ("media_type", "value", "body", "content_type"),
    [
        ("text/plain", "hello", "hello", "text/plain"),
        ("application/xml", "<a/>", "<a/>", "application/xml"),
        ("application/octet-stream", "AAH/", "\0\x01\xff", "application/octet-stream"),
        ("*/*", "QQ==", "A", "application/octet-stream"),
        ("application/merge-patch+json", {"a": 1}, '{"a":1}', "application/merge-patch+json"),
    ],
)
def test_bodies_of_other_media_types_are_one_argument(api, media_type, value, body, content_type):
    content = {media_type: {"schema": {}}}
    sent = send(api, {"body": value}, method="post", requestBody={"content": content})
    assert (sent["body"], sent["headers"]["content-type"]) == (body, content_type)


def test_bytes_that_are_not_base64_are_refused(api):
    content = {"application/octet-stream": {}}
    why = refusal(api, {"body": "?!"}, method="post", requestBody={"content": content})
    assert why == 'argument "body" is not base64; bytes are written as base64 text'


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, '"limit" is a required property'),
        ({"limit": 500}, "500 is greater than the maximum of 100"),
        ({"limit": 5, "limt": 6}, "'limt' was unexpected"),
        ({"limit": "many"}, '"many" is not of type "integer"'),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_a_request(api, arguments, why):
    limit = parameter("limit", "query", {"type": "integer", "maximum": 100}, required=True)
    before = len(api.requests)
    assert why in refusal(api, arguments, parameters=[limit])
    assert len(api.requests) == before


def test_text_for_a_number_and_null_for_nothing_are_read(api):
    described = [
        parameter("limit", "query", {"type": "integer"}),
        parameter("after", "query", {"type": "string"}),
    ]
    assert send(api, {"limit": "5", "after": None}, parameters=described)["query"] == "limit=5"


@pytest.mark.parametrize("method", ["get", "put", "post", "delete", "options", "patch"])
def test_each_method_is_sent(api, method):
    assert send(api, method=method)["method"] == method.upper()


def test_an_argument_that_a_view_hides_is_sent_and_not_listed(api):
    described = [parameter("token", "query", required=True), parameter("q", "query")]
    source = openapi(document(parameters=described), base_url=api.url)
    view = source.change("call", hide={"token": "t1"}).prefix("shop")
    (entry,) = view.entries("tools")
    assert list(entry.item.input_schema["properties"]) == ["q"]
    sent = text_of(call_tool(view, {"q": "x"}, name="shop_call"))
    assert '"query": "token=t1&q=x"' in sent


@pytest.mark.parametrize(
    ("missing", "arguments", "said"),
    [
        ("jsonschema_rs", {"limit": 500}, "at limit: expected at most 100"),
        ("jsonschema_rs", {"limit": 5}, "limit=5"),
        ("aiohttp", {}, "calling an API needs the extra 'http'"),
    ],
)
def test_a_missing_extra_is_named_or_done_without(api, missing, arguments, said):
    limit = parameter("limit", "query", {"type": "integer", "maximum": 100})
    described = document(parameters=[limit])
    code = (
        f"import asyncio, sys; sys.modules[{missing!r}] = None\n"
        "from accord import Server\nfrom accord.compose import openapi\n"
        f"server = Server('hub'); server.mount(openapi({described!r}, base_url={api.url!r}))\n"
        f"try: print(asyncio.run(server.call_tool('call', {arguments!r})))\n"
        "except Exception as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said in done.stdout
