"""Mistakes that newcomers made, and what accord answers to each.

Each row is a file `desk.py` and a command, or a script that Python runs. The message has to name
the cause, the place and what to do, at the first try, in the words given here.
"""

import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from accord import Server
from accord.auth import Protected, StaticTokens
from cli.conftest import PLAIN
from support.http_server import bounded

HEAD = """
from accord import Context, Server, ToolError, connect
server = Server("desk")
"""
ADD = """
@server.tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
"""
REPORT = """
@server.tool
def report() -> str:
    "Report."
    {}
"""
MAIN = """
import asyncio
async def main():
    {}
asyncio.run(main())
"""


@dataclass(frozen=True)
class Mistake:
    """A mistake, how it is made, the exit code, and what stdout and stderr say of it."""

    name: str
    says: tuple[str, ...]
    source: str = HEAD + ADD
    file: str = "desk.py"
    # The words after `accord`; None when Python runs the file.
    command: tuple[str, ...] | None = None
    code: int = 2


def tool(body: str, head: str = "def f() -> str:", decorator: str = "@server.tool") -> str:
    return f'{HEAD}\n{decorator}\n{head}\n    "F."\n    {body}\n'


def listed(name: str, source: str, *says: str) -> Mistake:
    """A mistake that is reported when the file is read, with the line."""
    return Mistake(name, says, source, command=("list", "desk.py"))


def called(name: str, source: str, *says: str, words: str = "f", code: int = 1) -> Mistake:
    """A mistake that is reported when the tool is called."""
    return Mistake(name, says, source, command=("call", "desk.py", *words.split()), code=code)


def typed(name: str, words: str, *says: str, code: int = 2, source: str = HEAD + ADD) -> Mistake:
    """A mistake in the command."""
    return Mistake(name, says, source, command=tuple(words.split()), code=code)


def script(name: str, source: str, *says: str) -> Mistake:
    """A mistake in a program, which Python reports."""
    return Mistake(name, says, source, code=1)


REGISTERED = [
    listed("a syntax error", "def add(:\n", "desk.py:1: invalid syntax: def add(:"),
    listed(
        "two tools of one name",
        HEAD + ADD + ADD,
        "tool 'add' is registered twice: at ",
        "desk.py:5 and at ",
        "give one of them another name, or say replace=True",
    ),
    listed(
        "no server in the file",
        "x = 1\n",
        "desk.py has no Server object at its top level; write server = Server(",
    ),
    listed(
        "two servers in the file",
        "from accord import Server\none = Server('one')\ntwo = Server('two')\n",
        "one, two",
        "desk.py:",
    ),
    listed(
        "a type without a JSON form",
        tool("return ''", "def f(a: complex) -> str:"),
        '`@server.tool`: RegistrationError: function "f": parameter "a": complex has no JSON form',
        "use a dataclass",
    ),
    listed(
        "positional arguments without names",
        tool("return ''", "def f(*args) -> str:"),
        '"*args" cannot be described to a client; give each argument a parameter of its own',
    ),
    listed(
        "a method of a class",
        HEAD + "class A:\n    @server.tool\n    def f(self) -> str:\n        return ''\n",
        'parameter "self" would be asked of the client; register the method of an instance',
    ),
    listed(
        "an annotation that is not defined",
        tool("return ''", "def f(a: 'Nope') -> str:"),
        "the annotation \"Nope\" cannot be resolved (name 'Nope' is not defined)",
    ),
    listed(
        "a keyword of run given to Server",
        "from accord import Server\nserver = Server('desk', port=8000)\n",
        "desk.py:2",
        "Server() has no keyword 'port'; give it to run()",
    ),
    listed(
        "a misspelt keyword of Server",
        "from accord import Server\nserver = Server('desk', instruction='x')\n",
        "Server() has no keyword 'instruction'; did you mean 'instructions'?",
    ),
    listed(
        "a verifier in place of protection",
        "from accord import Server\nfrom accord.auth import StaticTokens\n"
        "server = Server('desk', auth=StaticTokens({'the-token': ['read']}))\n",
        "desk.py:3",
        "auth is a StaticTokens, expected Protected or AuthorizationServer of accord.auth; "
        "write auth=Protected(StaticTokens(...))",
    ),
    listed(
        "a misspelt keyword of a tool",
        tool("return ''", decorator="@server.tool(descripton='x')"),
        "tool() has no keyword 'descripton'; did you mean 'description'?",
    ),
    listed(
        "a generator as a tool",
        tool("yield ''"),
        'function "f" is a generator; return a list instead',
    ),
    listed(
        "a name by position",
        tool("return ''", decorator="@server.tool('sum')"),
        "expected a function, got 'sum'; a name is given by keyword, as name=...",
    ),
    listed(
        "a hint as a keyword",
        tool("return ''", decorator="@server.tool(readOnlyHint=True)"),
        "tool() has no keyword 'readOnlyHint'",
        "annotations",
    ),
    listed(
        "a template that does not fit its function",
        tool("return ''", "def f(nam: str) -> str:", "@server.resource('note://{name}')"),
        "'name' in the template but not a parameter; 'nam' a parameter without default but not in",
    ),
    listed(
        "a URI without a scheme",
        tool("return ''", "def f(q: str) -> str:", "@server.resource('/search/{q}')"),
        "a URI begins with a scheme; write for example 'desk://search/{q}'",
    ),
    listed(
        "the plural of a decorator",
        tool("return ''", decorator="@server.tools"),
        "desk.py:5 `@server.tools`",
        "did you mean @server.tool?",
    ),
    listed(
        "the class of another library",
        "from accord import FastMCP\n",
        "desk.py:1 `from accord import FastMCP`",
        "Server",
    ),
    listed(
        "an exception that is in another module",
        "from accord import ElicitationRefused\n",
        "desk.py:1",
        "accord.errors",
    ),
]

