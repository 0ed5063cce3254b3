"""The manifest of a bundle, in its versions 0.1 to 0.4: read leniently, and judged."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from accord_tools.hosts.definition import HostsError

MANIFEST_VERSIONS: Final = ("0.1", "0.2", "0.3", "0.4")
"""The versions that are read."""

SettingType: TypeAlias = Literal["string", "number", "boolean", "directory", "file"]
SettingValue: TypeAlias = str | bool | int | float | list[str]

_PLACEHOLDER: Final = re.compile(r"\$\{([^${}]+)\}")
_SETTING: Final = "user_config."
_KNOWN_PLACES: Final = frozenset(
    ("__dirname", "HOME", "DESKTOP", "DOCUMENTS", "DOWNLOADS", "pathSeparator", "/")
)
_EXACT: Final = re.compile(r"v?\d+\.\d+\.\d+(?:[-+.]?[\w.+-]+)?")
_MISMATCH: Final = re.compile(r"(.*?)(?: - at `(?:key in )?\$?\.?(.*)`)?", re.DOTALL)


class BundleAuthor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The person or the company that made a bundle."""

    name: str
    email: str | None = None
    url: str | None = None


class BundleOverride(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What replaces parts of a command on one platform."""

    command: str | None = None
    args: tuple[str, ...] | None = None
    env: Mapping[str, str] | None = None


class BundleCommand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the server is launched; texts have placeholders such as `${__dirname}`."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    platform_overrides: Mapping[str, BundleOverride] = {}


class BundleServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The server in a bundle; `mcp_config` may be missing for the type `uv`."""

    type: Literal["python", "node", "binary", "uv"]
    entry_point: str
    mcp_config: BundleCommand | None = None


class BundleTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that the server offers."""

    name: str
    description: str | None = None


class BundlePrompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt that the server offers; its text has `${arguments.NAME}`."""

    name: str
    description: str | None = None
    arguments: tuple[str, ...] = ()
    text: str = ""


class BundleSetting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value that the user gives."""

    type: SettingType
    title: str = ""
    description: str = ""
    required: bool = False
    default: SettingValue | None = None
    multiple: bool = False
    sensitive: bool = False
    min: float | None = None
    max: float | None = None


class BundleRuntimes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The versions of Python and Node.js that the server needs."""

    python: str | None = None
    node: str | None = None


class BundleCompatibility(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a bundle works; other members are versions of hosts."""

    platforms: tuple[str, ...] | None = None
    runtimes: BundleRuntimes = BundleRuntimes()


class BundleManifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parts of `manifest.json` that are used here."""

    manifest_version: str = ""
    name: str
    display_name: str | None = None
    version: str
    description: str
    author: BundleAuthor
    server: BundleServer
    license: str | None = None
    tools: tuple[BundleTool, ...] = ()
    tools_generated: bool = False
    prompts: tuple[BundlePrompt, ...] = ()
    prompts_generated: bool = False
    compatibility: BundleCompatibility = BundleCompatibility()
    user_config: Mapping[str, BundleSetting] = {}

    @property
    def title(self) -> str:
        """The name for people."""
        return self.display_name or self.name


# Members that the newest version knows, and that are for hosts alone.
_OTHERS: Final = (
    *("$schema", "dxt_version", "long_description", "repository", "homepage", "documentation"),
    *("support", "icon", "icons", "screenshots", "localization", "keywords", "privacy_policies"),
    "_meta",
)
_SINCE: Final = {"privacy_policies": "0.2", "icons": "0.3", "localization": "0.3", "_meta": "0.3"}


def read_manifest(data: bytes) -> tuple[BundleManifest, tuple[str, ...]]:
    """Return the manifest of a bundle, and what is not as it should be without doing harm.

    Raises:
        HostsError: it cannot be used; the message names the member.
    """
    try:
        document: Any = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HostsError(f"manifest.json is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise HostsError("manifest.json is not an object")
    version = document.get("manifest_version", document.get("dxt_version"))
    if version not in MANIFEST_VERSIONS:
        shown = f"is {str(version)[:20]!r}" if version is not None else "is missing"
        raise HostsError(
            f"manifest.json: manifest_version {shown}; known are {', '.join(MANIFEST_VERSIONS)}"
        )
    try:
        manifest = msgspec.convert({**document, "manifest_version": version}, BundleManifest)
    except msgspec.ValidationError as error:
        raise HostsError(f"manifest.json: {_explain(str(error))}") from None
    fault = next(_faults(manifest), None)
    if fault is not None:
        raise HostsError(f"manifest.json: {fault}")
    return manifest, tuple(_remarks(manifest, document))


def _explain(message: str) -> str:
    found = _MISMATCH.fullmatch(message)
    assert found is not None  # it matches everything
    text = found[1].replace("`", "")
    text = re.sub(r"^Object missing required field (\S+)", r"\1 is missing", text)
    where = f"{found[2]}: " if found[2] else ""
    return where + text[:1].lower() + text[1:]


def unsafe_path(path: str) -> str:
    """Return what is wrong with the path of a file in a bundle; empty if nothing."""
    if not path or path in (".", "/"):
        return "it is empty"
    if path.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", path):
        return "it is not relative"
    if ".." in re.split(r"[/\\]", path):
        return "it leads out of the bundle"
    return ""


def _faults(manifest: BundleManifest) -> Iterator[str]:
    """Yield what makes a manifest useless, or dangerous."""
    for member in ("name", "version"):
        text = getattr(manifest, member)
        if not text.strip() or re.search(r"[\x00-\x1f\x7f]", text) or len(text) > 200:
            yield f"{member} is empty, too long, or has control characters"
    server = manifest.server
    problem = unsafe_path(server.entry_point.removeprefix("${__dirname}/").removeprefix("./"))
    if problem:
        yield f"server.entry_point {server.entry_point!r}: {problem}"
    if server.mcp_config is None and server.type != "uv":
        yield f"server.mcp_config is missing, which the type {server.type} needs"
    if server.mcp_config is not None and not server.mcp_config.command.strip():
        yield "server.mcp_config.command is empty"
    for key, setting in manifest.user_config.items():
        problem = check_setting(setting, setting.default)
        if problem:
            yield f"user_config.{key}.default {problem}"


def check_setting(setting: BundleSetting, value: SettingValue | None) -> str:
    """Return what is wrong with the value of a setting; empty if nothing. It is not shown."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "" if setting.multiple else "is a list, but multiple is not set"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {"number": is_number, "boolean": isinstance(value, bool)}
    if not fits.get(setting.type, isinstance(value, str)):
        return f"is not a {setting.type}"
    if is_number and not isinstance(value, str):
        if setting.min is not None and value < setting.min:
            return f"is less than {setting.min:g}"
        if setting.max is not None and value > setting.max:
            return f"is more than {setting.max:g}"
    return ""


def texts_of(manifest: BundleManifest) -> Iterator[tuple[str, str]]:
    """Yield the texts of a manifest that have placeholders, with their place."""
    config = manifest.server.mcp_config
    if config is None:
        return
    parts: list[tuple[str, BundleCommand | BundleOverride]] = [("server.mcp_config", config)]
    for platform, override in config.platform_overrides.items():
        parts.append((f"server.mcp_config.platform_overrides.{platform}", override))
    for place, each in parts:
        yield f"{place}.command", each.command or ""
        for number, text in enumerate(each.args or ()):
            yield f"{place}.args[{number}]", text
        for name, text in (each.env or {}).items():
            yield f"{place}.env.{name}", text


def _remarks(manifest: BundleManifest, document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what hosts may refuse, or ignore."""
    known = {*BundleManifest.__struct_fields__, *_OTHERS}
    for member in document:
        if member not in known:
            yield f"manifest.json: {member} is not a member of a manifest; hosts may refuse it"
        elif manifest.manifest_version < _SINCE.get(member, ""):
            yield f"manifest.json: {member} is known since version {_SINCE[member]} only"
    if "manifest_version" not in document:
        yield "manifest.json: dxt_version is the older name of manifest_version"
    if not _EXACT.fullmatch(manifest.version):
        yield f"manifest.json: version {manifest.version!r} has not the form 1.2.3"
    if manifest.server.type == "uv" and manifest.manifest_version != "0.4":
        yield "manifest.json: the server type uv is known since version 0.4 only"
    yield from _placeholder_remarks(manifest)
    for key, setting in manifest.user_config.items():
        if not setting.title or not setting.description:
            yield f"manifest.json: user_config.{key} lacks a title or a description"
        if setting.sensitive and setting.default is not None:
            yield f"manifest.json: user_config.{key} is sensitive and has a default, a secret?"


def _placeholder_remarks(manifest: BundleManifest) -> Iterator[str]:
    for place, text in texts_of(manifest):
        for name in _PLACEHOLDER.findall(text):
            if name.startswith(_SETTING):
                if name.removeprefix(_SETTING) not in manifest.user_config:
                    yield f"manifest.json: {place} has ${{{name}}}, which user_config lacks"
            elif name not in _KNOWN_PLACES:
                yield f"manifest.json: {place} has ${{{name}}}, which no host fills in"
