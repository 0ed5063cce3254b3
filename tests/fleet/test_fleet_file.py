"""Reading a fleet file: every value, and every mistake with its line and the nearest key."""

import json
from datetime import date
from pathlib import Path

import pytest

from accord_tools.fleet.definition import AcceptedBreach, FleetError, ServerLimits, VersionSource
from accord_tools.fleet.file.reader import read_fleet
from support.tables import cases

WHOLE = """\
[fleet]
name = "desk servers"
rules = "2026-11"

[defaults]
revisions = ["2025-06-18"]
time = 60
timeout = 3
owner = "team-b"
expect = { failures = 0, score = 95, start = 3.0 }

[mcpServers.tickets]               # exactly the shape of hosts
command = "python"
args = ["tickets.py"]
env = { TICKETS_KEY = "${env:TICKETS_KEY}" }

[mcpServers."odd name"]
url = "https://search.example/mcp"
headers = { Authorization = "Bearer ${env:SEARCH_TOKEN}" }

[mcpServers.off]
command = "off"

[server.tickets]
tags = ["internal"]
owner = "team-a"
version = { package = "pypi:tickets" }
lock = "locks/tickets.lock.json"
cases = ["tickets.accord.toml"]
only = ["tools"]
tools = ["add"]
allow_writes = true
contract = false
calls = 3
readiness = ["claude"]
max_age = 1.5
one_at_a_time = true
expect = { failures = 2, tests = "any" }

[[server.tickets.accept]]
id = "practice.*"
reason = "known"
until = 2027-01-01

[[server.tickets.accept]]
id = "safety.collision"
subject = "tool add"
reason = "both are ours"
until = "2027-01-02"

[server."odd name"]
needs = ["SEARCH_TOKEN"]
revisions = []

[server.off]
enabled = false
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="accord-fleet.toml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    (tmp_path / "tickets.accord.toml").touch()
    return write


def test_every_key_of_a_file_is_read(write, tmp_path):
    fleet = read_fleet(write(WHOLE))
    assert (fleet.name, fleet.rules, fleet.folder) == ("desk servers", "2026-11", tmp_path)
    assert fleet.notes == ("server 'off' is disabled",)
    tickets, search = fleet.servers
    assert tickets.name == "tickets"
    assert tickets.line == 12
    assert tickets.entry["env"] == {"TICKETS_KEY": "${env:TICKETS_KEY}"}
    assert (tickets.owner, tickets.tags, tickets.revisions) == (
        *("team-a", ("internal",)),
        ("2025-06-18",),
    )
    assert (tickets.time, tickets.patience, tickets.max_age) == (60, 3, 1.5)
    assert tickets.expect == ServerLimits(failures=2, score=95, start=3.0, tests=None)
    assert tickets.accept == (
        AcceptedBreach(id="practice.*", reason="known", until=date(2027, 1, 1)),
        AcceptedBreach(
            id="safety.collision",
            reason="both are ours",
            until=date(2027, 1, 2),
            subject="tool add",
        ),
    )
    assert tickets.version == VersionSource(package="pypi:tickets")
    assert tickets.lock == tmp_path / "locks" / "tickets.lock.json"
    assert tickets.cases == (tmp_path / "tickets.accord.toml",)
    assert (tickets.only, tickets.tools, tickets.calls) == (("tools",), ("add",), 3)
    assert (tickets.allow_writes, tickets.contract, tickets.one_at_a_time) == (True, False, True)
    assert tickets.readiness == ("claude",)
    assert search.name == "odd name"
    assert (search.owner, search.needs, search.revisions) == ("team-b", ("SEARCH_TOKEN",), ())
    assert search.expect == ServerLimits(score=95, start=3.0)


def test_the_same_fleet_can_be_json_and_yaml(write):
    yaml = pytest.importorskip("yaml")
    text = WHOLE.replace("2027-01-01", '"2027-01-01"')
    toml = read_fleet(write(text))
    import tomllib

    data = tomllib.loads(text)
    for form, dumped in (
        ("json", "// a comment\n" + json.dumps(data, indent=1)[:-1] + ",}"),
        ("yaml", yaml.safe_dump(data, sort_keys=False)),
    ):
        read = read_fleet(write(dumped, f"accord-fleet.{form}"))
        assert [each.name for each in read.servers] == [each.name for each in toml.servers]
        for one, other in zip(read.servers, toml.servers, strict=True):
            assert one.line is not None
            assert (one.expect, one.accept, one.entry) == (other.expect, other.accept, other.entry)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("mcp.json", '{"mcpServers": {\n"a": {"command": "x"}}}', 2),
        (".vscode/mcp.json", '{\n// one\n"servers": {"a": {"command": "x"}},\n}', 3),
        ("settings.json", '{"theme": 1, "context_servers":\n {"a": {"command": "x"}}}', 2),
        ("opencode.json", '{"mcp": {"a": {"type": "local", "command": ["x", "y"]}}}', 1),
        ("bare.json", '{"a": {"command": "x"}}', 1),
        ("config.toml", 'model = "m"\n[mcp_servers.a]\ncommand = "x"\n', 2),
        ("mcp.yaml", "mcpServers:\n  a:\n    command: x\n", 2),
    ],
)
def test_a_file_of_a_host_is_a_fleet(name, text, line, write, tmp_path):
    fleet = read_fleet(write(text, name))
    assert [(each.name, each.line) for each in fleet.servers] == [("a", line)]
    assert fleet.folder == tmp_path


# Each mistake follows this.
FILE = """\
[fleet]
name = "x"