CALLED = [
    called(
        "a decorator that takes keywords alone",
        HEAD
        + """
from functools import wraps
def logged(f):
    @wraps(f)
    def wrapper(*args, **kwargs):
        return f(**kwargs)
    return wrapper
@server.tool
@logged
def find(query: str) -> str:
    "Find."
    return query
""",
        "tea",
        words="find query=tea",
        code=0,
    ),
    called(
        "a print in a tool",
        tool("print('hello'); return 'done'"),
        "done",
        "hello",
        code=0,
    ),
    called(
        "a call that blocks the event loop",
        "import time\n" + tool("time.sleep(1); return 'done'", "async def f() -> str:"),
        "tool f has blocked the event loop for",
        "desk.py:9",
        "make it a plain function",
        code=0,
    ),
    called(
        "a context without an annotation",
        tool("return ''", "def f(ctx) -> str:"),
        "ctx",
        "Context",
        words="f ctx=1",
        code=0,
    ),
    called(
        "a default of another type",
        tool("return ''", "def f(a: int = 'x') -> str:"),
        "default",
        code=0,
    ),
    called(
        "a name that hosts refuse",
        tool("return ''", decorator="@server.tool(name='add numbers!')"),
        "'add numbers!'",
        words="f",
        code=2,
    ),
    called(
        "an argument that is missing",
        HEAD + ADD,
        "add needs b (integer); add b=...",
        words="add a=1",
        code=2,
    ),
    called(
        "an argument of another type",
        HEAD + ADD,
        "argument b of add: expected integer, got 'x'",
        words="add a=1 b=x",
        code=2,
    ),
    called(
        "an argument that the tool lacks",
        HEAD + ADD,
        "add has no argument c; it takes a: integer, b: integer",
        words="add a=1 b=2 c=3",
        code=2,
    ),
    called(
        "a tool that the server lacks",
        HEAD + ADD,
        "there is no tool ad; did you mean add?",
        words="ad a=1",
        code=2,
    ),
    called(
        "a list of arguments",
        HEAD + ADD,
        """--json takes an object of arguments, such as '{"a": 1}'""",
        words="add --json [1,2]",
        code=2,
    ),
    called(
        "a result of more bytes than may be sent",
        tool("return 'x' * 20_000_000"),
        "the answer has 20000",
        "more than the limit of 16777216 (message_bytes)",
        "limits=Limits(message_bytes=...) raises it",
    ),
    called(
        "a result of more values than may be sent",
        tool("return list(range(260_000))", "def f() -> list[int]:"),
        "more than the limit of 250000 (message_values)",
        "limits=Limits(message_values=...) raises it",
    ),
    called(
        "a media type by position",
        "from accord.server import Image\n" + tool("return Image(b'x', 'image/png')"),
        "mime_type='image/png'",
    ),
    called(
        "a result of another type",
        tool("return 'text'", "def f() -> int:"),
        "tool f",
        "desk.py:",
        "expected an integer, got a string",
    ),
    called(
        "a tool that raises",
        tool("raise KeyError('lamp')"),
        "tool f failed (reference ",
        "KeyError: 'lamp'",
    ),
    called(
        "a question that is not awaited",
        tool("return f'{ctx.elicit('Name?', str)}'", "async def f(ctx: Context) -> str:").replace(
            "f'{ctx.elicit('Name?', str)}'", "'hello %s' % ctx.elicit('Name?', str)"
        ),
        "elicit' was never awaited",
        code=0,
    ),
    called(
        "a lifespan that raises",
        """
from contextlib import asynccontextmanager
from accord import Server
@asynccontextmanager
async def life(server):
    raise RuntimeError("no database")
    yield
server = Server("desk", lifespan=life)
"""
        + ADD,
        "RuntimeError: no database",
        'desk.py", line 6, in life',
        words="add a=1 b=2",
        code=2,
    ),
]

