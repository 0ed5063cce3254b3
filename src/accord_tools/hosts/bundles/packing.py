"""Bundles of Python servers: files, launcher and manifest in an archive, the same bytes each time.

A bundle of the type `python` has its packages in `server/lib`, as they are installed here; one of
the type `uv` names them in `pyproject.toml`, and the host installs them.
"""

import asyncio
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.cli.installation import import_folders, python_words
from accord.errors import AccordError, ConnectFailed
from accord.version import __version__
from accord_tools.hosts.bundles.archive import MANIFEST, Bundle, read_bundle
from accord_tools.hosts.bundles.contents import (
    CopiedPackages,
    PackedFiles,
    ServerSource,
    ask_git,
    collect_modules,
    collect_project,
    copy_packages,
    read_requirements,
    requirements_of,
)
from accord_tools.hosts.bundles.manifest import (
    BundleAuthor,
    BundleCommand,
    BundleCompatibility,
    BundleManifest,
    BundleOverride,
    BundlePrompt,
    BundleRuntimes,
    BundleServer,
    BundleSetting,
    BundleTool,
)
from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.server_names import clean_name, file_name
from accord_tools.hosts.writing.destination import replace_file

if TYPE_CHECKING:
    from accord.client import Client


# -- what a server offers, listed for its manifest


_STARTING: Final = 60.0
_LONGEST: Final = 500


