"""A server that means harm: every action answers, and no credential leaves Python unasked."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from accord.client.server_spec import ServerSpec
from accord_tools.inspector.definition import InspectOptions
from accord_tools.inspector.inspection import Inspection
from accord_tools.inspector.web.answer_masking import AnswerMasks
from support.page_client import page_of
from support.waiting import LONG, in_loop, until

HOSTILE = Path(__file__).with_name("hostile_server.py")
ENV = {"API_KEY": "planted-env-8f3k2j5h", "DB_PASSWORD": "planted-pw/77xk29ab+x="}
WORD = "--token=planted-arg-4d5f6a7b"
SIGNS = (b"planted-env", b"-4d5f6a7b", b"77xk")
KINDS = ("tools", "resources", "templates", "prompts")
EVERYTHING = {"with_http": True, "with_stderr": True}


class HostilePage:
    """Asks over HTTP, as the page does."""

    def __init__(self, client):
        self.client = client
        self.bodies = []

    async def ask(self, action, /, **params):
        headers = {"x-accord-key": self.client.key, "content-type": "application/json"}
        body = json.dumps({"target": 0, **params}).encode()
        answer = await self.client.send("POST", f"/api/{action}", headers, body)
        assert answer.status in (200, 422), (action, params, answer)
        self.bodies.append((action, answer.body))
        is_json = answer.headers["content-type"] == "application/json"
        return answer.json if is_json else answer.body

    async def until(self, action, is_wanted, /, **params):
        async with asyncio.timeout(LONG):
            while not is_wanted(got := await self.ask(action, **params)):
                await asyncio.sleep(0.02)
        return got

    async def until_listed(self):
        await self.until("session.get", lambda got: got["state"] != "connecting")
        return {
            kind: await self.until("catalog.list", lambda got: got["state"] != "loading", kind=kind)
            for kind in KINDS
        }

    async def run_tool(self, name, **params):
        made = await self.ask("calls.tool", name=name, confirmed=True, **params)
        return await self.until("calls.get", lambda got: got["state"] != "running", id=made["id"])


@asynccontextmanager
async def hostile_page(*ways, **options):
    inspection = Inspection(InspectOptions(**options))
    command = [sys.executable, "-I", "-S", str(HOSTILE), *ways]
    target = ServerSpec(name="hostile", command=command, env={**os.environ, **ENV}, timeout=LONG)
    async with page_of(inspection) as client:
        inspection.add(target)
        yield HostilePage(client)


async def use_everything(page):
    """Ask for everything that is made of what the server says."""
    for kind, listed in (await page.until_listed()).items():
        for entry in listed["entries"]:
            named = {"kind": kind, "name": entry["name"]}
            await page.ask("catalog.entry", **named)
            await page.ask("forms.validate", **named, text='{"x": "aaaaaaaaaaaaaaaaaaaaaaaaa!"}')
            if kind != "resources":
                await page.ask("forms.example", **named)
    for name in ("text", "svg", "links", "error", "progress", "ask"):
        call = await page.run_tool(name)
        await page.ask("export.call", call=call["id"])
    for made in (
        await page.ask("calls.read", uri="file:///etc/passwd"),
        await page.ask("calls.prompt", name="prompt", arguments='{"__proto__": "x"}'),
    ):
        await page.until("calls.get", lambda got: got["state"] != "running", id=made["id"])
    await page.ask("calls.complete", kind="prompt", name="prompt", argument="same", value="")
    await page.until("questions.list", lambda got: len(got["questions"]) == 2)
    for action in ("calls.list", "tasks.list", "tasks.refresh", "history.list", "log.summary"):
        await page.ask(action)
    await page.ask("export.breaches")
    await page.ask("export.session", format="trace")
    rows = await page.ask("log.rows", start=0, count=100, filter=EVERYTHING)
    for row in rows["rows"]:
        await page.ask("log.detail", n=row["n"])


@in_loop
async def test_every_action_answers_about_a_hostile_server():
    async with hostile_page("garbage") as page:
        await use_everything(page)
        got = await page.ask("session.get")
        assert got["state"] == "ready"
        assert got["counters"]["fail"] > 0


KEPT = ("trace.jsonl", "history.sqlite")


@in_loop
async def test_credentials_that_a_server_repeats_leave_no_answer(tmp_path):
    files = {"record": tmp_path / KEPT[0], "history": tmp_path / KEPT[1]}
    async with hostile_page("echo", WORD, **files) as page:
        await use_everything(page)
        # Names that the page sends back stay as they are, so that a tool can be called.
        for action, body in page.bodies:
            if action in ("forms.example", "catalog.list", "catalog.entry", "questions.list"):
                body = b"".join(without_sent_back(json.loads(body)))
            assert not [each for each in SIGNS if each in body], (action, body[:300])
    # SQLite removes its journals when the last connection is closed, in a thread.
    await until(lambda: sorted(each.name for each in tmp_path.iterdir()) == sorted(KEPT))
    kept = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert not [each for each in SIGNS if each in kept]


def without_sent_back(value, name=""):
    """Yield the texts of an answer that are there to be read."""
    if isinstance(value, dict):
        for inner, each in value.items():
            yield from without_sent_back(each, inner)
    elif isinstance(value, list):
        for each in value:
            yield from without_sent_back(each, name)
    elif isinstance(value, str) and name not in ("name", "value", "default", "const"):
        yield b"" if name == "text" else value.encode(errors="replace")


@pytest.mark.parametrize("shows_secrets", [True, False])
def test_a_credential_is_shown_on_request_alone(shows_secrets):
    @in_loop
    async def run():
        async with hostile_page("echo", WORD, shows_secrets=shows_secrets) as page:
            await page.until_listed()
            call = await page.run_tool("text")
            assert "planted-env" not in call["response"]
            assert call["is_masked"]
            shown = await page.ask("calls.get", id=call["id"], reveal=True)
            assert ("planted-env" in shown["response"]) == shows_secrets

    run()


@pytest.mark.parametrize("method", ["initialize", "tools/list", "prompts/list", "tools/call"])
def test_a_server_may_end_at_any_request(method):
    @in_loop
    async def run():
        async with hostile_page(f"die={method}") as page:
            await page.until("session.get", lambda got: got["state"] != "connecting")
            await page.ask("calls.tool", name="text", confirmed=True)
            got = await page.until("session.get", lambda got: got["state"] in ("failed", "closed"))
            assert got["error"]["message"]
            await page.until(
                "calls.list", lambda got: all(each["state"] != "running" for each in got["calls"])
            )

    run()


# -- masks of answers


def test_texts_are_masked_and_names_stay():
    masks = AnswerMasks(("secret-word-1",))
    made = {"name": "secret-word-1", "title": "a secret-word-1", "changes": ["x secret-word-1"]}
    clean = json.loads(masks.apply(json.dumps(made).encode()))
    assert clean["name"] == "secret-word-1"
    assert clean["title"] == "a masked-0"
    assert clean["changes"] == ["x masked-0"]


def test_half_a_surrogate_pair_does_not_stop_the_masking():
    body = b'{"text": "\\ud800 secret-word-1"}'
    assert b"secret-word" not in AnswerMasks(("secret-word-1",)).apply(body)