TYPED = [
    typed(
        "a file that is not there", "list dsk.py", "there is no file dsk.py; did you mean desk.py"
    ),
    typed("an object that is not there", "list desk:srv", "desk has no srv; did you mean server?"),
    typed(
        "a module that is not there",
        "list dekc:server",
        "there is no module dekc in ",
        "did you mean desk?",
    ),
    typed("a folder", "list .", ". is a folder; name the file in it: desk.py"),
    typed(
        "an address in place of a URL",
        "list localhost:8000",
        "a URL begins with http:// or https://: http://localhost:8000/mcp",
    ),
    typed("a port for stdio", "run desk.py --port 8000", "--port is for HTTP; add --http"),
    typed(
        "a store without keys",
        "run desk.py --http --store redis://127.0.0.1:1",
        "give store_keys=[...], --store-keys-file or ACCORD_STORE_KEYS",
    ),
    typed("no command", "", "accord needs a COMMAND: run,", "accord --help"),
    typed("a misspelt command", "cal desk.py add", "did you mean call?"),
    typed(
        "no tool for a file",
        "call desk.py",
        "call needs the NAME of a tool; accord list desk.py shows them",
    ),
    typed("no tool for a URL", "call {url}", "call needs the NAME of a tool", "accord list {url}"),
    typed("a check of a file", "check desk.py", "did you mean accord check server desk.py?"),
    typed(
        "a program that is not installed",
        "list -- no-such-program",
        "no-such-program: could not be started: 'no-such-program' was not found",
    ),
    typed(
        "a URL that nothing answers",
        "list http://127.0.0.1:1/mcp",
        "http://127.0.0.1:1/mcp: no connection: connection refused",
    ),
    typed("a wrong path", "list {url}x", "try /mcp"),
    typed("TLS on a port without it", "list {tls}", "http://"),
    typed(
        "a port that is in use",
        "run desk.py --http --port {port}",
        "{port}",
        "choose another address",
    ),
    typed("no token for fixed tokens", "list {protected}", "--bearer TOKEN"),
    typed("a wrong token", "list {protected} --bearer wrong", "401", "token"),
    Mistake(
        "no host for an entry", ('"mcpServers"',), command=("add", "desk.py", "--print"), code=0
    ),
]

