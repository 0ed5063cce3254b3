"""Entries in the form of each host: written, read back, and what a host cannot express."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.client.server_spec import ServerSpec
from accord_tools.hosts.definition import ConfigFile, HostsError
from accord_tools.hosts.entries.placeholders import NoPlaceholder, ReservedText
from accord_tools.hosts.entries.shaping import entries_in, from_host, to_host
from accord_tools.hosts.table import load_hosts
from support.tables import cases

HOSTS = load_hosts()
ENTRIES = {
    "stdio": ServerSpec(
        name="search",
        command=("/opt/uvx", "search-server", "--index", "my notes"),
        env={"LOG": "1", "API_KEY": "${env:API_KEY}"},
        cwd="/srv/data",
        timeout=30.0,
    ),
    "http": ServerSpec(
        name="search",
        transport="http",
        url="https://search.example/mcp",
        headers={"X-Team": "a", "Authorization": "Bearer ${env:TOKEN}"},
        timeout=30.0,
    ),
    "sse": ServerSpec(name="search", transport="sse", url="https://search.example/sse"),
}
SECRETS = ("API_KEY", "Authorization")


def without_variables(entry):
    return msgspec.structs.replace(
        entry,
        env={name: text for name, text in entry.env.items() if name not in SECRETS},
        headers={name: text for name, text in entry.headers.items() if name not in SECRETS},
    )


def shape(host, kind):
    """The entry of a transport for the user's file, without variables if the host has none."""
    if getattr(host, kind) is None:
        return "not offered"
    try:
        return to_host(ENTRIES[kind], host, scope="user").value
    except NoPlaceholder:
        return to_host(without_variables(ENTRIES[kind]), host, scope="user").value


EXPECTED = json.loads(Path(__file__).with_name("host_entries.json").read_text())


def plain(name="server", **members):
    return ServerSpec(name=name, **({"command": ("run",)} | members))


def write(id, entry, scope="user"):
    return to_host(entry, HOSTS[id], scope=scope)


@cases("id", HOSTS)
def test_the_entry_of_each_host_is_as_the_list_says(id):
    assert {kind: shape(HOSTS[id], kind) for kind in ENTRIES} == EXPECTED[id]


def test_the_list_of_entries_names_no_other_hosts():
    assert set(EXPECTED) == set(HOSTS)


@cases("kind", ENTRIES)
@cases("id", HOSTS)
def test_an_entry_read_back_lacks_only_what_the_remarks_say(id, kind):
    host = HOSTS[id]
    if getattr(host, kind) is None:
        with pytest.raises(HostsError, match="takes no"):
            to_host(ENTRIES[kind], host, scope="user")
        return
    for entry in (ENTRIES[kind], without_variables(ENTRIES[kind])):
        try:
            shaped = to_host(entry, host, scope="user")
        except NoPlaceholder:
            continue
        remarks = " ".join(shaped.remarks)
        asked = [each["id"] for each in shaped.inputs]
        expected = msgspec.structs.replace(
            entry,
            cwd=None if "cwd is left out" in remarks else entry.cwd,
            timeout=None if "has no timeout" in remarks else entry.timeout,
            transport="http" if "finds out itself" in remarks else entry.transport,
            env=ask_for(entry.env, asked),
            headers=ask_for(entry.headers, asked),
        )
        assert from_host("search", shaped.value, host) == expected
        assert json.loads(json.dumps(shaped.value)) == shaped.value


def ask_for(texts, asked):
    """The same texts, with `input` in place of `env` for what the host asks for."""
    for each in asked:
        texts = {k: v.replace(f"${{env:{each}}}", f"${{input:{each}}}") for k, v in texts.items()}
    return dict(texts)


def test_a_refused_variable_is_named_with_its_host():
    with pytest.raises(NoPlaceholder) as refusal:
        write("trae", ENTRIES["stdio"])
    assert (refusal.value.host, refusal.value.variable) == ("Trae", "API_KEY")
    assert refusal.value.place == "env.API_KEY"


@cases("id", [id for id, host in HOSTS.items() if host.stdio])
def test_a_disabled_entry_stays_disabled_or_a_remark_says_so(id):
    shaped = write(id, plain(disabled=True))
    is_kept = from_host("server", shaped.value, HOSTS[id]).disabled
    assert is_kept != any("switches servers off in the application" in r for r in shaped.remarks)


