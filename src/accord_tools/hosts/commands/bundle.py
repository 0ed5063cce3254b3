"""`accord bundle`: pack a server into a bundle (.mcpb), or show one."""

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accord.cli.options import TEXT_OR_JSON, Commands, UsageError, add_command, is_json, one_of
from accord.cli.target import ServerPlace, locate
from accord.cli.terminal import complain, escape_controls, note, say, say_json

if TYPE_CHECKING:
    from accord_tools.hosts.bundles.archive import Bundle
    from accord_tools.hosts.bundles.manifest import BundleSetting, SettingType

_HELP = """\
usage: accord bundle [options] TARGET
       accord bundle FILE.mcpb

Pack a server into a bundle, a file that hosts such as Claude Desktop install by a double click; or
show what a bundle contains, and verify that it can be unpacked and launched here.

TARGET is a Python file or a module with a Server in it, as for accord run. The server is started,
to list its tools and prompts in the manifest. Of a package all files are packed, of a single file
what it imports from its folder; of a project with a pyproject.toml all that git does not ignore.
Files that may be private, such as .env and *.pem, are left out.

The host installs the packages that the server needs, by uv. With --with-dependencies they are in
the bundle, as they are installed here; compiled ones work on this system alone.

Exit code: 0 written, or sound; 1 the bundle cannot be used here; 2 it could not be done.

examples:
  accord bundle server.py --author "Ada Lovelace"
  accord bundle server.py --with-dependencies --output desk.mcpb --version 1.2.0
  accord bundle package.server:server --user-config API_KEY --user-config FOLDER:directory
  accord bundle desk.mcpb
  accord bundle desk.mcpb --format json
"""
_OPTIONS: Final = f"""\
target? TARGET  the server to pack, or the bundle to show
rest* WORD
--output PATH   the file to write, or its folder (default: NAME-VERSION.mcpb here)
--name N        the name of the bundle (default: that of the project, or of the file)
--version V     the version of the server (default: the one that it names)
--description T  one sentence about it (default: of the project, or the server's instructions)
--author A      a person or a company (default: that of the project, or your name in git)
--with-dependencies  pack the packages that the server needs, as they are installed here
--user-config K[:TYPE][=DEFAULT]  a variable that the host asks its user for; TYPE is string,
                number, boolean, directory, file or secret; may be repeated
--include PATTERN  further files in the folder of the server, such as data/*.csv; may be repeated
--requirement R  a package beside those that the server imports, such as accord[http]; may be
                repeated
--no-start      do not start the server; its tools are not listed
{TEXT_OR_JSON}
"""
_SETTING: Final = re.compile(r"([A-Za-z_]\w*)(?::([a-z]+))?(?:=(.*))?", re.DOTALL)
_TYPES: "Final[tuple[SettingType, ...]]" = ("string", "number", "boolean", "directory", "file")


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(commands, "bundle", run, _HELP, _OPTIONS, format="text")


def run(options: argparse.Namespace) -> int:
    """Pack a server, or show a bundle."""
    as_json = is_json(options)
    if not options.target:
        raise UsageError("bundle needs a TARGET: a Python file or module, or a bundle to show")
    if options.rest:
        raise UsageError(f"bundle takes one TARGET; unexpected {' '.join(options.rest)}")
    if options.target.lower().endswith((".mcpb", ".dxt")):
        return _show(Path(options.target), as_json=as_json)
    return _write(options, as_json=as_json)


# -- packing


def _write(options: argparse.Namespace, *, as_json: bool) -> int:
    from accord_tools.hosts.bundles.contents import find_source
    from accord_tools.hosts.bundles.packing import BundleRequest, write_bundle

    place = locate(options.target)
    request = BundleRequest(
        name=options.name or "",
        version=options.version or "",
        description=options.description or "",
        author=options.author or "",
        has_packages=options.with_dependencies,
        settings=dict(map(_read_setting, options.user_config)),
        include=tuple(options.include),
        requirements=tuple(options.requirement),
        is_started=not options.no_start,
    )
    output = Path(options.output or os.curdir)
    if not output.is_dir() and not output.parent.is_dir():
        raise UsageError(f"there is no folder {output.parent}")
    written = write_bundle(find_source(_file_of(place), place.object), output, request)
    if as_json:
        shown = _describe(written.bundle, [])
        say_json({**shown, "packages": written.packages, "remarks": written.remarks})
        return 0
    for each in written.remarks:
        note(f"note: {each}")
    bundle = written.bundle
    size = bundle.path.stat().st_size
    packages = f", with {', '.join(written.packages)}" if written.packages else ""
    say(f"{os.path.relpath(bundle.path)}: {len(bundle.files)} files, {size:,} bytes{packages}\n")
    return 0