SCRIPTS = [
    Mistake(
        "a file with the name of the library",
        ("cannot import name ", "accord.py"),
        HEAD,
        "accord.py",
        code=1,
    ),
    script(
        "an extra that is not installed",
        "import sys\nsys.modules['httptools'] = None\n" + HEAD + "server.run('http', port=0)\n",
        "serving over HTTP needs the extra 'http': run pip install ",
    ),
    script(
        "arguments that are nested too deep",
        HEAD
        + tool("return ''", "def f(a: list) -> str:").replace(HEAD, "")
        + "deep = []\nfor _ in range(200):\n    deep = [deep]\n"
        + MAIN.format(
            "client = await connect(server)\n    await client.call_tool('f', {'a': deep})"
        ),
        "levels deep, more than the limit of 128 (depth); limits=Limits(depth=...) raises it",
    ),
    script(
        "run in a running loop",
        HEAD + MAIN.format("server.run()"),
        "in async code write: await server.serve('stdio')",
    ),
    script(
        "with in place of async with",
        HEAD + "with connect('desk.py') as client:\n    pass\n",
        "write `async with connect(...) as client`",
    ),
    script(
        "a client from a URL",
        "from accord import Client\nClient('http://x/mcp')\n",
        "write `async with connect('http://x/mcp') as client`",
    ),
    script(
        "connect that is not entered",
        HEAD + MAIN.format("await connect('http://x/mcp').call_tool('x')"),
        "nothing is connected yet, so there is no call_tool: write `async with connect(...)",
    ),
    script(
        "a command as text",
        HEAD + MAIN.format("await connect('python desk.py')"),
        """there is no file 'python desk.py'; a command is a list, such as ["python",""",
    ),
    script(
        "a misspelt keyword of connect",
        HEAD + MAIN.format("await connect('http://x/mcp', timout=3)"),
        "connect() has no keyword 'timout'; did you mean 'timeout'?",
    ),
    script(
        "for in place of async for",
        HEAD + ADD + MAIN.format("client = await connect(server)\n    list(client.tools())"),
        "desk.py",
        "'async_generator' object is not iterable",
    ),
    script(
        "a tool that the server lacks, in code",
        HEAD
        + ADD
        + MAIN.format("client = await connect(server)\n    await client.call_tool('ad')"),
        "unknown tool 'ad'; did you mean 'add'",
    ),
    script(
        "an attribute in camel case",
        HEAD
        + ADD
        + MAIN.format(
            "client = await connect(server)\n"
            "    (await client.call_tool('add', {'a': 1, 'b': 2})).structuredContent"
        ),
        "structured_content",
    ),
    script(
        "a transport that is not known",
        HEAD + "server.run('htp')\n",
        "transport is 'htp', expected 'stdio' or 'http'",
    ),
]

MISTAKES = [*REGISTERED, *CALLED, *TYPED, *SCRIPTS]


@pytest.fixture(scope="module")
def places():
    """The addresses of an open server and of one that takes a fixed token."""
    guarded = Server("guarded", auth=Protected(StaticTokens({"the-right-token": ["read"]})))
    with bounded(Server("open").asgi()) as port, bounded(guarded.asgi()) as other:
        yield {
            "url": f"http://127.0.0.1:{port}/mcp",
            "tls": f"https://127.0.0.1:{port}/mcp",
            "protected": f"http://127.0.0.1:{other}/mcp",
            "port": str(port),
        }


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_answered_with_its_cause_and_its_remedy(mistake, accord, tmp_path, places):
    def fill(text):
        for name, value in places.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    (tmp_path / mistake.file).write_text(mistake.source)
    if mistake.command is None:
        done = subprocess.run(
            [sys.executable, mistake.file],
            cwd=tmp_path,
            env=PLAIN,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    else:
        done = accord(*map(fill, mistake.command), cwd=tmp_path, data="")
    printed = done.stdout + done.stderr
    for words in mistake.says:
        assert fill(words) in printed
    assert done.returncode == mistake.code, printed
    # What is shown of a program begins in the code of its author.
    assert [
        name
        for name in re.findall(r'\(most recent call last\):\n +File "(.*?)"', printed)
        if not name.endswith(mistake.file)
    ] == []