def test_members_that_only_the_host_knows_are_kept():
    given = {"type": "stdio", "command": "run", "args": [], "sandboxEnabled": True, "dev": {"a": 1}}
    entry = from_host("server", given, HOSTS["vscode"])
    assert entry.extra == {"sandboxEnabled": True, "dev": {"a": 1}}
    assert write("vscode", entry).value == given


def test_members_beside_the_headers_of_continue_are_kept():
    given = {
        "name": "server",
        "type": "sse",
        "url": "https://x.example",
        "requestOptions": {"headers": {"A": "1"}, "verifySsl": False},
    }
    entry = from_host("server", given, HOSTS["continue"])
    assert entry.headers == {"A": "1"}
    assert entry.extra == {"requestOptions": {"verifySsl": False}}
    assert write("continue", entry).value == given


def test_a_value_of_the_user_takes_the_place_of_a_fixed_one():
    given = {
        "name": "Nice Name",
        "type": "stdio",
        "cmd": "run",
        "args": [],
        "enabled": False,
        "description": "mine",
        "bundled": None,
    }
    entry = from_host("nicename", given, HOSTS["goose"])
    assert entry.disabled
    assert entry.extra == {"name": "Nice Name", "description": "mine", "bundled": None}
    assert write("goose", entry).value == given


def test_the_tools_of_copilot_are_in_the_file_of_the_user_alone():
    assert write("copilot-cli", plain()).value["tools"] == ["*"]
    assert "tools" not in write("copilot-cli", plain(), scope="project").value
    given = {"type": "local", "command": "run", "args": [], "tools": ["one"]}
    assert write("copilot-cli", from_host("server", given, HOSTS["copilot-cli"])).value == {
        **given,
        "type": "stdio",
    }


@cases(
    ("id", "value", "transport"),
    [
        ("cline", {"url": "https://x.example"}, "sse"),
        ("cline", {"type": "streamableHttp", "url": "https://x.example"}, "http"),
        ("cline", {"transport": {"type": "sse", "url": "https://x.example"}}, "sse"),
        ("cline", {"transport": {"type": "stdio", "command": "run"}}, "stdio"),
        ("gemini-cli", {"url": "https://x.example"}, "http"),
        ("gemini-cli", {"httpUrl": "https://x.example"}, "http"),
        ("gemini-cli", {"url": "https://x.example", "type": "http"}, "http"),
        ("qwen-code", {"httpUrl": "https://x.example"}, "http"),
        ("qwen-code", {"url": "https://x.example", "type": "http"}, "sse"),
        ("cursor", {"url": "https://x.example", "type": "sse"}, "sse"),
        ("claude-code", {"type": "streamable-http", "url": "https://x.example"}, "http"),
        ("windsurf", {"url": "https://x.example"}, "http"),
        ("goose", {"type": "streamable_http", "uri": "https://x.example"}, "http"),
        ("goose", {"type": "sse", "url": "https://x.example"}, "sse"),
        ("claude-desktop", {"url": "https://x.example"}, "http"),
        ("vscode", {"command": "run", "url": "https://x.example"}, "stdio"),
    ],
)
def test_the_transport_is_read_as_the_host_reads_it(id, value, transport):
    entry = from_host("server", value, HOSTS[id])
    assert entry.form == transport
    assert entry.extra == {}
    assert entry.url == ("" if transport == "stdio" else "https://x.example")


def test_older_and_foreign_forms_of_a_command_are_read():
    nested = {"source": "custom", "command": {"path": "run", "args": ["a"], "env": {"A": "1"}}}
    entry = from_host("server", nested, HOSTS["zed"])
    assert (entry.command, entry.env) == (("run", "a"), {"A": "1"})
    assert entry.extra == {"source": "custom"}
    assert from_host("s", {"command": ["run", "a"]}, HOSTS["cursor"]).command == ("run", "a")
    assert from_host("s", {"command": "run"}, HOSTS["opencode"]).command == ("run",)
    foreign = from_host("s", {"command": "run", "env": {"A": "1"}}, HOSTS["goose"])
    assert (foreign.command, foreign.env) == (("run",), {"A": "1"})


def test_numbers_and_null_in_env_are_read_as_text():
    value = {"command": "run", "args": [1, True], "env": {"A": 1, "B": None, "C": False, "D": 0.5}}
    entry = from_host("server", value, HOSTS["vscode"])
    assert entry.command == ("run", "1", "true")
    assert entry.env == {"A": "1", "C": "false", "D": "0.5"}


