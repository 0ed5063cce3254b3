"""A call in other forms: each works where it is pasted, and has no secret."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from accord.cli.main import main
from accord.client.server_spec import ServerSpec
from accord.http.client.auth import Bearer
from accord_tools.inspector.exports.call_forms import FormSetting, build_forms
from accord_tools.inspector.exports.exported_call import ExportedCall
from accord_tools.inspector.target_access import make_safe, quote_for_python, quote_for_shell
from inspector.reached_servers import (
    ask,
    call_of,
    make_server,
    session_of,
    small_target,
    url_target,
)
from support.http_server import serving
from support.running import on_a_loop
from support.tables import cases

TOKEN = "token-of-the-user-1"
KEY = "key-of-the-user-22"
SECRETS = (TOKEN, KEY, "hunter2-and-more")
ODD = """it's "odd" $HOME `x` \\ é"""


def url_setting(port, **more):
    target = url_target(port, headers={"x-api-key": KEY}, auth=Bearer(TOKEN))
    return FormSetting(**({"safe": make_safe(target), "spoken": "2025-06-18"} | more))


def exported(**more):
    given = {
        "kind": "tool",
        "name": "echo",
        "arguments": json.dumps({"text": ODD}, ensure_ascii=False),
        "response": "",
        "is_complete": True,
        "revision": "2025-06-18",
        "title": "a call",
    }
    return ExportedCall(**(given | more))


def forms_of(call, setting):
    found = {each.id: each for each in build_forms(call, setting)}
    for form in found.values():
        assert not any(secret in form.text + form.note for secret in SECRETS)
    return found


def run_in_shell(text, tmp_path):
    """Run a text in a shell in which `accord` is this accord."""
    wrapper = tmp_path / "accord"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m accord "$@"\n')
    wrapper.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TOKEN": TOKEN}
    env["X_API_KEY"] = KEY
    return subprocess.run(
        ["/bin/sh", "-eu", "-c", text],
        capture_output=True,
        text=True,
        env=env,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )


# -- run


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_the_command_line_works_in_a_shell(tmp_path):
    with serving(make_server().asgi()) as port:
        form = forms_of(exported(), url_setting(port, chosen="2025-06-18"))["accord"]
        ran = run_in_shell(form.text, tmp_path)
    assert ran.stdout == f"{ODD}!\n", ran.stderr
    assert "TOKEN" in form.note
    assert "X_API_KEY" in form.note


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2026-07-28"])
def test_the_commands_of_curl_work_in_a_shell(tmp_path, revision):
    call = exported(name="add", arguments='{"a": 1, "b": 2.50}')
    with serving(make_server().asgi()) as port:
        form = forms_of(call, url_setting(port, spoken=revision))["curl"]
        ran = run_in_shell(form.text, tmp_path)
    assert "3.5" in ran.stdout, ran.stderr
    assert '"b": 2.50' in form.text


def test_the_python_code_runs(tmp_path):
    with serving(make_server().asgi()) as port:
        form = forms_of(exported(), url_setting(port))["python"]
        env = {**os.environ, "TOKEN": TOKEN, "X_API_KEY": KEY, "PYTHONUTF8": "1"}
        ran = subprocess.run(
            [sys.executable, "-c", form.text],
            capture_output=True,
            text=True,
            env=env,
            timeout=60,
            check=False,
        )
    assert "$HOME" in ran.stdout, ran.stderr


@on_a_loop
async def forms_of_calls(port, cases, *calls):
    async with session_of(url_target(port), is_connected=True) as session:
        for number, (name, params) in enumerate(calls):
            id = await call_of(session, name, **params)
            forms = (await ask(session, "export.call", call=id))["forms"]
            case = next(each for each in forms if each["id"] == "case")
            (cases / f"case-{number}.{case['language']}").write_text(case["text"])


def test_the_cases_pass(tmp_path, capsys):
    with serving(make_server().asgi()) as port:
        forms_of_calls(
            port,
            tmp_path,
            ("calls.tool", {"name": "add", "arguments": '{"a": 1, "b": 2}'}),
            ("calls.tool", {"name": "echo", "arguments": json.dumps({"text": ODD})}),
            ("calls.tool", {"name": "fail", "arguments": '{"why": "so"}'}),
            ("calls.tool", {"name": "echo", "arguments": '{"text": null}'}),
            ("calls.read", {"uri": "note://today"}),
            ("calls.prompt", {"name": "greet", "arguments": '{"name": "Ada"}'}),
        )
        files = sorted(tmp_path.iterdir())
        assert [each.suffix for each in files].count(".toml") == 5
        for file in files:
            assert main(["test", "--cases", str(file)]) == 0, capsys.readouterr()


# -- texts


def test_a_command_target_stands_after_two_dashes():
    target = small_target(
        shown="-- srv --api-key ...",
        command=("srv", "--api-key", KEY, "a b"),
        env={**os.environ, "MY_TOKEN": TOKEN},
        cwd="/some folder",
    )
    setting = FormSetting(safe=make_safe(target), spoken="2025-06-18")
    found = forms_of(exported(arguments="{}"), setting)
    assert found["accord"].text == (
        "accord call echo --env MY_TOKEN=\"$MY_TOKEN\" --cwd '/some folder' "
        "-- srv --api-key \"$SERVER_API_KEY\" 'a b'\n"
    )
    assert 'env={"MY_TOKEN": os.environ["MY_TOKEN"]}' in found["python"].text
    assert "curl" not in found
    compile(found["python"].text, "exported", "exec")


