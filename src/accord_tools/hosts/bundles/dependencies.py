"""Packages that a server needs, as they are installed here: their names, versions and files."""

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from accord.version import __version__
from accord_tools.hosts.bundles.contents import walk_files
from accord_tools.hosts.definition import HostsError

_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?([^;]*)(?:;(.*))?")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")
_COMPILED: Final = (".so", ".pyd", ".dylib", ".dll")
_ANY_VERSION: Final = re.compile(r".*\.abi3\.\w+")


class CopiedPackages(msgspec.Struct, frozen=True, kw_only=True):
    """The files of packages.

    Attributes:
        files: by their path in the folder of packages.
        names: name and version of each, such as `msgspec 0.21`.
        is_compiled: whether some work on this system alone.
        is_versioned: whether some work with this version of Python alone.
    """

    files: Mapping[str, Path]
    names: tuple[str, ...] = ()
    is_compiled: bool = False
    is_versioned: bool = False


def requirements_of(imports: Iterable[str]) -> list[str]:
    """Return the installed packages that modules belong to, with their versions.

    Raises:
        HostsError: a module is not installed.
    """
    from importlib.metadata import packages_distributions

    known = packages_distributions()
    found = {f"accord=={__version__}"}
    for name in sorted(imports):
        if name == "accord":
            continue
        if name not in known:
            if find_spec(name) is None:
                continue  # imported if it is there, or on another system
            raise HostsError(f"the module {name} does not belong to an installed package")
        found |= {f"{each}=={distribution(each).version}" for each in known[name]}
    return sorted(found)


def copy_packages(requirements: Iterable[str]) -> CopiedPackages:
    """Return the files of packages and of all that they need, as they are installed here.

    Raises:
        HostsError: one is not installed.
    """
    files: dict[str, Path] = {}
    names = []
    for each in sorted(_closure(requirements), key=str.lower):
        found = dict(_files_of(each))
        if not found:
            raise HostsError(f"the files of the package {each} were not found; install it again")
        files |= found
        names.append(f"{each} {_version(each)}")
    compiled = [name for name in files if name.endswith(_COMPILED)]
    return CopiedPackages(
        files=files,
        names=tuple(names),
        is_compiled=bool(compiled),
        is_versioned=any(not _ANY_VERSION.fullmatch(name) for name in compiled),
    )


def _version(name: str) -> str:
    return __version__ if name == "accord" else distribution(name).version


def _closure(requirements: Iterable[str]) -> set[str]:
    waiting = [(each, True) for each in ("accord", *requirements)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        text, is_direct = waiting.pop()
        found = _REQUIREMENT.fullmatch(text)
        if found is None:
            raise HostsError(f"the requirement {text!r} cannot be read")
        name = re.sub(r"[-_.]+", "-", found[1]).lower()
        extras = {each.strip() for each in (found[2] or "").split(",")} | {""}
        try:
            needed = _requires(name)
        except PackageNotFoundError:
            if is_direct and not found[4]:
                raise HostsError(
                    f"the package {name} is not installed here: install it, so that it can be "
                    "packed"
                ) from None
            continue  # needed on another system, or by another version of Python
        for extra in extras - {one for known, one in seen if known == name}:
            seen.add((name, extra))
            waiting += [(each, False) for each in needed if _extra_of(each) == extra]
    return {name for name, _ in seen}


def _requires(name: str) -> list[str]:
    try:
        return list(distribution(name).requires or ())
    except PackageNotFoundError:
        if name == "accord":  # a checkout that is not installed
            return ["msgspec"]
        raise


def _extra_of(requirement: str) -> str:
    found = _EXTRA.search(requirement)
    return found[1] if found else ""


def _files_of(name: str) -> Iterator[tuple[str, Path]]:
    if name == "accord":
        # The code that runs, which may be another than the installed one.
        yield from _module_files("accord")
        return
    package = distribution(name)
    found = {}
    for each in package.files or ():
        is_inside = ".." not in each.parts and not each.is_absolute()
        is_link = each.suffix == ".pth" or each.name.startswith("__editable__")
        if is_inside and not is_link and each.suffix != ".pyc":
            found[each.as_posix()] = Path(str(package.locate_file(each)))
    has_code = any(not each.split("/")[0].endswith(".dist-info") for each in found)
    if not has_code:  # installed as a link to its source
        for module in _top_modules(package):
            found |= dict(_module_files(module))
    for path, file in found.items():
        if file.is_file() and not path.endswith(("/RECORD", "/INSTALLER", "/direct_url.json")):
            yield path, file


def _top_modules(package: Distribution) -> list[str]:
    listed = package.read_text("top_level.txt")
    return listed.split() if listed else [package.metadata["Name"].replace("-", "_")]


def _module_files(module: str) -> Iterator[tuple[str, Path]]:
    spec = find_spec(module)
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        if spec.origin is not None:
            yield Path(spec.origin).name, Path(spec.origin)
        return
    for place in spec.submodule_search_locations:
        for name, path in walk_files(Path(place)):
            yield f"{module}/{name}", path