@cases("value", [None, "run", [], 3, {}, {"command": 3}, {"command": []}])
def test_a_value_that_is_not_an_entry_is_refused(value):
    with pytest.raises(HostsError, match="'server' of Cursor"):
        from_host("server", value, HOSTS["cursor"])


def test_a_name_that_the_host_refuses_is_an_error():
    with pytest.raises(HostsError, match="keeps the name 'workspace' for itself"):
        write("claude-code", plain("workspace"))
    with pytest.raises(HostsError, match=r"does not take the name 'my server': it must match \["):
        write("codex", plain("my server"))
    assert write("cursor", plain("my server")).value["command"] == "run"
    with pytest.raises(HostsError, match="is not a name"):
        write("cursor", plain("a\x1b[31m"))


def test_names_of_variables_stand_in_lists_where_the_host_has_such():
    env = {"A": "${env:A}", "B": "${env:A}"}
    assert write("codex", plain(env={"A": "${env:A}"})).value["env_vars"] == ["A"]
    with pytest.raises(NoPlaceholder, match=r"variable A in env\.B"):
        write("codex", plain(env=env))
    headers = {"X-Key": "${env:KEY}", "Authorization": "bearer ${env:TOKEN}"}
    entry = plain(command=(), transport="http", url="https://x.example", headers=headers)
    value = write("codex", entry).value
    assert value["env_http_headers"] == {"X-Key": "KEY"}
    assert value["bearer_token_env_var"] == "TOKEN"
    with pytest.raises(NoPlaceholder, match="the header X-Key"):
        write("codex", msgspec.structs.replace(entry, headers={"X-Key": "v1 ${env:KEY}"}))
    with pytest.raises(NoPlaceholder, match="the command"):
        write("codex", plain(command=("run", "${env:A}")))


def test_copilot_fills_in_nothing_in_the_command():
    with pytest.raises(NoPlaceholder, match=r"GitHub Copilot CLI .* variable A in the command"):
        write("copilot-cli", plain(command=("run", "--key=${env:A}")))
    entry = from_host("s", {"command": "run", "args": ["${A}"]}, HOSTS["copilot-cli"])
    assert entry.command == ("run", "${A}")


def test_a_default_is_kept_where_the_host_has_defaults():
    entry = plain(env={"A": "${env:A:-one two}"})
    assert write("claude-code", entry).value["env"] == {"A": "${A:-one two}"}
    assert from_host("server", write("claude-code", entry).value, HOSTS["claude-code"]) == entry
    shaped = write("kiro", entry)
    assert shaped.value["env"] == {"A": "${A}"}
    assert "knows no defaults: set the variable A" in shaped.remarks[0]


def test_a_value_to_ask_for_becomes_an_input_or_a_variable():
    entry = plain(env={"KEY": "${input:my-key}", "OTHER": "${input:my-key}"})
    shaped = write("vscode", entry)
    assert shaped.value["env"]["KEY"] == "${input:my-key}"
    assert shaped.inputs == (
        {"type": "promptString", "id": "my-key", "description": "my-key", "password": True},
    )
    shaped = write("claude-code", entry)
    assert shaped.value["env"]["KEY"] == "${MY_KEY}"
    assert shaped.remarks == ("Claude Code asks for nothing: set the variable MY_KEY",)
    with pytest.raises(
        NoPlaceholder, match=r"Zed does not fill in the variable MY_KEY in env\.KEY"
    ):
        write("zed", entry)


@cases(
    ("id", "text"),
    [
        ("claude-code", "a${NAME}"),
        ("claude-code", "${NAME:-x}"),
        ("gemini-cli", "cost$USD"),
        ("opencode", "{env:OTHER}"),
        ("kilo-code", "{file:/etc/passwd}"),
        ("windsurf", "${file:/etc/passwd}"),
        ("continue", "${{secrets.NAME}}"),
        ("crush", "$(rm -r x)"),
        ("crush", "`id`"),
        ("crush", "5$"),
        ("pi", "!date"),
        ("pi", "$env:HOME"),
    ],
)
def test_literal_text_that_the_host_would_fill_in_or_run_is_refused(id, text):
    with pytest.raises(ReservedText, match=r"would fill in or run a part of env\.A") as refusal:
        write(id, plain(env={"A": text}))
    assert text not in str(refusal.value)
    assert (refusal.value.host, refusal.value.place) == (HOSTS[id].name, "env.A")


