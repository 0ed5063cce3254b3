"""The names of accord that the documentation mentions in passing exist, and so do their keywords.

Blocks of code are run by test_snippets.py; these are the names in sentences and tables, such as
`ctx.state` and `Server("desk", page_size=50)`.
"""

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import accord
import accord.auth
import accord.client
import accord.errors
import accord.middleware
import accord.server
import accord.testing
import accord.types
from accord.client.options import CallOptions, ConnectOptions
from accord.http.settings import HttpSettings, ListenSettings
from accord.server.entries.prompts import PromptDetails
from accord.server.entries.resources import ResourceDetails
from accord.server.session import ClientSession
from accord.server.settings import ServerSettings, ToolDetails
from accord.server.tasks import TaskSettings
from accord.sharing.serving.otel import instrument_name
from accord.sharing.workers.metrics import COUNTS
from support.tables import cases

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Pages about a release say what was there then.
CURRENT_PAGES = [page for page in PAGES if not page.name.startswith("changes-")]
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")

# What the variables of the pages stand for.
_VARIABLES = {
    "server": accord.Server("desk"),
    "ctx": accord.Context,
    "ctx.session": ClientSession,
    "ctx.principal": accord.Principal,
    "ctx.request": accord.server.RequestFacts,
    "client": accord.Client,
    "clients": accord.client.ClientGroup({}, {}, separator="."),
    "accord": accord,
}
# Loggers, a file, an attribute of spans and metrics, which look like names.
_OTHERS = {
    *("server.NAME", "server.NAME.accept", "server.json", "server.yaml"),
    "accord.access",
    "accord.requests",
    "accord.lock",
    *("accord.commands", "accord.targets"),  # groups of entry points
    "client.address",
    *("accord.worker", "accord.worker.id", "accord.store"),
    *map(instrument_name, COUNTS),
}
# Keywords that functions take by `**options`.
_OPTIONS = {
    "Server": ServerSettings,
    "server.tool": ToolDetails,
    "server.resource": ResourceDetails,
    "server.prompt": PromptDetails,
    "server.asgi": HttpSettings,
    "server.run": ListenSettings,
    "server.serve": ListenSettings,
    "connect": ConnectOptions,
    "connect_all": ConnectOptions,
    "connected": ConnectOptions,
    "client.call_tool": CallOptions,
    "clients.call_tool": CallOptions,
}
MODULES = (accord.types, accord.auth, accord.middleware, accord.server, accord.testing, accord)
_NAMES = {name: getattr(module, name) for module in MODULES for name in module.__all__} | {
    "TaskSettings": TaskSettings
}


@cache
def find(dotted):
    """Return what a dotted name means; a property of a class leads nowhere further, so None.

    Raises:
        AttributeError: there is no such name.
    """
    if dotted in _VARIABLES:
        return _VARIABLES[dotted]
    before, _, name = dotted.rpartition(".")
    if not before:
        return _NAMES[dotted]
    found = find(before)
    if found is None:
        return None
    if inspect.ismodule(found) and not hasattr(found, name):
        return importlib.import_module(f"{found.__name__}.{name}")
    value = getattr(found, name)
    return None if inspect.isclass(found) and not callable(value) else value


def faults_of(code):
    """Yield the names and keywords in a piece of code that do not exist."""
    try:
        tree = ast.parse(code.removeprefix("@").removeprefix("await "))
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from faults_of_call(node)
        elif isinstance(node, ast.Attribute) and is_known(ast.unparse(node)):
            try:
                find(ast.unparse(node))
            except (AttributeError, ImportError):
                yield ast.unparse(node)


def is_known(dotted):
    is_dotted = re.fullmatch(r"(?:server|ctx|clients?|accord)(?:\.\w+)+", dotted) is not None
    return is_dotted and dotted not in _OTHERS


def faults_of_call(call):
    name = ast.unparse(call.func)
    if not is_known(name) and name not in _NAMES and name not in _OPTIONS:
        return
    try:
        parameters = inspect.signature(find(name)).parameters
    except (AttributeError, ImportError, TypeError, ValueError):
        return  # a name that does not exist is reported as an attribute
    allowed = {*parameters, *getattr(_OPTIONS.get(name), "__annotations__", ())}
    if name.endswith("Content"):
        allowed.add("type")  # which a block has anyway
    is_open = name not in _OPTIONS and any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for keyword in call.keywords:
        if keyword.arg is not None and keyword.arg not in allowed and not is_open:
            yield f"{name}({keyword.arg}=)"


def codes_of(page):
    """Return the code in the sentences and tables of a page; of a comparison, our column."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    for line in text.splitlines():
        if page.name == "migrating.md" and line.startswith("| "):
            line = line.rsplit(" | ", 1)[-1]
        for found in _CODE.finditer(line):
            yield found[1].replace("\\|", "|")


@cases("page", CURRENT_PAGES, ids=lambda page: page.name)
def test_names_and_keywords_in_sentences_exist(page):
    assert [fault for code in codes_of(page) for fault in faults_of(code)] == []


@cases(
    ("code", "expected"),
    [
        ("ctx.stat", ["ctx.stat"]),
        ("ctx.session.state", []),
        ("ctx.session.sate", ["ctx.session.sate"]),
        ("await server.call_tol('add')", ["server.call_tol"]),
        ("server.tool_entries.remove('add')", []),
        ("accord.client.blocking.connect", []),
        ("accord.clients.connect", ["accord.clients.connect", "accord.clients"]),
        ("Server('desk', page_sice=5)", ["Server(page_sice=)"]),
        ("@server.tool(timeut=5)", ["server.tool(timeut=)"]),
        ("connect(..., chache=False)", ["connect(chache=)"]),
        ("connect_all('mcp.json', seperator='_')", ["connect_all(seperator=)"]),
        ("clients.tols()", ["clients.tols"]),
    ],
)
def test_a_wrong_name_is_found(code, expected):
    assert list(faults_of(code)) == expected


def test_our_column_of_a_comparison_is_code_or_says_that_there_is_nothing():
    page = next(page for page in PAGES if page.name == "migrating.md")
    text, _, _ = page.read_text(encoding="utf-8").partition("## What ports showed")
    lines = text.splitlines()
    rows = [line for line in lines if line.startswith("| ") and "accord |" not in line]
    assert len(rows) > 150
    assert [row for row in rows if row.count(" | ") != 2] == []


def anchors_of(page):
    """Return the anchors of the headings of a page, as GitHub makes them."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).strip().replace(" ", "-") for each in headings}


@cases("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page):
    faults = []
    for link in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        if "://" in link or path.startswith("mailto:"):
            continue
        target = page if not path else page.parent / path
        is_page = anchor and target.suffix == ".md"
        if not target.exists() or (is_page and anchor not in anchors_of(target)):
            faults.append(link)
    assert faults == []
