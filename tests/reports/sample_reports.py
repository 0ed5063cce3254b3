"""Reports for tests: one with violations and hostile text, one without, ones of any size."""

from accord.protocol.catalogue import requirements
from accord.protocol.verdict import Evidence, Verdict
from accord.protocol.violation import Violation
from accord.types import REVISION_IDS
from accord_tools.reports.report import Setting, ViolationGroups, build_report, merge_revisions

NEW = REVISION_IDS[2]
OLD = REVISION_IDS[1]
NASTY = 'x\x1b[2J\x9b31m\u202e\x00\n\ud800"<b>|`@all'


def verdict(id_, name, message="", evidence=(), level="MUST"):
    return Verdict(id_, level, "server", (NEW,), name, message, list(evidence))


def hostile_report():
    """Return the report of a recording full of text that tries to escape its format."""
    groups = ViolationGroups()
    for number in (3, 4, 9):
        groups.add(
            Violation(
                "tools.call.content-array",
                "server",
                f"sends {NASTY}",
                severity="fail",
                number=number,
                evidence=NASTY,
            )
        )
    groups.add(
        Violation(
            "tools.structured-content.also-text",
            "server",
            "sends no text",
            severity="warn",
            number=7,
        )
    )
    groups.add(
        Violation("jsonrpc.request.answered", "client", "leaves a question", severity="warn")
    )
    return build_report(
        [
            verdict("jsonrpc.request.answered", "warn", "leaves a question"),
            verdict("jsonrpc.request.id-not-null", "pass", "held"),
            verdict(
                "tools.call.content-array",
                "fail",
                f"sends {NASTY}",
                [Evidence(f"sends {NASTY}", "server", 3, NASTY)],
            ),
            verdict(
                "tools.structured-content.also-text",
                "warn",
                "sends no text",
                [Evidence("sends no text", "server")],
            ),
            verdict("tools.item.title", "not-exercised", "no message put this to the test"),
            verdict("roots.item.name", "not-applicable"),
        ],
        target=f"{NASTY}.jsonl",
        revision=NEW,
        judged_by=NEW,
        decidable={"tools.item.title"},
        violations=groups.failures_first(),
    )


def spotless_report():
    """Return the report of a recording without violations and without a revision."""
    return build_report(
        [verdict("ping.response.empty", "pass", "held")],
        target="session.jsonl",
        revision=None,
        judged_by=NEW,
        decidable=(),
    )


SETTING = Setting(
    transport="stdio",
    at="2025-07-01 12:00 UTC",
    seconds=12.345,
    command="accord check server 'my server.py'",
    artifact="my server.py",
)
ASKED = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}'
ANSWERED = '{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"<3>"}]}}'


def server_report(breaches=3, *, setting=SETTING):
    """Return the report of a server under two revisions, with this many violations."""
    found = {}
    for revision in (NEW, OLD):
        rows = requirements(revision=revision, party="server")
        found[revision] = [_of(row, place, breaches, revision) for place, row in enumerate(rows)]
    return merge_revisions(found, target="my server.py", party="server", setting=setting)


def _of(row, place, breaches, revision):
    name = ("pass", "pass", "not-exercised", "not-applicable")[place % 4]
    message, evidence = "held", []
    if place < breaches:
        name = "fail" if place < 3 else row.severity_in(revision) or "warn"
        message = f"answers with breach number {place}"
        evidence = [
            Evidence(message, "server"),
            Evidence("message", "client", 12, ASKED),
            Evidence("HTTP 200 message", "server", 13, ANSWERED),
        ]
    elif name != "pass":
        message = "the server gave no occasion for it"
    return Verdict(row.id, row.level_in(revision), row.party, (revision,), name, message, evidence)