[mcpServers.tickets]
command = "python"
args = [
  "a",  # ]
  "b",
]

[server.tickets]
# 12
"""
MISTAKES = [
    ("expct = {}", 13, "server 'tickets': there is no key expct; did you mean expect?"),
    ("zzz = 1", 13, "server 'tickets': there is no key zzz; known: owner, tags, revisions, time"),
    ("Owner = 'x'", 13, "there is no key Owner; did you mean owner?"),
    ("command = 'x'", 13, "there is no key command; it belongs into [mcpServers.tickets]"),
    ("allow = ['practice.*']", 13, "there is no key allow; write [[server.NAME.accept]]"),
    ("disabled = true", 13, "there is no key disabled; did you mean enabled = false?"),
    ("time = 'long'", 13, "server 'tickets': time is a text, expected a number of seconds"),
    ("time = true", 13, "time is a boolean, expected a number of seconds"),
    ("time = -1", 13, "time is -1, expected a number of seconds, more than 0"),
    ("time = 0", 13, "time is 0, expected a number of seconds, more than 0"),
    ("time = nan", 13, "time is nan, expected a number of seconds, more than 0"),
    ("\ntimeout = 1\npatience = 2", 14, "timeout and patience are the same: keep one of them"),
    ("max_age = -2", 13, "max_age is -2, expected a number of hours, 0 or more"),
    ("calls = 1.5", 13, "calls is a number, expected a whole number"),
    ("calls = -1", 13, "calls is -1, expected a whole number, 0 or more"),
    ("tags = 'a'", 13, "tags is a text, expected a list of texts, as in tags = [...]"),
    ("tags = ['a',\n 1]", 13, "tags[1] is a number, expected a text"),
    ("tags = ['a', ' ']", 13, "tags[1] is empty, expected a text"),
    ("owner = ''", 13, "owner is empty"),
    ("owner = 3", 13, "owner is a number, expected a text"),
    ("contract = 1", 13, "contract is a number, expected true or false"),
    ("revisions = ['2025-06-17']", 13, "'2025-06-17' is not a revision; did you mean 2025-06-18?"),
    ("revisions = ['draft']", 13, "revisions: 'draft' is not a revision; known: 2024-11-05"),
    ("readiness = ['cloude']", 13, "'cloude' is not a directory; did you mean claude?"),
    ("readiness = 3", 13, "readiness is a number, expected a list of texts"),
    ("needs = ['A B']", 13, "needs: 'A B' is not the name of a variable"),
    ("only = ['tolls']", 13, "only: there is no requirement 'tolls'; did you mean tools?"),
    ("cases = ['gone.toml']", 13, "cases: gone.toml does not exist, expected a file of test cases"),
    ("cases = ['.']", 13, "cases: . is a folder, expected a file of test cases"),
    ("lock = '.'", 13, "lock: . is a folder, expected a file"),
    ("lock = 3", 13, "lock is a number, expected a text"),
    ("version = '1'", 13, "server 'tickets': version is a text, expected a table"),
    ("version = {}", 13, "version needs one of package, command, file"),
    ("version = { package = 'x', file = 'y' }", 13, "version needs one of package, command, file"),
    ("version = { packge = 'x' }", 13, "version: there is no key packge; did you mean package?"),
    ("version = { package = 'x' }", 13, "package is 'x', expected pypi:NAME or npm:NAME"),
    ("version = { command = [] }", 13, "version: command is empty"),
    ("expect = 3", 13, "server 'tickets': expect is a number, expected a table"),
    ("expect = { scor = 3 }", 13, "expect: there is no key scor; did you mean score?"),
    ("\n[server.tickets.expect]\n\nscore = 101", 16, "score is 101, expected a number, 100 at the"),
    ("expect = { coverage = 100.5 }", 13, "coverage is 100.5, expected a number, 100 at the most"),
    ("expect.failures = -1", 13, "failures is -1, expected a whole number, 0 or more"),
    ("expect = { failures = 1.5 }", 13, "failures is a number, expected a whole number"),
    ("expect = { start = 0 }", 13, "start is 0, expected a number of seconds, more than 0"),
    ("accept = 3", 13, "accept is a number, expected a list of tables, as in [[server.tickets.acc"),
    ("accept = ['x']", 13, "accept 1 is a text, expected a table"),
    ("\n[[server.tickets.accept]]\nid = 'tools'", 14, "accept 1: reason is missing: say why"),
    ("accept = [{ id = 'x', reason = 'y' }]", 13, "accept 1: until is missing: name the last day"),
    ("accept = [{}]", 13, "accept 1: id is missing: name a requirement or a finding"),
    (
        "accept = [{ id = 'tools.*', reason = ' ', until = 2027-01-01 }]",
        *(13, "server 'tickets': accept 1: reason is empty"),
    ),
    (
        "[[server.tickets.accept]]\nid = 'tools.*'\nreason = 'y'\nuntil = 'soon'",
        *(16, "accept 1: until is 'soon', expected a date such as 2026-12-31"),
    ),
    (
        "[[server.tickets.accept]]\nid = 'tools.*'\nreason = 'y'\nuntil = 2027",
        *(16, "accept 1: until is a number, expected a date such as 2026-12-31"),
    ),
    (
        (
            "accept = [{ id = 'tools.*', reason = 'y', until = 2027-01-01 },\n"
            "{ id = 'tools.list.arry', reason = 'y', until = 2027-01-01 }]"
        ),
        *(14, "accept 2: there is no requirement or finding 'tools.list.arry'; did you mean tools"),
    ),
    (
        "accept = [{ id = '*', reason = 'x', until = 2027-01-01, subjet = 'x' }]",
        *(13, "accept 1: there is no key subjet; did you mean subject?"),
    ),
    (
        "accept = [{ id = 'to*ls', reason = 'x', until = 2027-01-01 }]",
        *(13, "accept 1: id is 'to*ls': a * may stand at the end only"),
    ),
    ("[server.tikets]", 13, "server 'tikets': there is no such server; did you mean tickets?"),
    ("[server.zzz]", 13, "server 'zzz': there is no such server; known: tickets"),
    ("[sever.tickets]", 13, "there is no table sever; did you mean server?"),
    ("[zzz]", 13, "there is no table zzz; known: fleet, defaults, server, mcpServers"),
    ("[other]\ncommand = 'x'", 13, "server 'other' belongs into [mcpServers.other]"),
    ("[defaults]\nexpct = 1", 14, "defaults: there is no key expct; did you mean expect?"),
    ("[defaults]\nlock = 'x'", 14, "defaults: lock is one file for all servers: write {name} for"),
    ("[defaults]\nexpect = { score = 'x' }", 14, "defaults: expect: score is a text, expected a n"),
    ("[mcpServers.x]\n", 13, "server 'x' has neither command nor url"),
    ("[mcpServers.x]\ncomand = 'y'", 14, "there is no key comand; did you mean command?"),
    ("[mcpServers.x]\ncommand = 'y'\nurl = 'z'", 13, "server 'x' has both command and url"),
    ("[mcpServers.x]\ncommand = 'y'\nargs = 'z'", 15, "server 'x': args: expected a list of texts"),
    ("[mcpServers.x]\nurl = 'ftp://z'", 14, "url: expected a URL that begins with http://"),
    ("[mcpServers.x]\ncommand = 'y'\ntype = 'http'", 15, "type is 'http', expected one of local"),
    ("[mcpServers.x]\ncommand = 'y'\ncwd = '${vault:x}'", 15, "which only its host can fill in;"),
    ("[mcpServers]\nx = 3", 14, "server 'x' is a number, expected a table with command or url"),
    ("[mcpServers.'']\ncommand = 'x'", 13, "'' is not a name for a server: expected 1 to 100"),
    ('[mcpServers."a\\nb"]\ncommand = "x"', 13, "'a\\nb' is not a name for a server"),
    ("[mcpServers.tickets]\n", 13, "appears twice"),
    ("[servers.tickets]\ncommand = 'x'", None, "has two servers 'tickets': keep one of them"),
    ("x = [1,,]", 13, "a value is expected here"),
]


@cases(("mistake", "line", "said"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_reported_with_its_line_and_the_nearest_key(mistake, line, said, write):
    path = write(FILE + mistake)
    with pytest.raises(FleetError) as raised:
        read_fleet(path)
    shown = str(raised.value)
    place = f"{path}:{line}: " if line else f"{path}:"
    assert shown.startswith(place), shown
    assert said in shown


HEADS = [
    ("[fleet]\nnme = 'x'", 2, "fleet: there is no key nme; did you mean name?"),
    ("[fleet]\nname = 3", 2, "fleet: name is a number, expected a text"),
    ("fleet = 3", 1, "fleet is a number, expected a table"),
    ("[fleet]\nrules = '2020-01'", 2, "fleet: rules = '2020-01' is not a set of rules; known: la"),
    ("[fleet]\nextends = 'gone.toml'", 2, "fleet: extends: gone.toml does not exist"),
    ("[fleet]\nextends = 'accord-fleet.toml'", 2, "fleet: extends names this file itself"),
    ("mcpServers = 3", 1, "mcpServers is a number, expected an object, servers by name"),
    ("", None, "names no servers; accord fleet add NAME -- COMMAND adds one"),
    ("[mcpServers.a]\ncommand = 'x'\ndisabled = true", None, "names no servers that are enabled"),
]


@pytest.mark.parametrize(("text", "line", "said"), HEADS)
def test_a_mistake_in_the_head_is_reported(text, line, said, write):
    path = write(text)
    with pytest.raises(FleetError) as raised:
        read_fleet(path)
    assert str(raised.value).startswith(f"{path}:{line}: " if line else str(path))
    assert said in str(raised.value)


OTHERS = [
    (
        "a.json",
        '{"mcpServers": {"a": {"command": "x"},\n"a": {"command": "y"}}}',
        ":2: the key 'a' appears twice",
    ),
    (
        "a.json",
        '{"mcpServers": {"a": {"command": "x"}},\n"server": {"a": {"tme": 1}}}',
        ":2: server",
    ),
    ("a.json", '{"servr": {}, "mcpServers": {"a": {"command": "x"}}}', ":1: there is no table ser"),
    ("a.json", '{"mcpServers":\n[}', ":2: } stands here, but the list"),
    ("a.json", "[]", ": expected a table with mcpServers, and not a list or a value"),
    ("a.json", "{}", ": names no servers: expected a member mcpServers or servers"),
    ("a.json", "[" * 100_000, ":1: values are nested more than 200"),
    (
        "a.yaml",
        "mcpServers:\n  a: {command: x}\n  a: {command: y}\n",
        ":3: the key 'a' appears twice",
    ),
    ("a.yaml", "mcpServers:\n  a: {command: x}\nserver:\n  a:\n    tme: 3\n", ":5: server 'a': th"),
    ("a.yaml", "mcpServers: [\n", ":2: "),
    ("a.yaml", "a: &a\n  b: *a\n", ":2: *a refers to an anchor that stands within"),
    ("a.yaml", "1: {command: x}\nserver: {}", ":1: '1' is not a name for a server"),
    ("a.ini", "[x]\n", ": the ending is not known; expected .toml, .json or .yaml"),
    ("a.toml", "a = " + "[" * 100_000, ":1: values are nested more than 200"),
    ("a.toml", "a = " + "1" * 5000, ":1: exceeds the limit"),
]


@pytest.mark.parametrize(("name", "text", "said"), OTHERS, ids=range(len(OTHERS)))
def test_a_mistake_in_json_or_yaml_is_reported_with_its_line(name, text, said, write):
    path = write(text, name)
    with pytest.raises(FleetError) as raised:
        read_fleet(path)
    assert str(raised.value).lower().startswith(f"{path}{said}".lower()), str(raised.value)


def test_aliases_that_multiply_are_refused(write):
    rows = ["a0: &a0 {command: x}"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(FleetError, match="aliases make more than a million values"):
        read_fleet(write("\n".join(rows), "a.yaml"))


def test_a_folder_is_refused_with_advice(tmp_path, write):
    with pytest.raises(FleetError, match=r"is a folder; accord fleet init .* writes a fleet file"):
        read_fleet(tmp_path)
    write(WHOLE)
    with pytest.raises(FleetError, match=r"is a folder; name the file in it: .*accord-fleet\.toml"):
        read_fleet(tmp_path)


def test_a_missing_file_is_reported_with_its_neighbour(tmp_path, write):
    with pytest.raises(FleetError, match="there is no such file; accord fleet init writes one"):
        read_fleet(tmp_path / "accord-fleet.toml")
    write("{}", "accord-fleet.json")
    with pytest.raises(FleetError, match=r"there is no such file; there is accord-fleet\.json"):
        read_fleet(tmp_path / "accord-fleet.toml")


def test_a_file_that_is_not_text_is_reported(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(FleetError, match="is not UTF-8 text"):
        read_fleet(path)


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path):
    path = tmp_path / "accord-fleet.toml"
    path.write_bytes(b"\xef\xbb\xbf[mcpServers.a]\r\ncommand = 'x'\r\n[server.a]\r\ntme = 1\r\n")
    with pytest.raises(FleetError, match=r":4: server 'a': there is no key tme; did you mean time"):
        read_fleet(path)


# -- extends


def test_the_defaults_name_the_locks_of_all_servers(write, tmp_path):
    fleet = read_fleet(
        write(
            "[defaults]\nlock = 'locks/{name}.lock.json'\n[mcpServers.a]\ncommand = 'a'\n"
            "[mcpServers.'../b c']\ncommand = 'b'\n[mcpServers.c]\ncommand = 'c'\n"
            "[mcpServers.'..']\ncommand = 'd'\n[server.c]\nlock = 'own.{name}.lock'\n"
        )
    )
    locks = [each.lock and each.lock.relative_to(tmp_path).as_posix() for each in fleet.servers]
    assert locks == [
        "locks/a.lock.json",
        "locks/%2E.%2Fb%20c.lock.json",
        "own.{name}.lock",
        "locks/%2E..lock.json",
    ]


def test_locks_of_a_file_that_is_extended_are_beside_it(write, tmp_path):
    (tmp_path / "base").mkdir()
    base = "[defaults]\nlock = '{name}.lock'\n[mcpServers.a]\ncommand = 'a'\n"
    write(base, "base/all.toml")
    more = "[fleet]\nextends = 'base/all.toml'\n[mcpServers.b]\ncommand = 'b'\n"
    assert [each.lock for each in read_fleet(write(more)).servers] == [
        tmp_path / "base" / "a.lock",
        tmp_path / "base" / "b.lock",
    ]


def test_a_file_extends_another(write, tmp_path):
    (tmp_path / "base").mkdir()
    base = write(
        "[fleet]\nname = 'base'\n[defaults]\ntime = 10\nowner = 'x'\nexpect = { score = 90 }\n"
        "[mcpServers.a]\ncommand = 'a'\n[mcpServers.b]\ncommand = 'b'\n"
        "[server.a]\nlock = 'a.lock'\ntags = ['t']\n[server.b]\nenabled = false\n",
        "base/all.toml",
    )
    fleet = read_fleet(
        write(
            "[fleet]\nextends = 'base/all.toml'\n[defaults]\ntime = 20\nexpect = { tokens = 5 }\n"
            "[mcpServers.c]\ncommand = 'c'\n[server.a]\ntags = ['u']\n[server.b]\nenabled = true\n"
        )
    )
    a, b, c = fleet.servers
    assert [each.name for each in fleet.servers] == ["a", "b", "c"]
    assert fleet.name == "base"
    assert (a.time, a.owner, a.tags) == (20, "x", ("u",))
    assert a.expect == ServerLimits(score=90, tokens=5)
    assert a.lock == base.parent / "a.lock"
    assert (a.folder, a.line, b.folder) == (base.parent, None, base.parent)
    assert (c.folder, c.line) == (None, 6)


def test_only_one_file_can_be_extended(write):
    write("[fleet]\nextends = 'accord-fleet.toml'\n", "b.toml")
    with pytest.raises(FleetError, match=r":2: fleet: extends: b\.toml extends another file itsel"):
        read_fleet(write("[fleet]\nextends = 'b.toml'"))


def test_a_mistake_in_an_extended_file_names_that_file(write):
    base = write("[mcpServers.a]\ncommand = 'x'\n[server.a]\ntme = 1\n", "b.toml")
    with pytest.raises(FleetError) as raised:
        read_fleet(write("[fleet]\nextends = 'b.toml'"))
    assert str(raised.value).startswith(f"{base}:4: server 'a': there is no key tme")


def test_ids_of_findings_are_checked_when_they_are_known(write):
    text = (
        "[mcpServers.a]\ncommand = 'x'\n[[server.a.accept]]\n"
        "id = 'safety.colision'\nreason = 'x'\nuntil = 2027-01-01\n"
    )
    assert read_fleet(write(text)).servers
    with pytest.raises(FleetError, match=r":4: .*'safety.colision'; did you mean safety.collision"):
        read_fleet(write(text), lint_ids=["safety.collision"])


# -- secrets

SECRET = "Zq9-hidden-value-77"
TOKEN = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize(
    ("member", "line", "label", "variable"),
    [
        (f"env = {{ API_KEY = '{SECRET}' }}", 3, "env.API_KEY", "API_KEY"),
        (f"[mcpServers.a.env]\nX = '1'\nDB_PASSWORD = '{SECRET}'", 5, "env.DB_PASSWORD", "DB_PASS"),
        (f"env = {{ MODE = '{TOKEN}' }}", 3, "env.MODE", "MODE"),
        (f"env = {{ API_KEY = '${{env:API_KEY:-{SECRET}}}' }}", 3, "env.API_KEY", "API_KEY"),
        ("env = { PIN = 123456 }", 3, "env.PIN", "PIN"),
        (f"args = ['--token', '{SECRET}']", 3, "args.1", "A_TOKEN"),
        (f"args = [\n'x',\n'--api-key={SECRET}']", 5, "args.1", "A_API_KEY"),
        (f"args = ['-e', 'MY_TOKEN={SECRET}']", 3, "args.1", "MY_TOKEN"),
        (f"args = ['run', '{TOKEN}']", 3, "args.1", "A_SECRET"),
    ],
)
def test_a_literal_secret_is_refused_and_not_quoted(member, line, label, variable, write):
    path = write(f"[mcpServers.a]\ncommand = 'x'\n{member}\n")
    with pytest.raises(FleetError) as raised:
        read_fleet(path)
    shown = str(raised.value)
    assert shown.startswith(f"{path}:{line}: server 'a': {label} has a value that looks like a se")
    assert f'write "${{env:{variable}' in shown
    assert "--allow-literals" in shown
    assert SECRET not in shown
    assert TOKEN not in shown
    assert read_fleet(path, allow_literals=True).servers


@pytest.mark.parametrize(
    ("members", "label", "variable"),
    [
        (f"headers = {{ Authorization = 'Bearer {SECRET}' }}", "headers.Authorization", "A_TOKEN"),
        (f"headers = {{ X-Api-Key = '{SECRET}' }}", "headers.X-Api-Key", "A_X_API_KEY"),
        (f"headers = {{ X-Other = '{TOKEN}' }}", "headers.X-Other", "A_X_OTHER"),
        (f"auth = '{SECRET}'", "auth", "A_TOKEN"),
    ],
)
def test_a_literal_secret_of_a_remote_server_is_refused(members, label, variable, write):
    path = write(f"[mcpServers.a]\nurl = 'https://a.example/mcp'\n{members}\n")
    with pytest.raises(FleetError) as raised:
        read_fleet(path)
    assert f"{label} has a value that looks like a secret" in str(raised.value)
    assert f'"${{env:{variable}}}"' in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        f"https://me:{SECRET}@a.example/mcp",
        f"https://a.example/mcp?key={SECRET}",
        f"https://a.example/mcp?x=1&access_token={SECRET}",
        f"https://{TOKEN}@a.example/mcp",
    ],
)
def test_a_literal_secret_in_a_url_is_refused(url, write):
    path = write(f"[mcpServers.a]\nurl = '{url}'\n")
    with pytest.raises(FleetError, match="url has a value that looks like a secret") as raised:
        read_fleet(path)
    assert SECRET not in str(raised.value)
    assert TOKEN not in str(raised.value)


@pytest.mark.parametrize(
    "members",
    [
        "command = 'x'\nenv = { API_KEY = '${env:OTHER}' }",
        "command = 'x'\nenv = { API_KEY = '${OTHER:-}' }",
        "command = 'x'\nenv = { API_KEY = '' }",
        "command = 'x'\nenv = { API_KEY = '<your key>' }",
        "command = 'x'\nenv = { PRIVATE_KEY = '/home/me/.ssh/id_rsa' }",
        "command = 'x'\nenv = { PRIVATE_KEY = '~/key.pem' }",
        "command = 'x'\nenv = { MAX_TOKENS = 500, USE_AUTH = 'true', LOG_LEVEL = 'debug' }",
        "command = 'x'\nargs = ['--token', '--verbose', '--token-file', './token']",
        "command = 'x'\nargs = ['-m', 'tickets.secrets', 'a=b']",
        "command = 'x'\nargs = ['--token', '${env:TOKEN}']",
        "url = 'https://a.example/mcp?mode=fast&version=2'",
        "url = 'https://a.example/mcp'\nauth = 'oauth'",
        "url = 'https://a.example/mcp'\nheaders = { Authorization = 'Bearer ${env:T}' }",
        "url = 'https://a.example/mcp'\nheaders = { Accept-Language = 'de', X-Team = 'desk' }",
        "url = 'https://me:${env:P}@a.example/mcp?key=${env:K}'",
    ],
)
def test_placeholders_and_ordinary_values_are_not_secrets(members, write):
    assert read_fleet(write(f"[mcpServers.a]\n{members}\n")).servers


def test_a_relative_path_works_from_any_folder(write, tmp_path, monkeypatch):
    write("[mcpServers.a]\ncommand = 'x'\n[server.a]\nlock = 'a.lock'\n", "sub/accord-fleet.toml")
    monkeypatch.chdir(tmp_path)
    fleet = read_fleet(Path("sub/accord-fleet.toml"))
    assert fleet.servers[0].lock == tmp_path / "sub" / "a.lock"
    assert fleet.folder == tmp_path / "sub"
