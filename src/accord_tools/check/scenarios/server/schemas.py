"""JSON Schemas of tools: read by the right dialect, and within bounds."""

from collections.abc import Iterator
from typing import Any, Final

from accord.json_schema.samples import sample
from accord.json_schema.validation import UNDECIDED, compile_schema
from accord.types import JsonObject
from accord_tools.check.probing.messages import Reply
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import call, has_failed, is_alive, scenario

_DEFAULT: Final = "schema.dialect.default-2020-12"
_SUPPORTS: Final = "schema.dialect.supports-2020-12"
_AS_DECLARED: Final = "schema.dialect.validated-as-declared"
_BOUNDS: Final = "schema.bounds"
_DIALECTS: Final = (_DEFAULT, _SUPPORTS, _AS_DECLARED)
_2020: Final = "2020-12"
_DRAFT_7: Final = "draft-07"
# Keywords that readers of the other dialects do not know, or read in another way.
_OWN_KEYWORDS: Final = {
    _2020: frozenset(
        {
            "prefixItems",
            "dependentRequired",
            "dependentSchemas",
            "unevaluatedProperties",
            "unevaluatedItems",
            "minContains",
            "maxContains",
        }
    ),
    _DRAFT_7: frozenset({"dependencies", "additionalItems"}),
}
_ODD: Final[Any] = {"accord-check": []}
_TOOLS: Final = 20
_CANDIDATES: Final = 3
_WITHOUT_KEYWORDS: Final = "no tool that may be called has a schema that dialects read differently"


@scenario(*_DIALECTS, needs="tools", sends=("tools/call",))
async def sends_arguments_that_only_one_dialect_refuses(
    probe: Probe, connection: RawConnection
) -> None:
    for tool in probe.facts.callable_tools()[:_TOOLS]:
        schema = tool.tool.get("inputSchema")
        dialect = _dialect_of(schema)
        if not isinstance(schema, dict) or dialect is None:
            continue
        refused = [*_refused_by(schema, dialect, tool.arguments)][:_CANDIDATES]
        if not refused or not await _refuses_plain_mistakes(probe, connection, tool):
            continue
        ids = _ids_of(schema, dialect)
        for arguments in refused:
            reply = await call(probe, connection, ToolCall(tool.tool, arguments))
            if reply is not None:
                _judge(probe, ids, reply, f"{tool.name} with {arguments}", dialect)
    probe.skip(_DIALECTS, _WITHOUT_KEYWORDS)


def _dialect_of(schema: object) -> str | None:
    """Return the dialect of a schema; None if it is neither of those that are tried."""
    declared = schema.get("$schema", _2020) if isinstance(schema, dict) else None
    return next((each for each in _OWN_KEYWORDS if each in str(declared)), None)


def _ids_of(schema: JsonObject, dialect: str) -> tuple[str, ...]:
    if "$schema" not in schema:
        return (_DEFAULT, _SUPPORTS)
    return (_SUPPORTS, _AS_DECLARED) if dialect == _2020 else (_AS_DECLARED,)


def _judge(probe: Probe, ids: tuple[str, ...], reply: Reply, what: str, dialect: str) -> None:
    why = f"calls {what}, which its inputSchema refuses in JSON Schema {dialect}"
    for id in ids:
        probe.holds(id, has_failed(reply), why)


async def _refuses_plain_mistakes(probe: Probe, connection: RawConnection, tool: ToolCall) -> bool:
    """Return whether arguments are validated at all: tools.server.validates-inputs judges that."""
    schema = tool.tool["inputSchema"]
    for name in schema.get("required", ()):
        fewer = {key: value for key, value in tool.arguments.items() if key != name}
        reply = await call(probe, connection, ToolCall(tool.tool, fewer))
        return reply is not None and has_failed(reply)
    properties = schema.get("properties")
    for name in properties if isinstance(properties, dict) else ():
        for odd in (_ODD, 7):
            if _is_refused(_strip(schema), tool.arguments | {name: odd}):
                wrong = ToolCall(tool.tool, tool.arguments | {name: odd})
                reply = await call(probe, connection, wrong)
                return reply is not None and has_failed(reply)
    return False


# -- arguments that only the keywords of one dialect refuse


def _refused_by(schema: JsonObject, dialect: str, valid: JsonObject) -> Iterator[JsonObject]:
    stripped = _strip(schema)
    for arguments in _candidates(schema, valid, schema):
        if _is_refused(schema, arguments) and not _is_refused(stripped, arguments):
            yield arguments