def _file_of(place: ServerPlace) -> Path:
    if place.file is not None:
        return place.file
    from accord.cli.installation import find_folders

    parts = place.module.split(".")
    for folder in find_folders(parts[0]):
        for path in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts)):
            file = path / "__init__.py" if path.is_dir() else path
            if file.is_file():
                return file
    raise UsageError(f"the file of the module {place.module} was not found; name the file")


def _read_setting(text: str) -> "tuple[str, BundleSetting]":
    from accord.secrets.recognition import names_secret
    from accord_tools.hosts.bundles.manifest import BundleSetting, SettingValue, check_setting

    found = _SETTING.fullmatch(text)
    if found is None:
        raise UsageError(f"--user-config {text!r}: expected KEY, KEY:TYPE or KEY:TYPE=DEFAULT")
    name, kind, default = found.groups()
    is_secret = kind == "secret" or (kind in (None, "string") and names_secret(name))
    named = one_of("string" if kind in (None, "secret") else kind, _TYPES, "type")
    value: SettingValue | None = default
    if default is not None and named == "number":
        try:
            value = float(default) if "." in default else int(default)
        except ValueError:
            raise UsageError(f"--user-config {name}: {default!r} is not a number") from None
    elif default is not None and named == "boolean":
        value = one_of(default, ("true", "false"), "default") == "true"
    if is_secret and default is not None:
        raise UsageError(f"--user-config {name} is a secret, which must not have a default")
    setting = BundleSetting(
        type=named,
        title=name.replace("_", " ").capitalize(),
        description=f"The variable {name} of the server",
        required=default is None,
        default=value,
        sensitive=is_secret,
    )
    problem = check_setting(setting, value)
    if problem:
        raise UsageError(f"--user-config {name}: its default {problem}")
    return name, setting


# -- showing


def _show(path: Path, *, as_json: bool) -> int:
    from accord_tools.hosts.bundles.archive import read_bundle
    from accord_tools.hosts.definition import HostsError

    bundle = read_bundle(path)
    problems = []
    try:
        _try_here(bundle)
    except HostsError as error:
        problems.append(str(error))
    if as_json:
        say_json(_describe(bundle, problems))
    else:
        say(_as_text(bundle))
        for each in bundle.remarks:
            note(f"note: {each}")
        for each in problems:
            complain(each)
    return 1 if problems else 0


def _try_here(bundle: "Bundle") -> None:
    """Unpack a bundle into a folder that is deleted; refuse it if it is for other systems."""
    import tempfile

    from accord_tools.hosts.bundles.archive import unpack_bundle
    from accord_tools.hosts.bundles.entry import check_compatibility
    from accord_tools.hosts.definition import Machine

    check_compatibility(bundle, Machine.current())
    with tempfile.TemporaryDirectory(prefix="accord-bundle-") as place:
        unpack_bundle(bundle, Path(place, "files"))


def _describe(bundle: "Bundle", problems: list[str]) -> dict[str, Any]:
    return {
        "path": str(bundle.path),
        "sha256": bundle.digest,
        "signed": bundle.is_signed,
        "files": [{"name": each.name, "size": each.size} for each in bundle.files],
        "manifest": bundle.manifest,
        "remarks": bundle.remarks,
        "problems": problems,
    }


def _as_text(bundle: "Bundle") -> str:
    manifest = bundle.manifest
    server = manifest.server
    command = server.mcp_config
    lines = [
        f"{manifest.title} {manifest.version} ({manifest.name}), by {manifest.author.name}",
        f"  {' '.join(manifest.description.split())}",
        f"manifest  {manifest.manifest_version}",
        f"server    {server.type}, {server.entry_point}",
    ]
    if command is not None:
        lines.append(f"command   {' '.join([command.command, *command.args])}")
        lines += [f"  {name}={value}" for name, value in command.env.items()]
    compatibility = manifest.compatibility
    runtimes = [
        f"{name} {each}"
        for name, each in (
            ("Python", compatibility.runtimes.python),
            ("Node.js", compatibility.runtimes.node),
        )
        if each
    ]
    if compatibility.platforms or runtimes:
        lines.append(f"works on  {', '.join([*(compatibility.platforms or ()), *runtimes])}")
    for key, setting in manifest.user_config.items():
        kind = f"{setting.type}{', secret' if setting.sensitive else ''}"
        need = "required" if setting.required else "optional"
        lines.append(f"setting   {key} ({kind}, {need})  {setting.title}")
    lines += [f"tool      {each.name}  {_first_line(each.description)}" for each in manifest.tools]
    lines += [
        f"prompt    {each.name}  {_first_line(each.description)}" for each in manifest.prompts
    ]
    signed = ", signed (not verified)" if bundle.is_signed else ""
    lines.append(f"files     {len(bundle.files)}, {bundle.size:,} bytes{signed}")
    lines.append(f"sha256    {bundle.digest}")
    return escape_controls("\n".join(line.rstrip() for line in lines)) + "\n"


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
