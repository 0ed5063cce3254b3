"""Every Python block of the documentation runs, and every command in it exists.

A block is a program: it runs alone, in a process of its own, as printed, in a folder with the
files of its page, which are the blocks that begin with a comment naming a file. A block that goes
on from an earlier one says so in its first line: `# continues desk.py above`, or `# continues the
block above`. Top-level `await` is an error, as it is for the reader. Blocks with tests and no call
of them are run by pytest. A block that cannot run here begins with `# needs a server at URL` and
has its program under `if __name__ == "__main__"`; it is imported, as are those that serve over HTTP
until a signal arrives.
"""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from accord.cli.main import _parse
from accord_tools.contract.cases import read_cases
from accord_tools.hosts.sources.configuration_file import read_file_entry
from accord_tools.hosts.table import load_hosts
from support.tables import cases

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMANDS = re.compile(r"^(?:\$ |\.venv/bin/)?(accord [^|>\n]*)", re.MULTILINE)

# First lines of blocks that continue an earlier one, or that are a file.
_CONTINUES = re.compile(r"# continues (?:the (first )?block|([\w/]+\.py)) above\n")
_FILE = re.compile(r"# ([\w/]+\.py)\n")
# Programs that end only when a reader ends them, or that need the network.
_UNENDING = re.compile(
    r"^if __name__ == \"__main__\":\n    \w+\.run\(\"http\"|^# needs a server at \S+$",
    re.MULTILINE,
)
_TESTS = re.compile(r"^(?:async )?def test_", re.MULTILINE)

# Runs each job in a fork of one process, which has loaded what the blocks import: this takes a
# fifth of the time of a new interpreter for each.
_RUNNER = """
import json, os, signal, sys, types
import accord.auth, accord.client.connect, accord.server, accord.testing

def run(job):
    null = os.open(os.devnull, os.O_RDWR)
    output = os.open(job["output"], os.O_WRONLY | os.O_CREAT)
    for number, descriptor in enumerate((null, output, output)):
        os.dup2(descriptor, number)
    os.chdir(job["folder"])
    signal.alarm(100)
    if job["is_test"]:
        import pytest
        sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:cov", "block_test.py"]))
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__name__ = job["name"]
    for source in job["sources"]:
        exec(compile(source, "block", "exec"), vars(main))
    sys.exit(0)

for line in iter(sys.stdin.readline, ""):
    child = os.fork()
    if child == 0:
        run(json.loads(line))
    print(os.waitpid(child, 0)[1], flush=True)
"""


def blocks_of(page, language="python"):
    """Return each block of a page with the number of its line."""
    text = page.read_text(encoding="utf-8")
    return [
        (text[: found.start()].count("\n") + 1, found[2])
        for found in _BLOCK.finditer(text)
        if found[1] == language
    ]


def earlier_than(number, blocks):
    """Return the blocks that a block continues, the first one first."""
    found = _CONTINUES.match(blocks[number][1])
    if found is None:
        return []
    if found[2]:
        names = [_FILE.match(source) for _, source in blocks[:number]]
        place = [at for at, name in enumerate(names) if name and name[1] == found[2]][-1]
    else:
        place = 0 if found[1] else number - 1
    return [*earlier_than(place, blocks), blocks[place][1]]


ALL = [
    pytest.param(page, number, id=f"{page.name}:{line}")
    for page in PAGES
    for number, (line, _) in enumerate(blocks_of(page))
]


