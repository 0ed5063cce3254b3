"""`server.yaml` of the Docker catalogue: an image and its settings as an entry of a fleet."""

from collections.abc import Mapping
from typing import Any

from accord_tools.hosts.entries.literals import names_secret, variable_name
from accord_tools.hosts.sources.found_server import FoundServer, plain_name


def is_docker_server(data: Mapping[str, Any]) -> bool:
    """Return whether a document is a `server.yaml` of the Docker catalogue."""
    return isinstance(data.get("name"), str) and (
        isinstance(data.get("image"), str) or isinstance(data.get("remote"), Mapping)
    )


def read_docker_server(data: Mapping[str, Any], source: str) -> FoundServer:
    """Return the server of a `server.yaml`."""
    config = data.get("config")
    settings = config if isinstance(config, Mapping) else data
    needs: list[str] = []
    env: dict[str, str] = {}
    for row in _rows(settings, "secrets"):
        if isinstance(row.get("env"), str):
            needs.append(row["env"])
            env[row["env"]] = f"${{env:{row['env']}}}"
    for row in _rows(settings, "env"):
        name, value = row.get("name"), row.get("value", "")
        if not isinstance(name, str):
            continue
        is_open = "{{" in str(value) or value == "" or names_secret(name)
        env[name] = f"${{env:{name}}}" if is_open else str(value)
        needs += [name] if is_open else []
    remarks: list[str] = []
    remote = data.get("remote")
    entry: dict[str, Any]
    if isinstance(remote, Mapping) and isinstance(remote.get("url"), str):
        kind = "sse" if remote.get("transport_type") == "sse" else "http"
        entry = {"type": kind, "url": remote["url"]}
        headers = remote.get("headers")
        if isinstance(headers, Mapping):
            entry["headers"] = {str(name): str(value) for name, value in headers.items()}
        for row in _rows(data, "secrets"):
            entry.setdefault("headers", {}).setdefault(
                "Authorization", f"Bearer ${{env:{variable_name(str(row.get('env', 'token')))}}}"
            )
    else:
        entry = {"command": "docker", "args": _run_words(data, list(env), remarks)}
        if env:
            entry["env"] = env
    needed = list(dict.fromkeys(needs))
    return FoundServer(
        name=plain_name(str(data["name"])),
        entry=entry,
        source=source,
        settings={"needs": needed} if needed else {},
        remarks=tuple(remarks),
        variables=tuple(needed),
    )


def _run_words(data: Mapping[str, Any], names: list[str], remarks: list[str]) -> list[str]:
    run = data.get("run")
    settings = run if isinstance(run, Mapping) else {}
    words = ["run", "-i", "--rm"]
    words += [word for name in names for word in ("-e", name)]
    if settings.get("disableNetwork") is True:
        words += ["--network", "none"]
    if isinstance(settings.get("user"), str):
        words += ["-u", settings["user"]]
    for volume in settings.get("volumes") or ():
        if "{{" in str(volume):
            remarks.append(f"the volume {volume} has to be written by hand")
        else:
            words += ["-v", str(volume)]
    words.append(str(data.get("image")))
    for each in settings.get("command") or ():
        if "{{" in str(each):
            remarks.append(f"the argument {each} has to be written by hand")
        else:
            words.append(str(each))
    return words


def _rows(table: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = table.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