def test_an_open_bracket_before_a_variable_is_refused():
    with pytest.raises(HostsError, match="would fill in or run"):
        write("claude-code", plain(env={"A": "${X:-${env:A}}"}))


def test_a_variable_may_be_named_like_a_part_of_the_form():
    entry = plain(env={"A": "${env:DEFAULT_NAME:-NAME DEFAULT}"})
    assert write("claude-code", entry).value["env"] == {"A": "${DEFAULT_NAME:-NAME DEFAULT}"}


PARTS = ("$", "{", "}", "${", "env:", "input:", ":-", "A", "B_1", "x y", "`", "(", "\\", "secrets.")
FILLED = ("${env:A}", "${env:B_1:-x}", "${input:a-b}")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    text=st.lists(st.sampled_from(PARTS + FILLED), max_size=6).map("".join),
    id=st.sampled_from([id for id, host in HOSTS.items() if host.stdio]),
)
def test_any_text_is_read_back_as_it_was_or_refused(text, id):
    entry = plain(command=("run", text), env={"A": text})
    try:
        shaped = write(id, entry)
    except HostsError:
        return
    found = from_host("server", shaped.value, HOSTS[id])
    if not shaped.remarks and not shaped.inputs:
        assert found == entry


def test_literal_text_that_means_nothing_to_the_host_stays():
    for id, text in (("claude-desktop", "${X}`$(a)"), ("claude-code", "$X {env:X}"), ("zed", "$X")):
        shaped = write(id, plain(env={"A": text}))
        assert shaped.value["env"] == {"A": text}
        assert from_host("server", shaped.value, HOSTS[id]).env == {"A": text}


def test_variables_that_goose_ignores_are_a_remark():
    shaped = write("goose", plain(env={"Path": "/x", "A": "1"}))
    assert shaped.remarks == ("Goose ignores the variables Path of an entry",)


def test_a_timeout_is_rounded_up_to_the_unit_of_the_host():
    shaped = write("zed", plain(timeout=0.2))
    assert (shaped.value["timeout"], len(shaped.remarks)) == (1, 1)
    assert write("claude-code", plain(timeout=0.2)).value["timeout"] == 200


def test_entries_are_found_in_objects_lists_and_under_flat_keys():
    expected = {
        "cursor": ({"mcpServers": {"a": {"command": "x"}}}, ("mcpServers", "a")),
        "amp": ({"amp.mcpServers": {"a": {"command": "x"}}}, ("amp.mcpServers", "a")),
        "continue": ({"mcpServers": [{"x": 1}, {"name": "a"}]}, ("mcpServers", 1)),
        "mistral-vibe": ({"mcp_servers": [{"name": "a"}]}, ("mcp_servers", 0)),
    }
    for id, (data, keys) in expected.items():
        file = config_file(id, "user")
        assert {name: found[0] for name, found in entries_in(data, file).items()} == {"a": keys}
    for data in (None, [], "x", {}, {"mcpServers": 3}, {"mcpServers": None}):
        assert entries_in(data, config_file("cursor", "user")) == {}


def config_file(id, scope):
    host = HOSTS[id]
    return ConfigFile(host=host, scope=scope, path=Path("x"), key=host.key, format=host.format)


def test_parts_of_a_host_that_are_not_servers_are_left_out():
    data = {"extensions": {"memory": {"type": "builtin"}, "a": {"type": "stdio", "cmd": "x"}}}
    assert list(entries_in(data, config_file("goose", "user"))) == ["a"]
    data = {"context_servers": {"x": {"source": "extension"}, "a": {"command": "x"}}}
    assert list(entries_in(data, config_file("zed", "user"))) == ["a"]


def test_bare_names_are_read_in_project_files_of_copilot_alone():
    data = {"a": {"command": "x"}, "b": {"note": 1}}
    assert list(entries_in(data, config_file("copilot-cli", "project"))) == ["a"]
    assert entries_in(data, config_file("copilot-cli", "user")) == {}
    assert entries_in(data, config_file("claude-code", "project")) == {}
    both = {**data, "mcpServers": {"c": {"command": "x"}}}
    assert list(entries_in(both, config_file("copilot-cli", "project"))) == ["c"]
