"""Our types against every definition of every official schema, in three directions."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from accord.protocol.shape import decode, derive, narrow
from accord.types import REVISION_IDS, RevisionId
from accord.types._base import lifetime_of
from schema import from_schema, from_types
from schema.official import ABSENT_REASON, PRESENT, complaints, definitions
from schema.table import EXCLUDED, EXTRA, LOOSE, ROWS, Row
from support.tables import cases

pytestmark = pytest.mark.skipif(not PRESENT, reason=ABSENT_REASON)

# Few examples for each of some 1,300 cases: members are also compared one by one, without chance.
few = settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def each_definition(*, without: tuple[str, ...] = ()) -> Any:
    found = [
        pytest.param(revision, row, id=f"{revision}-{row.definition}")
        for revision in REVISION_IDS
        for row in ROWS
        if revision in row.lifetime and row.form not in without
    ]
    return cases(("revision", "row"), found)


@cases("revision", REVISION_IDS)
def test_every_definition_has_one_row_or_a_reason_to_have_none(revision: RevisionId) -> None:
    rows = [row.definition for row in ROWS if revision in row.lifetime]
    listed = {*rows, *EXCLUDED}
    assert sorted(set(rows)) == sorted(rows)
    assert sorted(definitions(revision).keys() - listed) == []
    assert sorted(set(rows) - definitions(revision).keys()) == []


def test_every_exclusion_is_of_a_definition_that_exists() -> None:
    everywhere = set().union(*(definitions(revision) for revision in REVISION_IDS))
    assert EXCLUDED.keys() <= everywhere
    assert not EXCLUDED.keys() & {row.definition for row in ROWS}


@cases("revision", REVISION_IDS)
def test_members_and_required_members_are_those_of_the_definitions(revision: RevisionId) -> None:
    own = ("object", "request", "notification")
    rows = [row for row in ROWS if revision in row.lifetime and row.strict and row.form in own]
    assert [each for row in rows for each in disagreements(revision, row)] == []


def disagreements(revision: RevisionId, row: Row) -> list[str]:
    node = members_node(definitions(revision)[row.definition], row)
    struct = derive(row.type, revision)
    if node is None or not hasattr(struct, "__struct_fields__"):
        return []
    ours, ours_required = members_of(struct)
    extra = EXTRA.get(row.definition, set())
    envelope = {"_meta"} if row.type.__name__.endswith("Params") else set()
    loose = LOOSE.get(row.type.__name__, set()) | envelope
    theirs = node["properties"].keys()
    unequal = (ours_required ^ set(node.get("required", ()))) - loose
    if row.form != "object":  # the older files leave the `_meta` of params to the envelope
        extra = extra | {"_meta"}
    return [
        *(f"no field for {row.definition}.{name}" for name in theirs - ours),
        *(f"{row.definition} has no {name}" for name in ours - theirs - extra),
        *(f"{row.definition}.{name} is required on one side only" for name in unequal),
    ]


def members_node(node: dict[str, Any], row: Row) -> dict[str, Any] | None:
    """Find the object that our type describes inside a definition."""
    if row.form in ("request", "notification"):
        node = node["properties"].get("params", {})
    return node if "properties" in node else None


def members_of(struct: Any) -> tuple[set[str], set[str]]:
    fields = msgspec.structs.fields(struct)
    tag = struct.__struct_config__.tag_field
    always = {tag} if tag else set()
    names = {field.encode_name for field in fields}
    return names | always, {field.encode_name for field in fields if field.required} | always


@each_definition(without=("free",))
def test_a_message_built_from_a_derived_type_is_valid(revision: RevisionId, row: Row) -> None:
    @few
    @given(built(row, derive(row.type, revision), revision))
    def check(value: Any) -> None:
        assert complaints(revision, row.definition, message(row, value), row.strict) == []

    check()


@each_definition(without=("free",))
def test_a_narrowed_message_is_valid(revision: RevisionId, row: Row) -> None:
    @few
    @given(built(row, row.type, revision))
    def check(value: Any) -> None:
        before = msgspec.json.encode(value)
        narrowed = narrow(value, revision)
        assert complaints(revision, row.definition, message(row, narrowed), row.strict) == []
        assert narrow(narrowed, revision) is narrowed
        assert msgspec.json.encode(value) == before

    check()


@each_definition(without=("response",))
def test_a_valid_message_decodes_and_keeps_every_member(revision: RevisionId, row: Row) -> None:
    @few
    @given(from_schema.instances(revision, row.definition))
    def check(instance: Any) -> None:
        body = payload(row, instance)
        assume(body is not None)
        value = decode(msgspec.json.encode(body), row.type, revision)
        if row.strict:
            assert significant(plain(value)) == significant(body)
            assert significant(plain(narrow(value, revision))) == significant(body)

    check()


STRUCTS = sorted({row.type for row in ROWS if hasattr(row.type, "__struct_fields__")}, key=str)


@pytest.mark.parametrize("revision", REVISION_IDS)
def test_keys_outside_their_lifetime_do_no_harm(revision: RevisionId) -> None:
    alive = [struct for struct in STRUCTS if revision in lifetime_of(struct)]
    drawn = st.sampled_from(alive).flatmap(
        lambda struct: st.tuples(st.just(struct), from_types.instances(struct, revision))
    )

    @settings(few, max_examples=100)
    @given(drawn)
    def check(pair: Any) -> None:
        struct, value = pair
        clean = plain(narrow(value, revision))
        known = {field.encode_name for field in msgspec.structs.fields(derive(struct, revision))}
        strangers = set(struct.__struct_encode_fields__) - known
        odd = clean | {key: [{"odd": 1}] for key in strangers}
        read = decode(msgspec.json.encode(odd), struct, revision)
        assert plain(narrow(read, revision)) == clean

    check()


def built(row: Row, type_: Any, revision: RevisionId) -> st.SearchStrategy[Any]:
    return from_types.instances(type_, revision, **row.given)


def plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def message(row: Row, value: Any) -> Any:
    """Put a value into the envelope that its definition describes."""
    head: dict[str, Any] = {"jsonrpc": "2.0", "id": 1}
    forms = {
        "request": lambda: head | {"method": row.method, "params": plain(value)},
        "notification": lambda: {"jsonrpc": "2.0", "method": row.method, "params": plain(value)},
        "response": lambda: head | {"result": plain(value)},
        "error": lambda: (
            head | {"error": {"code": row.code, "message": "no", "data": plain(value)}}
        ),
        "object": lambda: plain(value),
    }
    return forms[row.form]()


def payload(row: Row, instance: Any) -> Any:
    """Take the part of a message that the type describes; None where it is left out."""
    if row.form in ("request", "notification"):
        return instance.get("params")
    return instance["error"]["data"] if row.form == "error" else instance


# Capabilities without settings in some revisions; what a peer puts there is not kept.
BARE = {"roots", "sampling", "elicitation"}


def significant(value: Any) -> Any:
    """Leave away strangers and members that say the same as their absence."""
    if isinstance(value, list):
        return [significant(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: significant(without_settings(each) if key in BARE else each)
        for key, each in value.items()
        if key != from_schema.STRANGER
        and not (key == "stopReason" and each == "endTurn")
        and each is not None
        and each is not False
    }


def without_settings(capability: Any) -> Any:
    if not isinstance(capability, dict):
        return capability
    return {key: value for key, value in capability.items() if key not in from_schema.KEYS}