def _is_refused(schema: object, value: object) -> bool:
    try:
        found = compile_schema(schema)(value)
    except ValueError:
        # The monitor reports an invalid schema.
        return False
    return found is not None and not found.startswith(UNDECIDED)


def _strip(schema: Any) -> Any:
    """Return a schema without the keywords of one dialect alone."""
    if isinstance(schema, list):
        return [_strip(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    own = {name for keywords in _OWN_KEYWORDS.values() for name in keywords}
    if "prefixItems" in schema or isinstance(schema.get("items"), list):
        own |= {"items"}
    if "$ref" in schema:
        # Before 2019-09 the keywords beside a reference were ignored.
        own |= {*schema} - {"$ref", "$defs", "definitions", "$schema"}
    return {name: _strip(value) for name, value in schema.items() if name not in own}


def _candidates(schema: JsonObject, value: Any, root: JsonObject) -> Iterator[Any]:
    """Return changes of a value that keywords of one dialect may refuse."""
    if isinstance(value, dict):
        yield value | {"accord-check": 1}
        dependencies = [schema.get(name) for name in ("dependentRequired", "dependencies")]
        for each in dependencies:
            for trigger, needed in each.items() if isinstance(each, dict) else ():
                rules = schema.get("properties")
                rule = rules.get(trigger) if isinstance(rules, dict) else None
                names = needed if isinstance(needed, list) else ()
                kept = {name: each for name, each in value.items() if name not in names}
                yield kept | {trigger: value.get(trigger, sample(rule, root=root))}
        properties = schema.get("properties")
        for name, rule in properties.items() if isinstance(properties, dict) else ():
            if isinstance(rule, dict):
                inner = value.get(name, sample(rule, root=root))
                for changed in _candidates(rule, inner, root):
                    yield value | {name: changed}
    elif isinstance(value, list):
        for place in range(max(len(value), 1)):
            for odd in (_ODD, 7, "accord-check"):
                yield [*value[:place], odd, *value[place + 1 :]]
        yield [*value, *value, *value]
    elif isinstance(value, str):
        yield from ("", value * 200)
    elif isinstance(value, int | float):
        yield from (value + 10**6, value - 10**6)


# -- schemas that refer to themselves

_DEPTH: Final = 300


@scenario(_BOUNDS, needs="tools", sends=("tools/call",))
async def nests_arguments_deeply(probe: Probe, connection: RawConnection) -> None:
    for tool in probe.facts.callable_tools()[:_TOOLS]:
        arguments = _nested_arguments(tool)
        if arguments is None:
            continue
        what = f"arguments of {tool.name} that nest {_DEPTH} deep"
        try:
            await connection.ask("tools/call", ToolCall(tool.tool, arguments).params)
        except ConnectionEnded as error:
            probe.fail(_BOUNDS, f"ends after {what}: {error}")
            raise
        except MessageTimeout:
            if not await is_alive(probe, connection, what):
                probe.fail(_BOUNDS, f"answers nothing more after {what}")
                return
        probe.passes(_BOUNDS)
    probe.skip(_BOUNDS, "no tool that may be called has a schema that refers to itself")


def _nested_arguments(tool: ToolCall) -> JsonObject | None:
    """Return arguments that use a schema within itself; None if it has no such use."""
    schema = tool.tool.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for name, rule in properties.items() if isinstance(properties, dict) else ():
        reference = rule.get("$ref") if isinstance(rule, dict) else None
        found = _resolve(schema, reference)
        inner = _place_within(found, reference)
        if found is not None and inner is not None:
            plain = sample(found, root=schema)
            if not isinstance(plain, dict):
                continue
            value: Any = plain
            member, is_list = inner
            for _ in range(_DEPTH):
                value = plain | {member: [value] if is_list else value}
            return tool.arguments | {name: value}
    return None


def _resolve(schema: Any, reference: object) -> JsonObject | None:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found = schema
    for part in reference[2:].split("/"):
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _place_within(schema: JsonObject | None, reference: object) -> tuple[str, bool] | None:
    """Return the member of a schema that refers to it, and whether it is a list of them."""
    properties = schema.get("properties") if schema is not None else None
    for name, rule in properties.items() if isinstance(properties, dict) else ():
        if isinstance(rule, dict):
            items = rule.get("items")
            if isinstance(items, dict) and items.get("$ref") == reference:
                return name, True
            choices = [rule, *(rule.get("anyOf") or ())]
            if any(isinstance(each, dict) and each.get("$ref") == reference for each in choices):
                return name, False
    return None
