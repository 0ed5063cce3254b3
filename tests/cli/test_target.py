import sys

import pytest

from accord.cli.target import suggest_url
from cli.servers import FACTORY, GOOD, TWO
from support.tables import cases


@pytest.fixture
def folder(tmp_path):
    """A folder with correct and faulty files."""
    files = {
        "good.py": GOOD,
        "two.py": TWO,
        "factory.py": FACTORY,
        "nothing.py": "x = 1\n",
        "needs.py": "import not_installed_anywhere\n",
        "failing.py": 'import json\n\ndef read():\n    return json.loads("{")\n\nread()\n',
        "wrong.py": (
            "from accord import Server\nserver = Server('x')\n\n"
            "@server.tool\ndef a() -> None: 'Do it.'\n\n"
            "@server.tool(name='a')\ndef b() -> None: ...\n"
        ),
        "syntax.py": "x = 1\ndef f(:\n    pass\n",
        "uses_syntax.py": "import syntax\n",
        "leaving.py": "import sys\nsys.exit(3)\n",
        "foreign.py": "class FastMCP: ...\n\nmcp = FastMCP()\n",
        "script.js": "\n",
        "package/__init__.py": 'print("the package prints")\n',
        "package/relative.py": "from .parts import server\n",
        "package/parts.py": "from accord import Server\nserver = Server('parts')\n",
        "folder/one.py": GOOD,
        "folder/other.py": "x = 1\n",
        "empty/readme.txt": "nothing\n",
        "back.py": (
            "from accord import Server\nserver = Server('back')\nimport extra\n"
            "assert extra.server is server\n"
        ),
        "extra.py": "from back import server\n",
        "shadow/types.py": "from accord import Server\nserver = Server('types')\n",
        "usual.py": (
            "from accord import Server\nother = Server('other')\n"
            "mcp = Server('usual')\n@mcp.tool\ndef chosen() -> None: ...\n"
        ),
        "odd.py": "from accord import Server\nodd = alias = Server('odd')\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


MISTAKES = [
    ("nothing.py", "nothing.py has no Server object at its top level; write server = Server("),
    ("two.py", "two.py has 2 servers: first, second; say which, as in two.py:first"),
    ("goof.py", "there is no file goof.py; did you mean good.py?"),
    ("folder/two.py", "there is no file folder/two.py; in folder are one.py, other.py"),
    ("empty/x.py", "there is no file empty/x.py: there are no Python files in empty"),
    ("no/x.py", "there is no file no/x.py: there is no folder no"),
    ("goood", "; did you mean good?"),
    (
        "localhost:8000",
        "localhost:8000 is an address; a URL begins with http:// or https://: h",
    ),
    ("not_there_at_all:server", "there is no module not_there_at_all in "),
    ("package.part:server", "there is no module package.part; did you mean parts?"),
    ("two.py:frist", "two.py has no frist; did you mean first?"),
    ("two.py:zzz", "two.py has no zzz: first, second; say which, as in two.py:first"),
    ("two.py:", "two.py: lacks the name of an object after the colon, as in two.py:server"),
    ("factory.py", "factory.py has no Server object, but the function make makes one: say"),
    ("factory.py:number", "factory.py:number is a int, expected a Server or a function"),
    ("factory.py:demanding", "demanding() failed: TypeError: "),
    ("factory.py:failing", "factory.py:9 `return 1 / 0`: failing() failed: ZeroDivisionError"),
    ("foreign.py", "mcp is a FastMCP of another library (foreign); a command works with any"),
    (
        "needs.py",
        "needs.py:1 `import not_installed_anywhere`: the module not_installed_anywhere is",
    ),
    ("failing.py", 'failing.py:4 `return json.loads("{")`: JSONDecodeError: '),
    ("wrong.py", "wrong.py:7 `@server.tool(name='a')`: RegistrationError: tool 'a' is registered"),
    ("syntax.py", "syntax.py:2: invalid syntax: def f(:"),
    ("uses_syntax.py", "syntax.py:2: invalid syntax: def f(:"),
    (
        "leaving.py",
        "leaving.py ended the process while it was imported (leaving.py:2 `sys.exit(3)`)",
    ),
    ("folder", "folder is a folder; name the file in it: folder/one.py"),
    ("empty", "empty is a folder; name the file in it, such as server.py"),
    ("package", "package is a folder; name the file in it: package/parts.py"),
    ("script.js", "script.js is not a Python file; write a command after --: -- node script.js"),
    (f"{sys.executable} good.py", "is a command line; write it after --: -- "),
    ("sh", "sh is a command; write it after --: -- sh"),
]


@pytest.mark.parametrize(("target", "said"), MISTAKES, ids=[target for target, _ in MISTAKES])
def test_a_mistake_is_explained_in_one_line(accord, folder, target, said):
    done = accord("run", target, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    lines = [line for line in done.stderr.splitlines() if line != "the package prints"]
    assert len(lines) == 1
    assert lines[0].startswith("accord: ")
    assert said in lines[0]


@pytest.mark.parametrize("target", ["two.py", "goof.py", "failing.py", "syntax.py", "folder"])
def test_a_launched_server_explains_the_mistake_just_as_well(accord, folder, target):
    said = dict(MISTAKES)[target]
    done = accord("list", target, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("accord: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("good.py", "desk"),
        ("./good.py", "desk"),
        ("good", "desk"),
        ("good:server", "desk"),
        ("two.py:second", "second"),
        ("factory.py:make", "made"),
        ("package/relative.py", "parts"),
        ("package.parts", "parts"),
        ("package.parts:server", "parts"),
        ("package:parts.server", None),
        ("back.py", "back"),
        ("shadow/types.py", "types"),
        ("usual.py", "usual"),
        ("odd.py", "odd"),
    ],
)
def test_a_server_is_found_in_a_file_or_module(accord, folder, target, name):
    done = accord("list", target, "--format", "json", cwd=folder)
    if name is None:
        assert done.returncode == 2
        assert "package has no parts.server" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert f'"name": "{name}"' in done.stdout


def test_a_file_is_found_by_its_whole_path(accord, folder, tmp_path):
    done = accord("list", folder / "good.py", cwd="/")
    assert done.returncode == 0
    assert "add(" in done.stdout


@cases(
    ("target", "url"),
    [
        ("localhost:8000", "http://localhost:8000/mcp"),
        ("localhost", "http://localhost/mcp"),
        ("127.0.0.1:9000/sse", "http://127.0.0.1:9000/sse"),
        ("[::1]:80", "http://[::1]:80/mcp"),
        ("example.com/mcp", "https://example.com/mcp"),
        ("mcp.example.com:8443", "https://mcp.example.com:8443/mcp"),
        ("package.module:server", ""),
        ("package.module", ""),
        ("desk.py", ""),
        ("folder/desk.py", ""),
    ],
)
def test_an_address_without_a_scheme_suggests_a_url(target, url):
    assert suggest_url(target) == url
