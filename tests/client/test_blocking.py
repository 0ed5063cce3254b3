"""The client for code without an event loop."""

import asyncio
import gc
import inspect
import json
import subprocess
import sys
import threading

import pytest

from accord.client.blocking import Client, connect
from accord.client.client import Client as AsyncClient
from accord.errors import ConnectFailed, ConnectionClosed, RequestTimeout, ToolError
from accord.types import PromptReference
from support.leftovers import Leftovers

QUICK = {"exit_grace": 0.2, "terminate_grace": 0.2}


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_it_has_the_same_methods():
    assert public(Client) == public(AsyncClient)


def test_every_operation_waits_for_its_result(wayward):
    with connect(wayward(), revision="2025-06-18") as client:
        assert client.revision == "2025-06-18"
        assert client.server_info.name == "wayward"
        assert client.instructions == "be patient"
        assert client.capabilities.tools
        client.ping()
        assert client.list_tools().next_cursor == "2"
        assert [tool.name for tool in client.tools()] == [f"tool{n}" for n in range(5)]
        assert len(list(client.resources())) == 3
        assert len(list(client.resource_templates())) == 3
        assert len(list(client.prompts())) == 3
        assert client.list_resources().resources
        assert client.list_resource_templates().resource_templates
        assert client.list_prompts().prompts
        assert client.read_resource("note://1").contents[0].text == "milk"
        client.subscribe("note://1")
        client.unsubscribe("note://1")
        assert client.get_prompt("prompt1").messages
        assert client.complete(PromptReference("plan"), "city", "Ha").values
        client.set_log_level("info")
        assert client.call_tool("echo", {"a": 1}).structured_content == {"a": 1}
        assert client.call_tool("echo", {"a": 1}, result_type=dict[str, int]) == {"a": 1}
        assert "blocking Client of wayward" in repr(client)


def test_its_methods_have_the_signatures_and_texts_of_the_async_ones():
    for name, method in vars(AsyncClient).items():
        if inspect.iscoroutinefunction(method) and not name.startswith("_") and name != "close":
            blocking = getattr(Client, name)
            assert not inspect.iscoroutinefunction(blocking)
            ours, theirs = inspect.signature(blocking), inspect.signature(method)
            if name in ("start_tool", "task"):  # which return blocking tasks
                assert ours.parameters == theirs.parameters, name
                continue
            assert ours == theirs, name
            assert blocking.__doc__ == method.__doc__


def test_it_may_be_used_without_a_block_and_closed_twice(wayward):
    client = connect(wayward())
    client.ping()
    client.close()
    client.close()
    assert client.is_closed
    with pytest.raises(ConnectionClosed):
        client.ping()


def test_nothing_is_left_after_close(wayward):
    def cycle():
        with connect(wayward()) as client:
            client.ping()

    cycle()
    left = Leftovers()
    for _ in range(5):
        cycle()
    assert not left


def test_errors_are_the_same(wayward):
    left = Leftovers()
    with pytest.raises(ConnectFailed, match="was not found"):
        connect(["no-such-program"])
    assert not left.threads()
    with connect(wayward()) as client:
        with pytest.raises(RequestTimeout):
            client.call_tool("never", timeout=0.1)
        failed = {"content": [{"type": "text", "text": "no"}], "isError": True}
        with pytest.raises(ToolError):
            client.call_tool("give", {"result": failed}, result_type=int)


def test_on_the_thread_of_a_loop_it_says_what_to_use_instead(wayward):
    async def inside(function, *args):
        function(*args)

    with pytest.raises(RuntimeError, match=r"await accord\.connect"):
        asyncio.run(inside(connect, wayward()))
    with connect(wayward()) as client:
        for use in (client.ping, client.close, lambda: list(client.tools())):
            with pytest.raises(RuntimeError, match="event loop"):
                asyncio.run(inside(use))
        client.ping()


def test_a_question_may_use_the_client_itself(wayward):
    def on_elicit(params):
        return client.call_tool("echo", {"seat": "aisle"}).structured_content

    form = {"message": "seat?", "requestedSchema": {"type": "object", "properties": {}}}
    with connect(wayward(), on_elicit=on_elicit) as client:
        arguments = {"method": "elicitation/create", "params": form}
        answer = client.call_tool("ask", arguments).structured_content
        assert answer["result"]["content"] == {"seat": "aisle"}


def test_threads_may_share_it(wayward):
    results = []
    with connect(wayward()) as client:

        def work(n):
            results.extend(
                client.call_tool("echo", {"n": n}).structured_content["n"] for _ in range(20)
            )

        threads = [threading.Thread(target=work, args=[n]) for n in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sorted(results) == sorted(n for n in range(5) for _ in range(20))


def test_closing_wakes_a_thread_that_waits(wayward):
    failures = []
    client = connect(wayward())

    def wait():
        try:
            client.call_tool("never")
        except ConnectionClosed as error:
            failures.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    client.ping()
    client.close()
    waiting.join(60)
    assert len(failures) == 1


def test_a_forgotten_client_is_ended(wayward, is_running, eventually):
    client = connect(wayward(), **QUICK)
    pid = int(client.call_tool("spawn").content[0].text)
    del client
    gc.collect()
    assert eventually(lambda: not is_running(pid))


FORGETFUL = """
import json, sys
from accord.client.blocking import connect
client = connect(json.loads(sys.argv[1]))
print(client.call_tool("spawn", {"stubborn": True}).content[0].text, flush=True)
"""


def test_it_is_closed_at_exit(wayward, is_running, eventually, tmp_path):
    goodbye = tmp_path / "goodbye"
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL, json.dumps(wayward(goodbye=str(goodbye)))],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert eventually(lambda: not is_running(int(done.stdout)))
