"""Pairs of tool arguments that headers repeat."""

from typing import Any

from support.traces import C, Pair, S, Said

VERSION = "2026-07-28"
SCHEMA: Any = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "where": {
            "type": "object",
            "properties": {"city": {"type": "string", "x-mcp-header": "City"}},
        },
        "other": {"type": "string"},
    },
}


def _post(id: int, method: str, params: Any, **more: str) -> Said:
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": VERSION,
        "mcp-method": method,
        **({"mcp-name": params["name"]} if "name" in params else {}),
        **{f"mcp-param-{name}": text for name, text in more.items()},
    }
    said = C.request(id, method, params)
    return said.over(method="POST", headers=headers, recorded="all")


def _call(arguments: Any, **headers: str) -> list[Said]:
    tools = [{"name": "go", "inputSchema": SCHEMA}]
    listed = {"tools": tools, "ttlMs": 0, "cacheScope": "public"}
    call = _post(2, "tools/call", {"name": "go", "arguments": arguments}, **headers)
    return [_post(1, "tools/list", {}), S.result(1, listed), call]


def _pair(variant: str, requirement: str, legal: list[Said], illegal: list[Said]) -> Pair:
    return Pair(
        requirement=f"http.param-headers.{requirement}",
        legal=legal,
        illegal=illegal,
        server={"tools": {}},
        party="client",
        variant=variant,
    )


EU = {"region": "eu-1"}
TWO = {"region": "eu-1", "count": 2}
CITY = {"where": {"city": "Oslo"}, "other": "Rome"}
LEGAL = _call(EU, region="eu-1")

PAIRS = [
    _pair("", "client-support", LEGAL, _call(EU)),
    _pair("one of two", "client-support", LEGAL, _call(TWO, region="eu-1")),
    _pair("nested", "client-support", LEGAL, _call(CITY)),
    _pair("absent", "omitted-without-value", LEGAL, _call(EU, region="eu-1", count="0")),
    _pair("null", "omitted-without-value", LEGAL, _call({"region": None}, region="null")),
    _pair("empty", "omitted-without-value", LEGAL, _call({}, region="")),
    _pair("boolean", "value.string-forms", LEGAL, _call({"dry": True}, dry="True")),
    _pair("figure", "value.string-forms", LEGAL, _call({"count": 42}, count="42.0")),
    _pair("case", "value.string-forms", LEGAL, _call(EU, region="EU-1")),
    *(
        _pair(
            name,
            "value.base64-when-unsafe",
            _call({"region": "två"}, region="=?base64?dHbDpQ==?="),
            _call({"region": value}, region=given),
        )
        for name, value, given in (
            ("plain", "två", "två"),
            ("blank", " x", "x"),
            ("other encoding", "två", "tv%C3%A5"),
            ("line break", "a\nb", "a b"),
        )
    ),
    *(
        _pair(
            name,
            "value.sentinel-escaped",
            _call({"region": "=?base64?x?="}, region="=?base64?PT9iYXNlNjQ/eD89?="),
            _call({"region": value}, region=given),
        )
        for name, value, given in (
            ("as it is", "=?base64?x?=", "=?base64?x?="),
            ("valid inside", "=?base64?SGk=?=", "=?base64?SGk=?="),
            ("unwrapped", "=?base64?SGk=?=", "Hi"),
        )
    ),
    _pair("neighbour", "exact-path", _call(CITY, city="Oslo"), _call(CITY, city="Rome")),
    _pair("other value", "exact-path", LEGAL, _call(EU, region="us-2")),
    _pair("empty", "exact-path", LEGAL, _call(EU, region="")),
]
