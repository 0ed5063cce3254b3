"""The full check from the page: it runs apart, can be stopped, and its report is kept."""

import asyncio
import json
import os
import sys

import pytest

from accord import Server
from accord.http.client.auth import Bearer
from accord_tools.inspector.check_run import CheckRun
from accord_tools.inspector.definition import ActionRefused
from inspector.reached_servers import (
    Guarded,
    ask,
    download,
    make_server,
    script_target,
    session_of,
    until,
    url_target,
)
from support.http_server import serving
from support.running import on_a_loop

# Answers initialize and nothing else, so that a check takes long; ignores SIGTERM.
SILENT = """
import json, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "silent", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def checked(session, **params):
    await ask(session, "check.start", **params)
    run = session.part(CheckRun)
    await until(lambda: run.state != "running")
    return await ask(session, "check.get")


@on_a_loop
async def test_a_check_reports_each_requirement_of_its_choice():
    with serving(make_server().asgi()) as port:
        async with session_of(url_target(port)) as session:
            assert (await ask(session, "check.get"))["state"] == "idle"
            with pytest.raises(ActionRefused, match="no report"):
                await download(session, "check.download", format="html")
            shown = await checked(session, revisions=["2025-06-18"], only="ping, tools.list")
            assert (shown["state"], shown["error"]) == ("done", "")
            report = shown["report"]
            assert report["revisions"] == ["2025-06-18"]
            assert report["counts"]["fail"] == 0
            assert report["score"] == 100
            found = {each["id"]: each for each in report["results"]}
            ping = found["ping.response.empty"]
            assert ping["verdict"] == "pass"
            assert ping["by_revision"] == {"2025-06-18": "pass"}
            assert ping["clause"]
            assert {each.split(".")[0] for each in found} == {"ping", "tools"}
            files = {
                form: await download(session, "check.download", format=form)
                for form in ("html", "json", "junit", "sarif", "text")
            }
    assert files["html"].startswith(b"<!")
    assert json.loads(files["json"])["score"] == 100
    assert b"<testsuite" in files["junit"]
    assert json.loads(files["sarif"])["version"] == "2.1.0"
    assert b"accord check server http" in files["json"]


@pytest.mark.parametrize(
    ("params", "says"),
    [({"only": "no-such.area"}, "no-such.area"), ({"revisions": ["1999-01-01"]}, "1999-01-01")],
)
@on_a_loop
async def test_an_unknown_choice_is_refused(params, says):
    async with session_of(url_target(1)) as session:
        with pytest.raises(ActionRefused, match=says):
            await ask(session, "check.start", **params)


@on_a_loop
async def test_a_server_that_cannot_be_reached_is_explained(tmp_path):
    async with session_of(script_target(tmp_path, "raise SystemExit(3)")) as session:
        shown = await checked(session, only="ping")
        assert shown["state"] == "failed"
        assert "exit code 3" in shown["error"]


@pytest.mark.skipif(sys.platform == "win32", reason="looks at processes by signal 0")
@on_a_loop
async def test_a_stopped_check_leaves_no_process(tmp_path):
    async with session_of(script_target(tmp_path, SILENT)) as session:
        await ask(session, "check.start")
        run = session.part(CheckRun)
        with pytest.raises(ActionRefused, match="under way"):
            await ask(session, "check.start")
        worker = run._worker
        await until(lambda: worker._subject and worker._subject.launched)
        await until(lambda: any(each.child.pid for each in worker._subject.launched))
        # The page stays live meanwhile.
        beats = 0
        for _ in range(10):
            await asyncio.sleep(0.01)
            beats += 1
        assert beats == 10
        await ask(session, "check.stop")
        assert run.state == "stopped"
        for carrier in worker._subject.launched:
            if carrier.child.pid is not None:
                with pytest.raises(ProcessLookupError):
                    os.kill(carrier.child.pid, 0)
        with pytest.raises(ActionRefused, match="no check"):
            await ask(session, "check.stop")


@pytest.mark.skipif(sys.platform == "win32", reason="looks at processes by signal 0")
@on_a_loop
async def test_a_check_ends_with_its_session(tmp_path):
    async with session_of(script_target(tmp_path, SILENT)) as session:
        await ask(session, "check.start")
        worker = session.part(CheckRun)._worker
        await until(lambda: worker._subject and worker._subject.launched)
        await until(lambda: any(each.child.pid for each in worker._subject.launched))
    for carrier in worker._subject.launched:
        if carrier.child.pid is not None:
            with pytest.raises(ProcessLookupError):
                os.kill(carrier.child.pid, 0)


@on_a_loop
async def test_the_token_of_the_user_is_sent_and_never_reported():
    app = Guarded(make_server().asgi(), "token-of-the-user-1")
    with serving(app) as port:
        target = url_target(port, transport="http", auth=Bearer("token-of-the-user-1"))
        async with session_of(target) as session:
            shown = await checked(session, revisions=["2025-06-18"], only="ping.response.empty")
            files = await download(session, "check.download", format="json")
    (result,) = shown["report"]["results"]
    assert result["verdict"] == "pass"
    assert "token-of-the-user-1" not in str(shown) + files.decode()
    assert '--bearer \\"$TOKEN\\"' in files.decode()


@on_a_loop
async def test_tools_that_may_change_something_are_called_only_if_allowed():
    called = []
    made = Server("writer")

    @made.tool
    def store_note() -> str:
        called.append(1)
        return "stored"

    with serving(made.asgi()) as port:
        async with session_of(url_target(port)) as session:
            shown = await checked(
                session, revisions=["2025-06-18"], only="tools.call.content-array"
            )
            assert called == []
            assert "store_note" in shown["report"]["not_called"]
            await checked(
                session, revisions=["2025-06-18"], only="tools.call.content-array", calls_tools=True
            )
            assert called
