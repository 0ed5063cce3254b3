"""The app in frameworks, as the page on HTTP mounts it, until a signal ends uvicorn."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from accord import connect
from support.uvicorn_process import running_uvicorn
from support.waiting import LONG, run

pytestmark = pytest.mark.integration

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "http.md"
FILES = re.compile(r"^```python\n# ([\w/]+\.py)\n.*?^```", re.MULTILINE | re.DOTALL)
DESK = """
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from accord import Depends, Server

@asynccontextmanager
async def lifespan(server):
    print("opened", flush=True)
    yield
    print("closed", flush=True)

async def pool():
    print("pool opened", flush=True)
    yield 1
    print("pool closed", flush=True)

server = Server("desk", lifespan=lifespan)

@server.tool
def add(a: int, b: int, one: int = Depends(pool, scope="server")) -> int:
    \"\"\"Add.\"\"\"
    return a + b
"""
FASTAPI = """
from contextlib import asynccontextmanager
from desk import server
from fastapi import FastAPI

desk = server.asgi()

@asynccontextmanager
async def lifespan(app):
    print("own opened", flush=True)
    async with {life}:
        yield
    print("own closed", flush=True)

app = FastAPI({lifespan})
app.mount("/desk", desk)
"""
OPENED_AND_CLOSED = ["opened", "pool opened", "pool closed", "closed"]
WARNING = "the lifespan of 'desk' was opened by its first request, and nothing closes it: give"


def write_page(folder: Path) -> None:
    """Write the files of the page, with a server that has something to close."""
    for found in FILES.finditer(PAGE.read_text()):
        path = folder / found[1]
        path.parent.mkdir(exist_ok=True)
        path.write_text(found[0].removeprefix("```python\n").removesuffix("```"))
    (folder / "desk.py").write_text(DESK)


async def add(port: int, path: str) -> None:
    for revision in ("2025-11-25", "2026-07-28"):
        async with connect(f"http://127.0.0.1:{port}{path}", revision=revision) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


def serve(folder: Path, app: str, *paths: str) -> list[str]:
    """Call the server in an app at each path; return what the process wrote until its end."""
    with running_uvicorn(folder, app) as port:
        for path in paths:
            run(add(port, path))
    return (folder / "log").read_text().splitlines()


@pytest.mark.parametrize(
    ("app", "paths"),
    [
        ("web:app", ["/desk/mcp", "/desk/mcp/"]),
        ("starlette_web:app", ["/desk/mcp", "/plain/mcp"]),
        ("litestar_web:app", ["/desk/mcp"]),
        ("mysite.asgi:application", ["/desk/mcp"]),
    ],
)
def test_the_lifespan_runs_once_and_ends_where_the_page_mounts_the_app(tmp_path, app, paths):
    write_page(tmp_path)
    assert serve(tmp_path, app, *paths) == OPENED_AND_CLOSED


@pytest.mark.parametrize("life", ["desk.lifespan()", "desk.lifespan(app)", "server.run_lifespan()"])
def test_the_lifespan_runs_within_that_of_the_program(tmp_path, life):
    write_page(tmp_path)
    (tmp_path / "web.py").write_text(FASTAPI.format(life=life, lifespan="lifespan=lifespan"))
    found = serve(tmp_path, "web:app", "/desk/mcp")
    assert found == ["own opened", *OPENED_AND_CLOSED, "own closed"]


def test_a_lifespan_that_a_request_opens_and_nothing_closes_is_named_at_the_end(tmp_path):
    write_page(tmp_path)
    (tmp_path / "web.py").write_text(FASTAPI.format(life="desk.lifespan()", lifespan=""))
    opened, pool, *warnings = serve(tmp_path, "web:app", "/desk/mcp")
    assert (opened, pool) == ("opened", "pool opened")
    (warning,) = warnings
    assert warning.startswith(WARNING)
    assert "FastAPI(lifespan=app.lifespan)" in warning


def test_an_app_that_leaves_nothing_open_needs_no_lifespan(tmp_path):
    write_page(tmp_path)
    (tmp_path / "desk.py").write_text(
        "from accord import Server\n\nserver = Server('desk')\n\n\n@server.tool\n"
        "def add(a: int, b: int) -> int:\n    'Add.'\n    return a + b\n"
    )
    (tmp_path / "web.py").write_text(FASTAPI.format(life="desk.lifespan()", lifespan=""))
    assert serve(tmp_path, "web:app", "/desk/mcp") == []


def test_a_lifespan_that_its_loop_cancels_is_named_too(tmp_path):
    write_page(tmp_path)
    (tmp_path / "main.py").write_text("""
import asyncio
from desk import server
from support.asgi import Asgi
from support.http_talk import call

asyncio.run(Asgi(server.asgi(sessions=False)).post(call(1, "add", a=1, b=2)))
""")
    path = os.pathsep.join([str(tmp_path), str(TESTS)])
    done = subprocess.run(
        [sys.executable, "main.py"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=True,
        cwd=tmp_path,
        text=True,
        timeout=LONG,
    )
    assert done.stderr.count(WARNING) == 1