@pytest.fixture(scope="module")
def runner():
    with subprocess.Popen(
        [sys.executable, "-c", _RUNNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.stdin.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="blocks run in forks")
@pytest.mark.parametrize(("page", "number"), ALL)
def test_a_block_runs_as_a_reader_copies_it(page, number, tmp_path, runner):
    """Alone, or after the block that its first line names, beside the files of the page."""
    blocks = blocks_of(page)
    folder = tmp_path / "reader"
    folder.mkdir()
    for _, source in blocks[: number + 1]:
        if name := _FILE.match(source):
            path = folder / name[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
    sources = [*earlier_than(number, blocks), blocks[number][1]]
    (folder / "block_test.py").write_text("\n".join(sources), encoding="utf-8")
    output = tmp_path / "output"
    job = {
        "folder": str(folder),
        "output": str(output),
        "sources": sources,
        "name": "snippet" if any(map(_UNENDING.search, sources)) else "__main__",
        "is_test": bool(_TESTS.search(sources[-1])) and "asyncio.run(" not in sources[-1],
    }
    runner.stdin.write(json.dumps(job) + "\n")
    runner.stdin.flush()
    assert runner.stdout.readline().strip() == "0", output.read_text(encoding="utf-8")


def test_a_block_continues_in_its_first_line_or_not_at_all():
    faults = [
        f"{page.name}:{line}"
        for page in PAGES
        for line, source in blocks_of(page)
        if re.search(r"^# (?:continues|in an)\b", source, re.MULTILINE)
        and (not _CONTINUES.match(source) or source.count("# continues") > 1)
    ]
    assert faults == []


def test_a_program_calls_its_main_function():
    faults = [
        f"{page.name}:{line}"
        for page in PAGES
        for line, source in blocks_of(page)
        if "async def main(" in source and "asyncio.run(main())" not in source
    ]
    assert faults == []


def modules_of(source):
    """Yield the top-level modules that a block imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name.split(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]


@cases("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_how_to_install_what_its_blocks_import(page):
    text, blocks = page.read_text(encoding="utf-8"), blocks_of(page)
    files = {found[1] for _, source in blocks if (found := _FILE.match(source))}
    known = {*sys.stdlib_module_names, "accord", "accord_tools"}
    known |= {"msgspec", "aiohttp"}  # with the extra http
    known |= {re.split(r"[/.]", file)[0] for file in files}
    used = {name for _, source in blocks for name in modules_of(source)}
    assert {name for name in used - known if not re.search(rf"pip install {name}", text)} == set()


def test_the_servers_of_the_pages_on_authorization_pass_the_type_checker(tmp_path):
    for page in (*(ROOT / "docs").glob("auth*.md"), ROOT / "docs" / "sign-in.md"):
        blocks = blocks_of(page)
        for number, (_, source) in enumerate(blocks):
            if "ctx.principal" in source:
                file = tmp_path / f"{page.stem.replace('-', '_')}_{number}.py"
                file.write_text(
                    "\n".join([*earlier_than(number, blocks), source]), encoding="utf-8"
                )
    files = sorted(tmp_path.glob("*.py"))
    assert len(files) >= 4
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *files],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@cases(
    "page",
    [
        page
        for page in (*PAGES, ROOT / "examples" / "README.md")
        if _COMMANDS.search(page.read_text(encoding="utf-8"))
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_commands_of_a_page_exist(page):
    for found in _COMMANDS.finditer(page.read_text(encoding="utf-8")):
        words = shlex.split(found[1], comments=True)[1:]
        assert _parse(words).run, found[1]  # ends the process where there is no such option


def test_the_cases_of_the_page_on_testing_can_be_read(tmp_path):
    ((_, found),) = blocks_of(ROOT / "docs" / "testing.md", "toml")
    file = tmp_path / "desk.accord.toml"
    file.write_text(found, encoding="utf-8")
    names = [case.name for case in read_cases(file).case]
    assert names == ["adds two numbers", "refuses words", "adds to what it added"]


def test_the_entry_of_the_page_on_hosts_can_be_read(tmp_path):
    page = ROOT / "docs" / "hosts.md"
    ((line, source),) = blocks_of(page, "json")
    file = tmp_path / f"{line}.json"
    file.write_text(source, encoding="utf-8")
    assert read_file_entry(file, "desk").command[-2:] == ("run", "/home/ann/desk/desk.py")


def test_the_row_of_the_page_on_hosts_is_a_row_of_the_table(tmp_path):
    ((_, source),) = blocks_of(ROOT / "docs" / "hosts.md", "toml")
    (tmp_path / "my-hosts.toml").write_text(source, encoding="utf-8")
    assert load_hosts(tmp_path / "my-hosts.toml")["my-editor"].name == "My Editor"


@pytest.mark.parametrize("tool", ["host_table.py", "settings_table.py"])
def test_a_page_with_tables_of_the_code_is_up_to_date(tool):
    done = subprocess.run([sys.executable, ROOT / "tools" / tool, "--check"], check=False)
    assert done.returncode == 0, f"run tools/{tool}"
