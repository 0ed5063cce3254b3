import re
import subprocess
import sys
from collections import Counter
from importlib.resources import files

from accord.protocol.catalogue import AREAS, CHECKS, LEVELS, PARTIES, catalogue, requirements
from accord.types._base import REVISION_IDS
from support.tables import cases

IMPLIED = {
    "jsonrpc.request.answered",
    "resources.updated.subscribers-only",
    "logging.set-level.invalid-params",
    "stdio.shutdown.server-exits",
}
FIRST_THREE = ("2024-11-05: ", "2025-03-26: ", "2025-06-18: ", "practice: ")


def stated():
    """The rows taken from the documents of the first three revisions."""
    return [
        row
        for row in catalogue().values()
        if row.source[0].startswith(FIRST_THREE) and row.id not in IMPLIED
    ]


def test_every_requirement_of_both_registries_is_there():
    rows = catalogue()
    assert len(rows) == 932
    assert len(stated()) == 287
    assert set(rows) >= IMPLIED


def test_every_area_has_a_file_and_every_file_is_an_area():
    folder = files("accord.protocol").joinpath("requirements")
    assert sorted(f"{area}.toml" for area in AREAS) == sorted(
        each.name for each in folder.iterdir()
    )
    assert {row.area for row in catalogue().values()} == set(AREAS)


def test_every_id_starts_with_its_area_and_is_the_key():
    for id_, row in catalogue().items():
        assert id_ == row.id
        assert id_.startswith(f"{row.area}.")


@cases(
    ("revision", "counts", "also"),
    [
        ("2024-11-05", (80, 6, 10, 2, 18, 47), 13),
        ("2025-03-26", (96, 9, 18, 3, 29, 51), 13),
        ("2025-06-18", (103, 11, 18, 0, 10, 24), 76),
        ("practice", (3, 0, 4, 0, 0, 18), 0),
    ],
)
def test_rows_by_revision_and_level(revision, counts, also):
    rows = [row for row in stated() if revision in row.revisions]
    found = Counter(row.levels.get(revision, row.level) for row in rows)
    assert tuple(found[level] for level in LEVELS) == counts
    silent = [row for row in stated() if revision in row.also and not row.is_practice]
    assert len(silent) == also


def test_rows_of_the_first_three_revisions_by_level():
    found = Counter(row.level for row in stated())
    assert tuple(found[level] for level in LEVELS) == (127, 13, 31, 3, 33, 80)


def test_rows_of_the_first_three_revisions_by_area():
    assert Counter(row.area for row in stated()) == {
        "auth": 35,
        "lifecycle": 26,
        "resources": 26,
        "practice": 25,
        "http": 19,
        "tools": 19,
        "jsonrpc": 16,
        "prompts": 16,
        "session": 11,
        "sampling": 9,
        "progress": 9,
        "pagination": 9,
        "roots": 8,
        "logging": 8,
        "stdio": 7,
        "elicitation": 7,
        "cancellation": 7,
        "completion": 7,
        "meta": 7,
        "sse": 6,
        "errors": 6,
        "ping": 4,
    }


def test_rows_of_the_first_three_revisions_by_check_and_party():
    assert Counter(row.check for row in stated()) == {
        "wire": 146,
        "server-probe": 44,
        "auth-probe": 30,
        "http-probe": 25,
        "client-probe": 19,
        "human": 13,
        "process": 10,
    }
    assert Counter(row.party for row in stated()) == {
        "server": 144,
        "client": 74,
        "both": 26,
        "receiver": 19,
        "sender": 17,
        "host": 4,
        "authorization-server": 3,
    }


def test_all_rows_by_level_and_check():
    rows = catalogue().values()
    assert Counter(row.level for row in rows) == {
        "MUST": 456,
        "SHOULD": 242,
        "MUST NOT": 88,
        "FACT": 80,
        "MAY": 33,
        "SHOULD NOT": 33,
    }
    assert Counter(row.check for row in rows) == {
        "wire": 322,
        "server-probe": 166,
        "client-probe": 129,
        "auth-probe": 115,
        "human": 113,
        "http-probe": 70,
        "process": 17,
    }


@cases(("revision", "count"), list(zip(REVISION_IDS, (263, 334, 390, 570, 681), strict=True)))
def test_rows_that_hold_in_a_revision(revision, count):
    assert len(list(requirements(revision=revision))) == count


def test_every_replacing_row_exists_and_a_replaced_row_says_when():
    rows = catalogue()
    for row in rows.values():
        assert set(row.replaced_by) <= set(rows), row.id
        assert not row.replaced_by or row.removed_in or row.changed_in, row.id


