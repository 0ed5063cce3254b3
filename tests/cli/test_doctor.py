"""`accord doctor`, and tokens on the command line."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import time

import pytest
from aiohttp import web

from accord import Server
from accord.auth import MemoryStore, OAuth, Protected, StaticTokens
from accord.auth.discovery import ResourceMetadata
from accord_tools.diagnosis.steps import check_tls, open_port
from accord_tools.diagnosis.token_facts import token_facts
from accord_tools.doctor.url import Diagnosis
from support.certificates import self_signed, serving_with
from support.http_server import bounded, free_port, serving
from support.issuer import token
from support.scripted_authorization import browse, scripted
from support.tables import cases
from support.waiting import LONG, run

REVISION = "2025-06-18"
ACCORD = [sys.executable, "-m", "accord.cli.main"]


async def accord(*args, **env):
    """Run the command line beside servers on this loop."""
    process = await asyncio.create_subprocess_exec(
        *ACCORD,
        *args,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **env},
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def examined(url, *args, **env):
    code, out, err = await accord("doctor", url, "--json", *args, **env)
    assert err == "", err
    said = json.loads(out)
    assert said["target"] == url
    return code, {each["name"]: each for each in said["steps"]}, said["verdict"]


def verdicts(steps):
    return {name: each["verdict"] for name, each in steps.items()}


def test_every_step_of_a_good_server_is_shown():
    async def main():
        async with scripted() as script:
            code, steps, verdict = await examined(script.url)
            assert (code, verdict) == (0, "ok")
            assert verdicts(steps) == {
                "dns": "ok",
                "tcp": "ok",
                "http": "ok",
                "challenge": "ok",
                "resource metadata": "ok",
                "authorization server": "ok",
                "registration": "ok",
                "pkce": "ok",
                "token": "skipped",
                "initialize": "skipped",
                "list": "skipped",
            }
            assert "--oauth" in steps["token"]["change"]
            token = script.grant()["access_token"]
            code, steps, _ = await examined(script.url, "--bearer", token)
            assert code == 0
            assert steps["token"]["verdict"] == "ok"
            assert "scripted 1" in steps["initialize"]["came"]
            assert steps["list"]["asked"] == "tools/list"
            assert token not in str(steps)
            script.is_open = True
            code, steps, _ = await examined(script.url)
            assert (code, "open to every caller" in steps["http"]["came"]) == (0, True)
            assert "challenge" not in steps

    run(main())


@cases(
    ("behaviour", "name", "verdict", "change"),
    [
        ({"challenge": ""}, "challenge", "warning", "WWW-Authenticate"),
        ({"challenge": "Bearer"}, "challenge", "warning", "resource_metadata"),
        ({"prm": None}, "resource metadata", "warning", "RFC 9728"),
        ({"prm": {"resource": "https://x.example"}}, "resource metadata", "failed", "to name"),
        ({"prm": {"authorization_servers": []}}, "resource metadata", "failed", "at least one"),
        ({"metadata": {"issuer": "https://x.example"}}, "authorization server", "failed", "issuer"),
        ({"metadata": {"registration_endpoint": None}}, "registration", "warning", "client_id"),
        ({"metadata": {"code_challenge_methods_supported": ["plain"]}}, "pkce", "failed", "S256"),
        ({"metadata": {"token_endpoint": "http://10.0.0.1/"}}, "endpoints", "failed", "https"),
        ({"metadata": {"token_endpoint": None}}, "endpoints", "failed", "endpoint"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_fault_is_reported_with_what_to_change(behaviour, name, verdict, change):
    async def main():
        async with scripted(**behaviour) as script:
            diagnosis = Diagnosis(script.url)
            await diagnosis.run()
            (step,) = [each for each in diagnosis.steps if each.name == name]
            assert step.verdict == verdict
            assert change in step.change
            assert step.asked
            assert diagnosis.failures == ({name} if verdict == "failed" else set())

    run(main())


@pytest.mark.parametrize(
    ("answer", "verdict", "expected"),
    [
        (
            b"HTTP/1.1 302 Found\r\nLocation: /login?token=SECRET\r\nContent-Length: 0\r\n\r\n",
            "warning",
            "redirects to, http://127.0.0.1:{port}/login",
        ),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "failed", "the answer is not HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<h1>!",
            "warning",
            "check the URL: MCP servers often end in /mcp",
        ),
    ],
    ids=["redirect", "other protocol", "page"],
)
def test_a_server_that_does_not_speak_mcp_is_reported(answer, verdict, expected):
    async def main():
        async def serve(reader, writer):
            with contextlib.suppress(asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            diagnosis = Diagnosis(f"http://127.0.0.1:{port}/mcp")
            await diagnosis.run()
            (step,) = [each for each in diagnosis.steps if each.name == "http"]
            assert step.verdict == verdict
            assert expected.format(port=port) in f"{step.came} {step.change}"
            assert "SECRET" not in str(diagnosis.steps)

    run(main())


@cases("status", [404, 405])
def test_a_path_that_the_server_does_not_know_is_a_warning(status):
    async def main():
        overrides = {"/mcp": lambda _request: web.Response(status=status)}
        async with scripted(overrides=overrides) as script:
            diagnosis = Diagnosis(script.url)
            await diagnosis.run()
            (step,) = [each for each in diagnosis.steps if each.name == "http"]
            assert step.verdict == "warning"
            assert str(status) in step.came
            assert step.change == "check the path; servers often use /mcp"

    run(main())


def test_a_server_that_ends_after_its_first_answer_is_a_warning():
    """The look for the older form finds nothing to connect to."""

    async def main():
        async def serve(reader, writer):
            with contextlib.suppress(asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                server.close()
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            diagnosis = Diagnosis(f"http://127.0.0.1:{port}/mcp")
            await diagnosis.run()
        steps = {each.name: each for each in diagnosis.steps}
        assert steps["http"].verdict == "warning"
        assert "check the path" in steps["http"].change
        assert steps["initialize"].verdict == "failed"

    run(main())


def test_a_refusal_that_names_no_revision_points_to_the_log_of_the_server():
    async def main():
        overrides = {"/mcp": lambda _request: web.Response(status=500, text="no database")}
        async with scripted(overrides=overrides) as script:
            diagnosis = Diagnosis(script.url)
            await diagnosis.run()
            step = diagnosis.steps[-1]
            assert (step.name, step.verdict) == ("http", "failed")
            assert "500" in step.came
            assert step.change == "see the log of the server"

    run(main())


def test_a_token_is_obtained_at_default_paths_where_no_metadata_is_published():
    async def main():
        async with scripted(challenge="Bearer", prm=None, metadata=None) as script:
            auth = OAuth(store=MemoryStore(), open_browser=browse, timeout=LONG)
            diagnosis = Diagnosis(script.url, auth=auth)
            await diagnosis.run()
            steps = {each.name: each for each in diagnosis.steps}
            assert {name: each.verdict for name, each in steps.items()} == {
                **dict.fromkeys(("dns", "tcp", "http"), "ok"),
                **dict.fromkeys(
                    ("challenge", "resource metadata", "authorization server"), "warning"
                ),
                **dict.fromkeys(("registration", "pkce", "token", "initialize", "list"), "ok"),
            }
            assert f"default paths such as {script.issuer}/token" in (
                steps["authorization server"].came
            )
            assert "RFC 8414" in steps["authorization server"].change

    run(main())


def test_metadata_that_cannot_be_trusted_is_a_failure_although_the_challenge_names_none():
    async def main():
        async with scripted(challenge="Bearer", metadata={"issuer": "https://x.example"}) as script:
            diagnosis = Diagnosis(script.url)
            await diagnosis.run()
            steps = {each.name: each for each in diagnosis.steps}
            assert steps["challenge"].verdict == "warning"
            assert steps["resource metadata"].verdict == "ok"
            assert steps["authorization server"].verdict == "failed"

    run(main())


def test_clients_that_are_identified_by_a_url_need_no_registration():
    async def main():
        metadata = {"registration_endpoint": None, "client_id_metadata_document_supported": True}
        async with scripted(metadata=metadata) as script:
            diagnosis = Diagnosis(script.url)
            await diagnosis.run()
            (step,) = [each for each in diagnosis.steps if each.name == "registration"]
            assert step.verdict == "ok"
            assert "URL of their metadata as client ID" in step.came

    run(main())


def test_a_token_may_be_given_as_text():
    async def main():
        async with scripted() as script:
            good = script.grant()["access_token"]
            diagnosis = Diagnosis(script.url, auth=good)
            await diagnosis.run()
            steps = {each.name: each for each in diagnosis.steps}
            assert steps["token"].came.startswith(f"{len(good)} characters")
            assert (steps["token"].verdict, steps["list"].verdict) == ("ok", "ok")
            assert good not in str(diagnosis.steps)

    run(main())


def test_every_session_is_ended():
    app = Server("desk").asgi()
    with serving(app) as port:
        code, steps, _ = run(examined(f"http://127.0.0.1:{port}/mcp"))
        assert (code, steps["initialize"]["verdict"], len(app.sessions)) == (0, "ok", 0)


def test_a_token_is_compared_with_the_metadata_of_the_server():
    about = ResourceMetadata(
        resource="https://desk.example/mcp", authorization_servers=("https://issuer.example/",)
    )
    good = token()
    facts = token_facts(good, about, time.time())
    assert facts.faults == ()
    assert "'https://issuer.example' for 'https://desk.example/mcp'" in facts.description
    assert good not in facts.description
    wrong = token(aud="account", iss="https://other.example", exp=1_000)
    late, foreign, elsewhere = token_facts(wrong, about, 1_060.0).faults
    assert "expired 60 s ago" in late
    assert "not meant for https://desk.example/mcp" in foreign
    assert "protected by https://issuer.example/" in elsewhere
    for opaque in ("x", "a.b.c", "a..c", "a.W10.c", "..", "a.\u00e9.c"):
        assert token_facts(opaque, about, 0.0).faults == ()
    assert token_facts(wrong, None, 0.0).faults == ()


def test_a_refused_token_is_a_failure():
    async def main():
        async with scripted() as script:
            code, steps, _ = await examined(script.url, "--bearer", "wrong")
            assert (code, steps["initialize"]["verdict"]) == (1, "failed")
            assert steps["initialize"]["came"].startswith("token refused: ")
            assert "another token" in steps["initialize"]["change"]
            assert steps["token"]["came"].startswith("5 characters")

    run(main())


@pytest.mark.parametrize(
    ("url", "name"),
    [("http://nowhere.invalid/mcp", "dns"), ("http://127.0.0.1:{port}/mcp", "tcp")],
)
def test_a_server_that_cannot_be_reached_is_exit_code_2(url, name):
    async def main():
        code, steps, _ = await examined(url.format(port=free_port()))
        assert (code, list(steps)[-1], steps[name]["verdict"]) == (2, name, "failed")
        assert steps[name]["change"]

    run(main())


def test_a_server_without_tls_fails_at_the_tls_step():
    async def main():
        async with scripted() as script:
            code, steps, _ = await examined(script.url.replace("http:", "https:"))
            assert (code, steps["tls"]["verdict"]) == (2, "failed")

    run(main())


def test_an_address_where_nothing_listens_is_a_warning_beside_one_that_works():
    async def main():
        async with scripted() as script:
            port = int(script.url.split(":")[2].split("/")[0])
            step = await open_port(["127.0.0.2", "127.0.0.1"], port, LONG)
            assert step.verdict == "warning"
            assert step.came.startswith("127.0.0.2: ")
            assert "127.0.0.1" not in step.came
            assert "remove addresses where nothing listens" in step.change

    run(main())


@contextlib.asynccontextmanager
async def secured(certificate):
    """Serve TLS and nothing else; yield the port."""

    async def serve(_reader, writer):
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=serving_with(certificate))
    async with server:
        yield server.sockets[0].getsockname()[1]


def long_lasting(folder):
    """Make a certificate for localhost that is valid for months, and its key."""
    key, file = folder / "long-key.pem", folder / "long.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
    command += ["ec_paramgen_curve:prime256v1", "-nodes", "-days", "90", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(file)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    return file, key


def test_a_certificate_that_is_not_trusted_ends_the_diagnosis(tmp_path):
    async def main():
        async with secured(self_signed(tmp_path)) as port:
            diagnosis = Diagnosis(f"https://localhost:{port}/mcp")
            await diagnosis.run()
        step = diagnosis.steps[-1]
        assert (step.name, step.verdict) == ("tls", "failed")
        assert "self-signed certificate" in step.came.replace("self signed", "self-signed")
        assert step.change == "serve a certificate that is valid for localhost, with its chain"

    run(main())


@cases(
    ("make", "verdict", "change"),
    [(self_signed, "warning", "renew it soon"), (long_lasting, "ok", "")],
    ids=["two days", "ninety days"],
)
def test_a_certificate_that_ends_soon_is_a_warning(tmp_path, monkeypatch, make, verdict, change):
    async def main():
        certificate = make(tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        async with secured(certificate) as port:
            step = await check_tls("localhost", port, LONG)
        assert (step.verdict, step.change) == (verdict, change)
        assert re.fullmatch(r"TLSv1\.\d, certificate valid for \d+ days", step.came)

    run(main())


def test_a_server_that_is_silent_during_the_tls_handshake_is_a_failure():
    async def main():
        left = asyncio.Event()

        async def serve(_reader, writer):
            await left.wait()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            step = await check_tls("127.0.0.1", port, 0.1)
            left.set()
        assert (step.verdict, step.came) == ("failed", "no answer in time")
        assert "it may speak plain HTTP" in step.change

    run(main())


def test_text_output_has_a_line_for_each_step():
    async def main():
        async with scripted(metadata={"code_challenge_methods_supported": None}) as script:
            code, out, _ = await accord("doctor", script.url)
            assert code == 0
            assert "ok       dns " in out
            assert "warning  pkce " in out
            assert "change: publish code_challenge_methods_supported" in out

    run(main())


def test_pkce_that_the_metadata_omits_is_assumed_if_the_option_says_so():
    async def main():
        async with scripted(metadata={"code_challenge_methods_supported": None}) as script:
            code, out, _ = await accord("doctor", script.url, "--oauth")
            assert code == 1
            assert "add --assume-pkce" in out
            code, _, err = await accord("doctor", script.url, "--assume-pkce")
            assert code == 2
            assert "--assume-pkce needs --oauth" in err

    run(main())


@pytest.mark.parametrize("verdict", ["ok", "failed"])
def test_a_given_token_is_tried_even_without_metadata(verdict):
    async def main():
        broken = {"metadata": {"issuer": "https://x.example"}}
        async with scripted(**broken) as script:
            good = script.grant()["access_token"]
            token = good if verdict == "ok" else "wrong"
            code, steps, _ = await examined(script.url, "--bearer", token)
            assert code == 1  # clients that obtain a token fail in any case
            assert steps["authorization server"]["verdict"] == "failed"
            assert steps["initialize"]["verdict"] == verdict

    run(main())


def test_oauth_is_not_begun_without_metadata():
    async def main():
        async with scripted(metadata={"issuer": "https://x.example"}) as script:
            _, steps, _ = await examined(script.url, "--oauth")
            assert "token" not in steps
            assert "initialize" not in steps

    run(main())


def refused_with(supported):
    """Examine a server that refuses every revision but those given; return what it was asked."""
    offered = []
    error = {
        "code": -32022,
        "message": "Unsupported protocol version",
        "data": {"supported": supported, "requested": "2025-11-25"},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 0, "error": error}).encode()

    async def main():
        async def serve(reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
            offered.append(json.loads(await reader.readexactly(length)))
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await examined(f"http://127.0.0.1:{port}/mcp")

    code, steps, _ = run(main())
    assert code == 1
    return offered, steps


def test_the_newest_handshake_is_offered_and_the_revisions_of_the_server_are_reported():
    offered, steps = refused_with(["2031-01-01"])
    assert offered[0]["params"]["protocolVersion"] == "2025-11-25"
    change = steps["http"]["change"]
    assert "the server names 2031-01-01; accord speaks 2024-11-05" in change
    assert "log of the server" not in change


def test_a_server_without_handshake_is_reachable():
    _, steps = refused_with(["2026-07-28"])
    assert steps["http"]["verdict"] == "ok"
    assert "the server speaks 2026-07-28" in steps["http"]["came"]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (
            "localhost:8000",
            "localhost:8000 is an address; a URL begins with http:// or https://: http://localhost:8000/mcp",
        ),
        ("server.py", "there is no file server.py"),
        ("package_mod:server", "there is no module package_mod"),
    ],
)
def test_a_target_that_does_not_exist_is_refused(target, said):
    code, _, err = run(accord("doctor", target))
    assert code == 2
    assert err.startswith(f"accord: {said}")


@pytest.mark.parametrize("url", ["ftp://x.example", "server.py", "http://h.example:99999/"])
def test_an_invalid_url_is_exit_code_2(url):
    code, _, err = run(accord("doctor", url))
    assert code == 2
    assert err.startswith("accord: ")


def test_list_and_call_take_tokens():
    async def main():
        async with scripted() as script:
            code, _, err = await accord("list", script.url)
            assert code == 2
            assert "--oauth" in err
            token = script.grant()["access_token"]
            assert (await accord("list", script.url, "--bearer", token))[0] == 0
            taken = await accord("list", script.url, "--bearer", "-", ACCORD_BEARER=token)
            assert taken[0] == 0
            code, _, err = await accord("list", script.url, "--bearer", "a b")
            assert (code, "a b" in err) == (2, False)
            code, _, err = await accord("list", script.url, "--bearer", "x", "--oauth")
            assert (code, "not both" in err) == (2, True)

    run(main())


def test_oauth_on_the_command_line_needs_a_browser_or_a_terminal(tmp_path):
    """Without a terminal the code cannot be pasted, so that no URL is shown to open."""

    async def main():
        async with scripted() as script:
            env = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "XDG_CONFIG_HOME": str(tmp_path)}
            code, _, err = await accord("list", script.url, "--oauth", **env)
            assert code == 2
            assert "open this URL" not in err
            assert "or run this once in a terminal, which keeps the token" in err
            assert "neither a browser nor a terminal" in err
            assert "try: use --grant client-credentials or --grant device, or a token with" in err

    run(main())


def test_a_client_that_is_registered_by_hand_is_named_on_the_command_line(tmp_path):
    async def main():
        async with scripted(metadata={"registration_endpoint": None}) as script:
            env = {"XDG_CONFIG_HOME": str(tmp_path), "ACCORD_CLIENT_SECRET": "made-by-hand-1"}
            named = ["--client-id", "me", "--grant", "client-credentials", "--scope", "a"]
            code, _, err = await accord("list", script.url, "--oauth", *named, **env)
            assert (code, "ACCORD_CLIENT_SECRET needs --issuer URL" in err) == (2, True)
            named += ["--issuer", script.issuer]
            code, steps, _ = await examined(script.url, "--oauth", *named, **env)
            assert (code, steps["list"]["verdict"]) == (0, "ok")
            (sent,), (head,) = script.forms("/token"), script.heads("/token")
            assert (sent["client_id"], sent["scope"]) == ("me", "a")
            assert head["Authorization"].startswith("Basic ")
            for wrong in (["--grant", "x"], ["--redirect-uri", "https://evil.example"]):
                code, _, err = await accord("list", script.url, "--oauth", *wrong, **env)
                assert code == 2, err
            code, _, err = await accord("list", script.url, "--client-id", "me", **env)
            assert (code, "--client-id needs --oauth" in err) == (2, True)
            other = ["--oauth", *named[:-1], "https://login.example"]
            code, _, err = await accord("list", script.url, *other, **env)
            assert (code, "try: --issuer https://login.example trusts no other" in err) == (2, True)

    run(main())


def test_a_check_takes_a_client_that_is_registered_by_hand_and_keeps_no_token(tmp_path):
    async def main():
        async with scripted(metadata={"registration_endpoint": None}) as script:
            env = {"XDG_CONFIG_HOME": str(tmp_path), "ACCORD_CLIENT_SECRET": "made-by-hand-1"}
            only = ["--only", "lifecycle.version.server-echoes", "--revision", REVISION]
            check = ["check", "server", script.url, "--oauth", *only, "--format", "json"]
            code, _, err = await accord(*check, **env)
            assert code == 2
            assert "register the client by hand and name it: --client-id ID" in err
            named = ["--client-id", "me", "--grant", "client-credentials", "--scope", "a"]
            named += ["--issuer", script.issuer]
            code, out, err = await accord(*check, *named, **env)
            assert (code, [each["verdict"] for each in json.loads(out)["results"]]) == (0, ["pass"])
            (sent,), (head,) = script.forms("/token"), script.heads("/token")
            assert (sent["client_id"], sent["scope"]) == ("me", "a")
            assert head["Authorization"].startswith("Basic ")
            code, _, err = await accord(*check[:3], "--client-id", "me")
            assert (code, "--client-id needs --oauth" in err) == (2, True)
        assert list(tmp_path.iterdir()) == []

    run(main())


def test_oauth_on_the_command_line_keeps_its_token(tmp_path):
    """The browser is any command that BROWSER names."""
    visitor = tmp_path / "visit.py"
    visitor.write_text(
        "import sys, urllib.request as r\n"
        "r.build_opener(r.ProxyHandler({})).open(sys.argv[1], timeout=60).read()\n"
    )

    async def main():
        async with scripted() as script:
            env = {
                "DISPLAY": ":0",
                "BROWSER": f"{sys.executable} {visitor} %s",
                "XDG_CONFIG_HOME": str(tmp_path),
            }
            for _ in range(2):
                code, _, err = await accord("list", script.url, "--oauth", **env)
                assert code == 0, err
            assert script.count("/authorize") == 1
            assert (tmp_path / "accord" / "tokens.json").exists()

    run(main())


def test_a_server_of_the_older_form_of_http_is_recognized():
    async def main(port):
        diagnosis = Diagnosis(f"http://127.0.0.1:{port}/sse")
        await diagnosis.run()
        return {each.name: each for each in diagnosis.steps}

    with serving(Server("desk").asgi(sse=True)) as port:
        steps = run(main(port))
    assert steps["http"].verdict == "ok"
    assert "HTTP with SSE, the older form" in steps["http"].came
    assert steps["initialize"].verdict == "ok"


def test_a_server_with_fixed_tokens_gets_no_warnings_about_metadata():
    server = Server("desk", auth=Protected(StaticTokens({"good": ["use"]})))

    async def main(url):
        code, steps, verdict = await examined(url, "--bearer", "good")
        assert (code, verdict) == (0, "ok")
        assert verdicts(steps) == {
            **dict.fromkeys(("dns", "tcp", "http", "challenge"), "ok"),
            "resource metadata": "skipped",
            **dict.fromkeys(("token", "initialize", "list"), "ok"),
        }
        _, steps, _ = await examined(url)
        assert steps["token"]["change"] == "give it with --bearer TOKEN"
        _, _, said = await accord("list", url)
        assert "give a token with --bearer TOKEN" in said
        assert "--oauth" not in said
        assert said.count("a token is required") == 1
        assert "{" not in said  # the text of the error, and not its JSON

    with bounded(server.asgi()) as port:
        run(main(f"http://127.0.0.1:{port}/mcp"))


def test_a_fixed_token_is_tried_although_the_metadata_cannot_be_read():
    issuer = f"http://127.0.0.1:{free_port()}"
    server = Server("desk", auth=Protected(StaticTokens({"good": ["use"]}), issuer=issuer))

    async def main(url):
        _, steps, _ = await examined(url, "--bearer", "good")
        assert (steps["initialize"]["verdict"], steps["list"]["verdict"]) == ("ok", "ok")
        code, steps, _ = await examined(url, "--bearer", "bad")
        assert code == 1
        assert steps["initialize"]["came"].startswith("token refused: ")

    with bounded(server.asgi()) as port:
        run(main(f"http://127.0.0.1:{port}/mcp"))


@pytest.mark.parametrize(
    ("url", "step", "change"),
    [
        ("http://nowhere.invalid/mcp", "failed   dns", "change: correct the host name"),
        ("http://127.0.0.1:{port}/mcp", "failed   tcp", "change: start the server"),
    ],
)
def test_a_check_that_cannot_connect_shows_the_step_that_failed(url, step, change):
    url = url.format(port=free_port())
    code, out, err = run(accord("check", "server", url))
    assert (code, out) == (2, "")
    assert err.startswith(f"accord: {url}: ")
    assert step in err
    assert change in err


def test_a_token_in_a_header_of_its_own_is_used():
    async def main():
        async with scripted() as script:
            header = f"Authorization: Bearer {script.grant()['access_token']}"
            code, steps, _ = await examined(script.url, "--header", header)
            assert (code, steps["list"]["verdict"]) == (0, "ok")

    run(main())
