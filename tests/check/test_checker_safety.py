"""A check never requests private addresses for a server, and never reveals a token."""

import asyncio
import json

from msgspec.structs import replace

from accord.http.client.guarded import AddressPolicy, GuardedSender
from accord.http.rules.responses import parse_challenges
from accord_tools.check.probing.authorization import fetch_metadata
from accord_tools.check.server_check import ServerPlan, check_server
from accord_tools.reports.machine_readable import as_json
from check.mutants.protected import OTHER, OWN, protected
from support.check_targets import check_target
from support.http_server import free_port, serving
from support.waiting import LONG

NEW = "2025-06-18"
ROW = "auth.role.resource-server"
CREDENTIALS = {"AccessKeyId": "id-of-this-machine", "SecretAccessKey": "secret-of-this-machine"}


def application(seen, status, headers, body):
    """Return an application that answers every request alike and keeps the paths."""

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        seen.append(scope["path"])
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": body})

    return app


def credentials(seen):
    body = json.dumps(CREDENTIALS).encode()
    return application(seen, 200, {"content-type": "application/json"}, body)


def challenging(named):
    challenge = f'Bearer resource_metadata="{named}"'
    return application([], 401, {"www-authenticate": challenge}, b"")


def checked(subject, *only):
    async def run():
        async with asyncio.timeout(170):
            return await check_server(subject, ServerPlan(revisions=[NEW], only=only))

    return asyncio.run(run())


def judged(report):
    return {result.id: result for result in report.results}


# -- addresses that a server names


def test_the_answer_of_another_service_is_not_in_the_report():
    seen = []
    with serving(credentials(seen)) as other:
        named = f"http://127.0.0.1:{other}/latest/meta-data/iam"
        with serving(challenging(named)) as port:
            report = checked(
                check_target(name="hostile", url=f"http://127.0.0.1:{port}/mcp"), "auth"
            )
    shown = as_json(report)
    assert not [value for value in (*CREDENTIALS, *CREDENTIALS.values()) if value in shown]


def test_a_public_server_cannot_make_the_check_send_requests_to_this_machine():
    seen = []
    # Nothing leaves this machine: public requests would go through a proxy that does not exist.
    nowhere = f"http://127.0.0.1:{free_port()}"

    async def run(named):
        url = "https://mcp.invalid/mcp"
        sender = GuardedSender(AddressPolicy.beside(url), seconds=LONG, proxy=nowhere)
        line = check_target(name="public", url=url).connection(is_judged=False)
        challenges = parse_challenges([f'Bearer resource_metadata="{named}"'])
        return await fetch_metadata(sender, line, url, challenges)

    with serving(credentials(seen)) as other:
        published = asyncio.run(run(f"http://127.0.0.1:{other}/latest/meta-data/iam"))
    assert seen == []
    assert published.resource is None
    assert "was not asked" in published.refused


def test_an_address_that_was_not_requested_is_not_a_violation():
    with serving(challenging("http://169.254.169.254/latest/meta-data/iam")) as port:
        report = checked(
            check_target(name="hostile", url=f"http://127.0.0.1:{port}/mcp"), "auth.prm"
        )
    row = judged(report)["auth.prm.server"]
    assert row.verdict == "not-exercised"
    assert "http://169.254.169.254/latest/meta-data/iam was not asked" in row.message


# -- tokens


def answering(queries, challenge=None):
    """Return a hook that keeps queries, and answers those with a token by 401 and a challenge."""

    def hook(web):
        usual = web.before

        def before(asked):
            queries.append(asked.query)
            if challenge is not None and "access_token=" in asked.query:
                return 401, {"www-authenticate": challenge}, b""
            return usual(asked)

        web.before = before

    return hook


def checked_protected(hook, **changes):
    async def run():
        async with protected(hook)() as subject, asyncio.timeout(170):
            subject = replace(subject, **changes)
            return await check_server(
                subject, ServerPlan(revisions=[NEW], only=["auth", "session"])
            )

    return asyncio.run(run())


def test_the_users_token_is_never_sent_in_a_query():
    queries = []
    report = checked_protected(answering(queries, "Bearer"))
    assert any("access_token=" in query for query in queries)
    assert not [query for query in queries if OWN in query or OTHER in query]
    row = judged(report)[ROW]
    assert row.verdict == "not-exercised"
    assert "--allow-token-in-query" in row.message


def test_the_users_token_is_tried_in_a_query_if_allowed():
    queries = []
    report = checked_protected(answering(queries, "Bearer"), allow_token_in_query=True)
    assert any(OWN in query for query in queries)
    assert judged(report)[ROW].verdict == "pass"


def test_a_server_that_reads_tokens_from_the_query_is_found_with_an_invalid_token():
    queries = []
    report = checked_protected(answering(queries, 'Bearer error="invalid_token"'))
    row = judged(report)[ROW]
    assert (row.verdict, row.message) == ("fail", "looks for a token in the query of the URL")
    assert not [query for query in queries if OWN in query]


def test_a_server_that_refuses_every_token_in_the_query_passes():
    queries = []
    assert judged(checked_protected(answering(queries)))[ROW].verdict == "pass"
    assert not [query for query in queries if OWN in query]