def test_no_row_is_listed_in_a_revision_after_its_end():
    for row in catalogue().values():
        for revision in (*row.revisions, *row.also):
            assert revision == "practice" or not row._has_ended(revision), row.id


def test_the_data_speaks_for_itself():
    for each in files("accord.protocol").joinpath("requirements").iterdir():
        text = each.read_text("utf-8").lower()
        assert "seed" not in text, each.name
        for number in ("000:", "001:", "002:", "003:", "004:"):
            assert number not in text, each.name


LONGEST_MEND = 220


def test_every_row_says_in_one_sentence_of_its_own_how_to_mend_a_breach():
    rows = catalogue()
    for row in rows.values():
        assert row.mend.endswith("."), row.id
        assert 20 <= len(row.mend) <= LONGEST_MEND, row.id
        assert not re.search(r"[.!?] [A-Z]", row.mend), f"{row.id} has two sentences"
        assert not re.match(r"(The|An?|It|This|Every|Each|All) ", row.mend), row.id
    assert len({row.mend for row in rows.values()}) == len(rows)
    assert {row.mend for row in rows.values()}.isdisjoint(row.text for row in rows.values())


HOLDS = [
    # a row lives on until a revision removes or replaces it
    ("jsonrpc.request.id-present", REVISION_IDS),
    ("jsonrpc.request.id-unique", REVISION_IDS[:4]),
    ("jsonrpc.response.id-echo", REVISION_IDS[:3]),
    ("jsonrpc.request.params-object", REVISION_IDS[:4]),
    # changed, and nothing replaces it
    ("http.post.accepted-202", REVISION_IDS[1:]),
    # silent documents
    ("http.origin.validated", REVISION_IDS),
    ("jsonrpc.notification.params-object", REVISION_IDS),
    # gone before the third revision, and gone for good
    ("sse.endpoint.stream", REVISION_IDS[:1]),
    ("jsonrpc.batch.receive", REVISION_IDS[1:2]),
    ("jsonrpc.batch.removed", REVISION_IDS[2:]),
    ("errors.invalid-params.data-details", REVISION_IDS[:2]),
    # rows of the later revisions
    ("jsonrpc.response.result-member", REVISION_IDS[3:]),
    ("jsonrpc.id.distinct-among-pending", REVISION_IDS[4:]),
    ("jsonrpc.notification.not-answered", REVISION_IDS),
    # observed practice belongs to the handshake revisions
    ("practice.list.empty-params", REVISION_IDS[:4]),
    ("practice.tools.unknown-tool-as-result", REVISION_IDS[:4]),
    # implied rows
    ("jsonrpc.request.answered", REVISION_IDS),
    ("logging.set-level.invalid-params", REVISION_IDS[:4]),
    ("stdio.shutdown.server-exits", REVISION_IDS[:4]),
]


@cases(("id_", "revisions"), HOLDS, ids=[id_ for id_, _ in HOLDS])
def test_a_row_holds_in_exactly_its_revisions(id_, revisions):
    row = catalogue()[id_]
    assert tuple(each for each in REVISION_IDS if row.holds_in(each)) == tuple(revisions)


