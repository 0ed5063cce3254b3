"""Messages with one fault each: they fit the revision, and name a clause that holds in it."""

import json

from accord.protocol.catalogue import catalogue
from accord.protocol.revisions import REVISIONS
from accord_tools.inspector.raw.templates import build_templates
from support.tables import cases

ALL = [(revision, transport) for revision in REVISIONS for transport in ("stdio", "http", "sse")]


@cases(("revision", "transport"), ALL)
def test_each_template_names_a_clause_that_holds_in_the_revision(revision, transport):
    found = build_templates(revision, transport)
    assert len(found) >= 14
    assert len({each.id for each in found}) == len(found)
    for each in found:
        assert catalogue()[each.requirement].holds_in(revision), each.id
        assert each.title
        assert each.explains
        if transport == "stdio":
            assert not each.headers
            assert each.http_method == "POST"


@cases("revision", REVISIONS)
def test_each_fault_of_the_list_is_there(revision):
    found = {each.id: each for each in build_templates(revision, "http")}
    everywhere = {
        *("unknown-method", "unknown-revision", "missing-jsonrpc", "null-id", "batch"),
        *("method-number", "late-cancel", "not-json"),
    }
    assert everywhere <= {*found}
    row = REVISIONS[revision]
    assert ("early-call" in found) == row.handshake
    assert ("missing-session" in found) == (row.handshake and row.streamable_http)
    assert ("missing-version-header" in found) == row.version_header
    assert ("wrong-version-header" in found) == row.version_header


@cases("revision", REVISIONS)
def test_a_template_has_only_its_own_fault(revision):
    for each in build_templates(revision, "stdio"):
        if each.id in ("not-json", "not-an-object", "batch", "two-lines"):
            continue
        value = json.loads(each.text)
        params = value.get("params", {})
        # An array cannot have it.
        has_meta = isinstance(params, list) or "_meta" in params
        is_request = isinstance(value.get("method"), str) and "id" in value
        faults = [
            value.get("jsonrpc") != "2.0",
            "id" in value and not isinstance(value["id"], int),
            not isinstance(value.get("method"), str),
            "params" in value and not isinstance(value["params"], dict),
            is_request and not REVISIONS[revision].handshake and not has_meta,
        ]
        assert sum(faults) <= 1, each.id