class ListedServer(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says about itself.

    Attributes:
        title: its name for people.
        version: of the server.
        description: the first sentence of its instructions.
        tools: what it offers.
        prompts: those whose text is known.
        are_tools_generated: whether there may be other tools.
        are_prompts_generated: whether there are other prompts.
        remarks: what could not be listed.
    """

    title: str = ""
    version: str = ""
    description: str = ""
    tools: tuple[BundleTool, ...] = ()
    prompts: tuple[BundlePrompt, ...] = ()
    are_tools_generated: bool = False
    are_prompts_generated: bool = False
    remarks: tuple[str, ...] = ()


def list_server(
    files: Mapping[str, bytes] | None, source: ServerSource, settings: Mapping[str, BundleSetting]
) -> ListedServer:
    """Start a server, and list what it offers.

    Args:
        files: those of its bundle, with its packages: it is started from them alone.
        source: started with this Python and its packages, if `files` is None.
        settings: variables that it gets; those of this process, or stand-ins.

    Raises:
        HostsError: it does not start.
    """
    env = {name: os.environ.get(name) or _stand_in(each) for name, each in settings.items()}
    if files is None:
        target = f"{source.file}:{source.object}" if source.object else str(source.file)
        folders = import_folders()
        env |= {"PYTHONPATH": os.pathsep.join(folders)} if folders else {}
        return _run([*python_words(), "run", "--stdio", target], env, "the server")
    with tempfile.TemporaryDirectory(prefix="accord-bundle-") as place:
        for name, data in files.items():
            path = Path(place, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        library = str(Path(place, "server", "lib"))
        # -S: the packages of this Python are not there for the host's one.
        command = [sys.executable, "-S", str(Path(place, "server", "main.py"))]
        return _run(command, {**env, "PYTHONPATH": library}, "the server in the bundle")


def _stand_in(setting: BundleSetting) -> str:
    if setting.default is not None and not isinstance(setting.default, list):
        return str(setting.default)
    return {"number": "1", "boolean": "false", "directory": ".", "file": "."}.get(
        setting.type, "none"
    )


def _run(command: list[str], env: dict[str, str], what: str) -> ListedServer:
    from accord.client import connect

    async def ask() -> ListedServer:
        async with connect(command, env=env, timeout=_STARTING) as client:
            return await _list(client)

    try:
        return asyncio.run(ask())
    except ConnectFailed as error:
        lines = [line for line in error.stderr.splitlines() if line.strip()]
        last = f": {lines[-1].strip()[:_LONGEST]}" if lines else f": {error}"
        raise HostsError(f"{what} does not start{last}") from None
    except AccordError as error:
        raise HostsError(f"{what} cannot be listed: {error}") from None


async def _list(client: "Client") -> ListedServer:
    from accord.testing.catalog import fetch_lists

    lists = await fetch_lists(client)
    prompts, unknown = [], []
    for each in lists.entries.get("prompts", []):
        text = await _prompt_text(client, each)
        names = tuple(one.name for one in each.arguments or ())
        if text is None:
            unknown.append(each.name)
        else:
            prompts.append(
                BundlePrompt(
                    name=each.name, description=each.description, arguments=names, text=text
                )
            )
    info = client.server_info
    sentence = (client.instructions or "").strip().partition("\n")[0]
    remarks = [f"{method} failed: {error}" for method, error in lists.failed.items()]
    if unknown:
        remarks.append(f"the text of these prompts depends on more: {', '.join(unknown)}")
    return ListedServer(
        title=info.title or info.name,
        version=info.version,
        description=sentence[:_LONGEST],
        tools=tuple(
            BundleTool(name=each.name, description=each.description)
            for each in lists.entries.get("tools", [])
        ),
        prompts=tuple(prompts),
        are_tools_generated=bool(lists.failed),
        are_prompts_generated=bool(unknown),
        remarks=tuple(remarks),
    )


async def _prompt_text(client: "Client", prompt: Any) -> str | None:
    """Return the text of a prompt with placeholders for its arguments; None if it has another."""
    given = {each.name: f"${{arguments.{each.name}}}" for each in prompt.arguments or ()}
    try:
        found = await client.get_prompt(prompt.name, given)
    except AccordError:
        return None
    texts = [getattr(each.content, "text", None) for each in found.messages]
    if len(texts) != 1 or not isinstance(texts[0], str):
        return None
    return texts[0]


# -- the bundle


_FIRST_TIME: Final = (1980, 1, 1, 0, 0, 0)
_PLATFORMS: Final = ("darwin", "win32", "linux")
_LEAST_PYTHON: Final = ">=3.11"
# There is no `python` on macOS and many Linux systems, and no `python3` on Windows.
_PYTHON_NAMES: Final = {
    "darwin": BundleOverride(command="python3"),
    "linux": BundleOverride(command="python3"),
}
_MAIN: Final = "server/main.py"
_PROJECT_MAIN: Final = "accord_bundle_main.py"
_LAUNCHER: Final = '''\
"""Serves {target} over stdin and stdout. Written by `accord bundle`."""

import sys
from pathlib import Path

folder = Path(__file__).resolve().parent
# Files beside this one must not hide modules; the packages of the bundle come first.
sys.path[:] = [each for each in sys.path if each and Path(each).resolve() != folder]
{more}
from accord.cli.main import main

sys.exit(main(["run", "--stdio", str(folder / {path!r}) + {object!r}]))
'''
_LIBRARY: Final = 'sys.path.insert(0, str(folder / "lib"))\n'


class BundleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a user wants of a bundle; empty members are found out.

    Attributes:
        name: for programs.
        version: of the server.
        description: one sentence.
        author: a person or a company.
        has_packages: whether the packages are in the bundle.
        settings: what the host shall ask for, by variable.
        include: patterns of further files beside the server.
        requirements: packages beside those that it declares or imports.
        is_started: whether the server is started, to list what it offers.
    """

    name: str = ""
    version: str = ""
    description: str = ""
    author: str = ""
    has_packages: bool = False
    settings: Mapping[str, BundleSetting] = {}
    include: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    is_started: bool = True


class WrittenBundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle that was written.

    Attributes:
        bundle: as it is read again.
        packages: name and version of those in it.
        remarks: what a user should know, sentences.
    """

    bundle: Bundle
    packages: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


class _Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a bundle before its manifest is known."""

    files: Mapping[str, bytes]
    programs: frozenset[str] = frozenset()
    point: str
    packages: CopiedPackages | None = None
    remarks: tuple[str, ...] = ()


def write_bundle(source: ServerSource, output: Path, request: BundleRequest) -> WrittenBundle:
    """Pack a server into a bundle, and read it again.

    Args:
        source: the code of the server.
        output: the file to write, or a folder; the name is made of name and version then.
        request: what is wanted.

    Raises:
        HostsError: the server does not start, or something that a manifest needs is unknown.
    """
    packer = _Packer(source, request)
    parts = packer.collect()
    listed = None
    if request.is_started:
        listed = list_server(parts.files if parts.packages else None, source, request.settings)
    manifest = packer.manifest(parts, listed)
    data = _archive(manifest, parts)
    path = output
    if output.is_dir():
        path = output / f"{clean_name(manifest.name)}-{clean_version(manifest.version)}.mcpb"
    if path.suffix != ".mcpb":
        raise HostsError(f"{path}: the name of a bundle ends with .mcpb")
    try:
        replace_file(path, data, mode=0o644)
    except OSError as error:
        raise HostsError(f"{path}: {error.strerror}") from None
    bundle = read_bundle(path)
    remarks = (*parts.remarks, *(listed.remarks if listed else ()), *bundle.remarks)
    names = parts.packages.names if parts.packages else ()
    return WrittenBundle(bundle=bundle, packages=names, remarks=remarks)


def clean_version(version: str) -> str:
    """Return a version as a part of the name of a file."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", version).strip(".-") or "0"


class _Packer:
    def __init__(self, source: ServerSource, request: BundleRequest) -> None:
        self._source = source
        self._request = request
        self._is_project = source.project is not None and not request.has_packages

    # -- files

    def collect(self) -> _Parts:
        if self._is_project:
            return self._collect_project()
        found = collect_modules(self._source, self._request.include)
        requirements = read_requirements(self._source)
        if requirements is None:
            requirements = requirements_of(found.imports)
        requirements = [*requirements, *self._request.requirements]
        files = {f"server/app/{name}": path.read_bytes() for name, path in found.files.items()}
        inside = self._source.file.relative_to(self._source.root).as_posix()
        remarks = _left_out_remarks(found)
        if not self._request.has_packages:
            files["pyproject.toml"] = self._make_project(requirements).encode()
            files[_MAIN] = self._launcher(f"app/{inside}", "")
            return _Parts(files=files, point=_MAIN, remarks=(*remarks, *_index_remarks()))
        packages = copy_packages(requirements)
        files |= {f"server/lib/{name}": path.read_bytes() for name, path in packages.files.items()}
        files[_MAIN] = self._launcher(f"app/{inside}", _LIBRARY)
        remarks += _platform_remarks(packages)
        return _Parts(files=files, point=_MAIN, packages=packages, remarks=remarks)

    def _collect_project(self) -> _Parts:
        project = self._source.project
        assert project is not None
        if self._request.include or self._request.requirements:
            raise HostsError(
                f"{project / 'pyproject.toml'} says what the project needs: name it there; all "
                "files of the project are packed"
            )
        found = collect_project(self._source)
        files = {name: path.read_bytes() for name, path in found.files.items()}
        taken = [name for name in (MANIFEST, _PROJECT_MAIN) if name in files]
        if taken:
            raise HostsError(
                f"{project / taken[0]} exists, and is what accord would write: pack the project "
                "with the official mcpb, or leave the file out in .mcpbignore"
            )
        inside = self._source.file.relative_to(project).as_posix()
        files[_PROJECT_MAIN] = self._launcher(inside, "")
        programs = {name for name, path in found.files.items() if path.stat().st_mode & 0o111}
        remarks = _left_out_remarks(found)
        declared = read_requirements(self._source) or []
        if not any(re.match(r"accord\b", each) for each in declared):
            remarks += ("pyproject.toml does not name accord: add it to dependencies",)
        return _Parts(
            files=files,
            programs=frozenset(programs),
            point=_PROJECT_MAIN,
            remarks=(*remarks, *_index_remarks()),
        )

    def _launcher(self, path: str, more: str) -> bytes:
        name = self._source.object
        shown = f"{self._source.file.name}:{name}" if name else self._source.file.name
        object = f":{name}" if name else ""
        return _LAUNCHER.format(target=shown, path=path, object=object, more=more).encode()

    def _make_project(self, requirements: list[str]) -> str:
        import json

        needed = list(requirements)
        if not any(re.match(r"accord\b", each) for each in needed):
            needed.append(f"accord=={__version__}")
        version = self._request.version
        lines = [
            "[project]",
            f"name = {json.dumps(clean_name(self._name()).lower())}",
            f"version = {json.dumps(version if re.match(r'[0-9]', version) else '0.1.0')}",
            f"requires-python = {json.dumps(_LEAST_PYTHON)}",
            f"dependencies = {json.dumps(sorted(needed))}",
        ]
        return "\n".join(lines) + "\n"

    # -- the manifest

    def _name(self) -> str:
        named = self._request.name or self._source.settings.get("name")
        return str(named) if named else file_name(self._source.file)

    def manifest(self, parts: _Parts, listed: ListedServer | None) -> BundleManifest:
        request, project = self._request, self._source.settings
        info = listed or ListedServer(are_tools_generated=True, are_prompts_generated=True)
        server = BundleServer(
            type="uv" if parts.packages is None else "python",
            entry_point=parts.point,
            mcp_config=self._command(parts),
        )
        version = request.version or project.get("version") or info.version or "0.1.0"
        about = request.description or project.get("description") or info.description
        return BundleManifest(
            manifest_version="0.4" if parts.packages is None else "0.3",
            name=self._name(),
            display_name=info.title or None,
            version=str(version),
            description=str(about or f"The MCP server {self._name()}"),
            author=BundleAuthor(name=request.author or self._author()),
            server=server,
            tools=info.tools,
            tools_generated=info.are_tools_generated,
            prompts=info.prompts,
            prompts_generated=info.are_prompts_generated,
            compatibility=_compatibility(parts.packages),
            user_config={name.lower(): each for name, each in request.settings.items()},
        )

    def _command(self, parts: _Parts) -> BundleCommand:
        env = {name: f"${{user_config.{name.lower()}}}" for name in self._request.settings}
        if parts.packages is None:
            args: tuple[str, ...] = ("run", "--directory", "${__dirname}", parts.point)
            return BundleCommand(command="uv", args=args, env=env)
        return BundleCommand(
            command="python",
            args=(f"${{__dirname}}/{parts.point}",),
            env={"PYTHONPATH": "${__dirname}/server/lib", **env},
            platform_overrides=_PYTHON_NAMES,
        )

    def _author(self) -> str:
        authors = self._source.settings.get("authors")
        for each in authors if isinstance(authors, list) else ():
            if isinstance(each, dict) and isinstance(each.get("name"), str):
                return str(each["name"])
        found = ask_git(self._source.file.parent, "config", "user.name") or b""
        if not found.strip():
            raise HostsError("a bundle names its author: give one with --author")
        return found.decode("utf-8", "replace").strip()


def _compatibility(packages: CopiedPackages | None) -> BundleCompatibility:
    if packages is None or not packages.is_compiled:
        return BundleCompatibility(
            platforms=_PLATFORMS, runtimes=BundleRuntimes(python=_LEAST_PYTHON)
        )
    minor = sys.version_info[1]
    version = f">=3.{minor},<3.{minor + 1}" if packages.is_versioned else f">=3.{minor}"
    return BundleCompatibility(platforms=(sys.platform,), runtimes=BundleRuntimes(python=version))


def _platform_remarks(packages: CopiedPackages) -> tuple[str, ...]:
    if not packages.is_compiled:
        return ()
    import platform

    version = f" with Python 3.{sys.version_info[1]}" if packages.is_versioned else ""
    where = f"{sys.platform} {platform.machine()}{version}"
    advice = "without --with-dependencies it works everywhere"
    return (f"some packages are compiled: the bundle works on {where} alone; {advice}",)


def _left_out_remarks(found: PackedFiles) -> tuple[str, ...]:
    return tuple(f"{name} is left out, since it may be private" for name in found.left_out)


def _index_remarks() -> tuple[str, ...]:
    if not re.search(r"dev|\+", __version__):
        return ()
    return (f"hosts install accord {__version__} from their package index, which must have it",)


# -- the archive


def _archive(manifest: BundleManifest, parts: _Parts) -> bytes:
    """Return the archive; the same files give the same bytes."""
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
    target = BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in [(MANIFEST, text), *sorted(parts.files.items())]:
            info = zipfile.ZipInfo(name, _FIRST_TIME)
            info.create_system = 3  # Unix, wherever it is packed
            mode = 0o755 if name in parts.programs else 0o644
            info.external_attr = (0o100000 | mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return target.getvalue()
