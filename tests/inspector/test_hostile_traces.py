"""Recordings that mean harm: opened on the page, shown and exported without an error."""

import json

import pytest

from accord_tools.inspector.inspection import Inspection
from support.page_client import page_of
from support.waiting import in_loop

PING = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
RECORDINGS = {
    "times": f'{{"from": "client", "t": -1e308, "message": {PING}}}\n'
    f'{{"from": "client", "t": 1e308, "message": {PING}}}\n',
    "depth": '{"from": "client", "message": {"a": ' + "[" * 900 + "]" * 900 + "}}\n",
    "half a pair": '{"from": "server", "message": {"jsonrpc": "2.0", "method": "\\ud800"}}\n',
    "status": '{"from": "server", "http": {"status": 99999999999, "path": "javascript:x"}}\n',
    "zeros": "\0" * 1000,
    "a page": "<script>alert(1)</script>",
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_hostile_recording_is_shown_and_exported(name):
    @in_loop
    async def run():
        async with page_of(Inspection()) as page:
            opened = await page.call("trace.open", target=-1, name="a", text=RECORDINGS[name])
            target = opened.json["target"]
            while (await page.call("session.get", target=target)).json["state"] == "reading":
                pass
            given = {"target": target, "start": 0, "count": 50, "filter": {"with_http": True}}
            rows = (await page.call("log.rows", **given)).json["rows"]
            for row in rows:
                assert (await page.call("log.detail", target=target, n=row["n"])).status == 200
            for form in ("trace", "json", "text"):
                made = await page.call("export.session", target=target, format=form)
                assert made.status == (200 if rows else 422)
                if rows and form == "json":
                    assert len(json.loads(made.body)["rows"]) == len(rows)

    run()