OLD, MIDDLE, NEW, NEXT, LAST = REVISION_IDS
JUDGED = [
    # optional in the official text: an absence breaks nothing
    ("tools.call.is-error-flag", NEW, "MAY", None),
    ("tools.call.is-error-flag", NEXT, "MAY", None),
    ("tools.item.description", OLD, "MAY", None),
    ("sampling.result.stop-reason", MIDDLE, "MAY", None),
    ("resources.item.title", NEW, "MAY", None),
    ("prompts.item.title", NEW, "MAY", None),
    ("tools.item.title", NEW, "MAY", None),
    ("resources.contents.mime-type", OLD, "MAY", None),
    ("practice.tools.descriptive-schemas", NEW, "MAY", None),
    # a stronger one applies
    ("resources.template.name", OLD, "MUST", "fail"),
    ("resources.template.name", NEW, "MUST", "fail"),
    ("resources.template.name", LAST, "MUST", "fail"),
    ("http.get.accept-event-stream", MIDDLE, "MUST", "fail"),
    ("session.end.terminated-404", NEW, "MUST", "fail"),
    ("lifecycle.implementation.name-and-version", OLD, "MUST", "fail"),
    ("resources.updated.uri-param", OLD, "MUST", "fail"),
    ("logging.message.level-and-data", MIDDLE, "MUST", "fail"),
    ("pagination.end.no-next-cursor", OLD, "SHOULD", "warn"),
    # only from one revision on
    ("lifecycle.capabilities.only-declared", OLD, "SHOULD", "warn"),
    ("lifecycle.capabilities.only-declared", MIDDLE, "SHOULD", "warn"),
    ("lifecycle.capabilities.only-declared", NEW, "MUST", "fail"),
    ("lifecycle.capabilities.only-declared", NEXT, "MUST", "fail"),
    # levels that differ by revision
    ("lifecycle.capabilities.respected", OLD, "SHOULD", "warn"),
    ("lifecycle.capabilities.respected", NEW, "MUST", "fail"),
    ("lifecycle.capabilities.respected", NEXT, "MUST", "fail"),
    ("session.id.secure", MIDDLE, "SHOULD", "warn"),
    ("session.id.secure", NEW, "MUST", "fail"),
    ("roots.item.name", OLD, "MAY", "fail"),
    ("roots.item.name", NEW, "MAY", None),
    ("roots.item.name", NEXT, "MAY", None),
    ("logging.levels.rfc5424", OLD, "FACT", "fail"),
    ("logging.levels.rfc5424", NEW, "MUST", "fail"),
    # described without a keyword: the level of the row stands
    ("stdio.framing.newline-delimited", OLD, "MUST", "fail"),
    ("resources.updated.sent", NEW, "MUST", "fail"),
    ("tools.list-changed.capability-required", MIDDLE, "MUST", "fail"),
    ("auth.consent.user-explicit", OLD, "MUST", "fail"),
    # plain rows
    ("roots.item.uri", NEW, "MUST", "fail"),
    ("elicitation.result.action-values", NEW, "MUST", "fail"),
    ("jsonrpc.batch.removed", NEW, "MUST NOT", "fail"),
    ("auth.token.no-passthrough", NEW, "MUST NOT", "fail"),
    ("jsonrpc.request.params-object", OLD, "MAY", "fail"),
    ("session.id.header-name", NEW, "FACT", "fail"),
    # without a keyword, and about what a party does: a breach warns
    ("errors.code.method-not-found", OLD, "FACT", "warn"),
    ("errors.code.invalid-params", NEW, "FACT", "warn"),
    ("logging.message.min-level", NEW, "FACT", "warn"),
    ("errors.code.resource-not-found", OLD, "SHOULD", "warn"),
    ("errors.code.resource-not-found", NEW, "SHOULD", "warn"),
    ("cancellation.receiver.stops", OLD, "SHOULD", "warn"),
    # practice never fails
    ("practice.tools.unknown-tool-as-result", OLD, "FACT", "warn"),
    ("practice.server.validates-inputs", NEW, "MUST", "warn"),
]


@cases(
    ("id_", "revision", "level", "severity"), JUDGED, ids=[f"{row[0]} {row[1]}" for row in JUDGED]
)
def test_the_level_and_severity_of_a_row_in_a_revision(id_, revision, level, severity):
    row = catalogue()[id_]
    assert row.level_in(revision) == level
    assert row.severity_in(revision) == severity


def test_filters_combine_and_keep_the_order_of_the_catalogue():
    order = list(catalogue())
    rows = list(
        requirements(revision=NEW, level="MUST", area="tools", party="server", check="wire")
    )
    assert rows
    assert [row.id for row in rows] == [id_ for id_ in order if id_ in {row.id for row in rows}]
    for row in rows:
        assert row.holds_in(NEW)
        assert (row.level_in(NEW), row.area, row.party, row.check) == (
            "MUST",
            "tools",
            "server",
            "wire",
        )


def test_a_level_filter_means_the_level_in_the_given_revision():
    old = {row.id for row in requirements(revision=OLD, level="MUST")}
    new = {row.id for row in requirements(revision=NEW, level="MUST")}
    assert "lifecycle.capabilities.respected" not in old
    assert "lifecycle.capabilities.respected" in new


def test_without_conditions_all_rows_come():
    assert [row.id for row in requirements()] == list(catalogue())


def test_every_listed_level_party_and_check_is_used():
    rows = catalogue().values()
    assert {row.level for row in rows} == set(LEVELS)
    assert {row.party for row in rows} == set(PARTIES)
    assert {row.check for row in rows} == set(CHECKS)


def test_importing_accord_reads_no_catalogue():
    code = (
        "import sys; before = set(sys.modules); import accord;"
        "print([m for m in set(sys.modules) - before if m in %r])"
    )
    wanted = ("accord.protocol.catalogue", "tomllib")
    done = subprocess.run(
        [sys.executable, "-c", code % (wanted,)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