def test_a_file_target_is_named_as_it_was_typed():
    setting = FormSetting(
        safe=make_safe(small_target(shown="small.py:server")), spoken="2025-06-18"
    )
    found = forms_of(exported(kind="prompt", name="greet", arguments='{"name": "a b"}'), setting)
    expected = "accord call small.py:server greet 'name=a b' --prompt\n"
    assert found["accord"].text == expected


def test_a_request_has_no_command_line_and_no_case():
    setting = FormSetting(safe=ServerSpec(name="srv", command=("srv",)), spoken="2026-07-28")
    call = exported(kind="request", name="x/y", arguments='{"big": 12345678901234567890123}')
    found = forms_of(call, setting)
    assert {*found} == {"python", "json"}
    message = found["json"].text
    assert '"big": 12345678901234567890123' in message
    assert "io.modelcontextprotocol/protocolVersion" in json.loads(message)["params"]["_meta"]


def test_secrets_in_a_url_become_variables():
    target = url_target(1, "/mcp?api_key=hunter2-and-more&debug=1")
    url = "http://me:key-of-the-user-22@127.0.0.1:1/mcp"
    for each in (target, url_target(1), small_target(url=url, command=())):
        setting = FormSetting(safe=make_safe(each), spoken="2025-06-18")
        forms_of(exported(), setting)
    shown = make_safe(target).url
    assert shown.startswith("http://127.0.0.1:1/mcp?api_key=${env:")
    assert shown.endswith("&debug=1")


@pytest.mark.parametrize("text", ["", "plain", ODD, "a\nb", "${env:X}", "pre ${env:X_1}post"])
def test_texts_are_quoted_for_a_shell_and_for_python(text, monkeypatch):
    monkeypatch.setenv("X", "value of x")
    monkeypatch.setenv("X_1", "other")
    expected = text.replace("${env:X}", "value of x").replace("${env:X_1}", "other")
    assert eval(quote_for_python(text), {"os": os}) == expected
    if sys.platform != "win32":
        script = f"printf %s {quote_for_shell(text)}"
        ran = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
        assert ran.stdout == expected


@on_a_loop
async def test_a_call_with_a_secret_is_exported_without_it():
    arguments = '{"text": "hello", "password": "hunter2-and-more"}'
    with serving(make_server().asgi()) as port:
        async with session_of(url_target(port), is_connected=True) as session:
            id = await call_of(session, "calls.tool", name="echo", arguments=arguments)
            entry = (await ask(session, "history.list"))["entries"][0]["id"]
            for reference in ({"call": id}, {"history": entry}):
                forms = (await ask(session, "export.call", **reference))["forms"]
                assert "hunter2" not in str(forms)
                assert all("/password" in each["note"] for each in forms)


@cases(
    ("answer", "expected"),
    [
        ({"content": [{"type": "text", "text": "x" * 3_000}]}, f'contains = "{"x" * 200}"'),
        ({"structuredContent": {"a": [1, {"b": 2}]}}, "partly = { a = [1, { b = 2 }] }"),
        (
            {"structuredContent": {"a": [None]}, "content": [{"type": "text", "text": "said"}]},
            'text = "said"',
        ),
        ({"content": [5, {"type": "text", "text": "said"}]}, 'text = "said"'),
        ([1], ""),
    ],
)
def test_a_case_expects_what_is_the_same_the_next_time(answer, expected):
    setting = FormSetting(safe=ServerSpec(name="srv", command=("srv",)), spoken="2025-06-18")
    text = forms_of(exported(response=json.dumps(answer)), setting)["case"].text
    assert ("expect" in text) == bool(expected)
    assert expected in text


def test_a_case_names_the_file_in_full_and_the_revision_that_was_chosen(tmp_path, monkeypatch):
    (tmp_path / "small.py").write_text("")
    monkeypatch.chdir(tmp_path)
    for shown, target in (
        ("small.py:server", f"{tmp_path / 'small.py'}:server"),
        ("small.py", str(tmp_path / "small.py")),
        ("a.module", "a.module"),
    ):
        setting = FormSetting(
            safe=make_safe(small_target(shown=shown)), chosen="2025-06-18", spoken="2025-06-18"
        )
        text = forms_of(exported(response="{}"), setting)["case"].text
        assert f"target = {json.dumps(target)}\n" in text
        assert 'revision = "2025-06-18"\n' in text


def test_arguments_that_are_not_json_are_left_out():
    setting = FormSetting(safe=ServerSpec(name="srv", command=("srv",)), spoken="2025-06-18")
    call = exported(kind="prompt", name="greet", arguments="nonsense", response="{}")
    found = forms_of(call, setting)
    assert found["accord"].text == "accord call greet --prompt -- srv\n"
    assert 'get_prompt("greet", {})' in found["python"].text
    assert "arguments" not in found["case"].text


def test_the_meta_of_a_request_stays_as_it_was_typed():
    setting = FormSetting(safe=ServerSpec(name="srv", command=("srv",)), spoken="2026-07-28")
    typed = '{"a": 1, "_meta": {"own": true}}'
    message = forms_of(exported(kind="request", name="x/y", arguments=typed), setting)["json"].text
    assert json.loads(message)["params"] == json.loads(typed)


def test_the_python_code_signs_in_where_the_user_did_and_has_lists():
    safe = ServerSpec(name="srv", url="http://127.0.0.1:1/mcp", auth="oauth")
    setting = FormSetting(safe=safe, spoken="2025-06-18")
    text = forms_of(exported(arguments='{"a": [1.50, "b", null]}'), setting)["python"].text
    assert 'auth="oauth"' in text
    assert "{'a': [1.50, 'b', None]}" in text
    compile(text, "exported", "exec")
