"""A fleet's report as a folder: an index, a page and a badge per server, and the JSON form.

Badges are SVG, and data from which shields.io draws them.
"""

import contextlib
import json
import os
import re
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Final

from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.rendering.badge import fleet_badge, server_badge
from accord_tools.fleet.rendering.html import FleetPage, as_html, server_facts
from accord_tools.fleet.rendering.machine_readable import as_json
from accord_tools.fleet.rendering.sarif import read_report
from accord_tools.fleet.rendering.wording import (
    fleet_title,
)
from accord_tools.fleet.results import FleetView, ServerResult
from accord_tools.reports.html import check_facts, cut, render_page

# -- the folder


MARKER: Final = ".accord-fleet-site.json"
"""The file that says which files of a folder this module wrote, and may remove."""

_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST: Final = 80
# The names of devices on Windows, with any ending, and that of the fleet's own badge.
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d|fleet)(?:\..*)?", re.IGNORECASE)
_OWN: Final = re.compile(r"(?:servers|badges)/[A-Za-z0-9_-][A-Za-z0-9._-]*\.(?:html|svg|json)")
_INDEX: Final = "index.html"


def write_site(view: FleetView, folder: Path) -> None:
    """Write the report as a folder of pages; files of servers that are gone are removed.

    Each file is replaced at once, so that readers never see half of it.

    Args:
        view: the run and all that is known beside it.
        folder: is made if it does not exist.

    Raises:
        FleetError: the folder has files of the same names that this function did not write, or
            cannot be written.
    """
    texts = _texts(view)
    try:
        before = _read_marker(folder)
        if before is None:
            _demand_free(folder, texts)
        for part in ("servers", "badges"):
            if (folder / part).is_symlink():
                raise FleetError(
                    f"{folder / part} is a link, and files behind it would be replaced or removed:"
                    " choose another folder for the pages, or remove the link"
                )
            (folder / part).mkdir(parents=True, exist_ok=True)
        # If this process is ended in between, the next one knows the files of both runs.
        names = set(texts)
        _write_marker(folder, names | (before or set()))
        for name, text in texts.items():
            _replace(folder / name, text)
        for name in (before or set()) - names:
            if _OWN.fullmatch(name):
                (folder / name).unlink(missing_ok=True)
        _write_marker(folder, names)
    except OSError as error:
        where = error.filename or folder
        why = error.strerror or error
        raise FleetError(f"{where}: {why}; the pages of the fleet were not all written") from None


def demand_site(folder: Path) -> None:
    """Refuse a folder whose files of others would be replaced, as far as that is known before.

    Raises:
        FleetError: it has an index of others, or is not a folder.
    """
    if folder.exists() and not folder.is_dir():
        raise FleetError(f"{folder} is a file; name another folder for the pages")
    if _read_marker(folder) is None:
        _demand_free(folder, {_INDEX: ""})


def _texts(view: FleetView) -> dict[str, str]:
    """Return the text of every file, by its path in the folder."""
    names = file_names([result.name for result in view.run.results])
    links = {name: f"servers/{file}.html" for name, file in names.items()}
    whole, page = fleet_badge(view), FleetPage(view)
    texts = {
        _INDEX: as_html(view, links=links),
        "fleet.json": as_json(view),
        "badges/fleet.svg": whole.draw(),
        "badges/fleet.json": whole.as_endpoint(),
    }
    for result in view.run.results:
        file, badge = names[result.name], server_badge(result, view.run)
        texts[f"servers/{file}.html"] = _server_page(result, page)
        texts[f"badges/{file}.svg"] = badge.draw()
        texts[f"badges/{file}.json"] = badge.as_endpoint()
    return texts


def file_names(servers: list[str]) -> dict[str, str]:
    """Return a name for the files of each server: safe on every system, and used only once.

    A plain name stays as it is. Others, and those that differ only in case, end in a digest.
    """
    plain = {name: _PLAIN.sub("-", name).strip(".-")[:_LONGEST].rstrip(".") for name in servers}
    counts = Counter(each.lower() for each in plain.values())
    return {
        name: each
        if each and each == name and counts[each.lower()] == 1 and not _RESERVED.fullmatch(each)
        else f"{each or 'server'}-{_digest(name)}"
        for name, each in plain.items()
    }


def _digest(name: str) -> str:
    return sha256(name.encode(errors="backslashreplace")).hexdigest()[:10]


def _server_page(result: ServerResult, page: FleetPage) -> str:
    report = read_report(page.view, result.name)
    facts = server_facts(page) | {"result": result, "title": cut(result.name, 120)}
    if report is not None:
        return render_page("server_check.html", **(facts | check_facts(report)))
    fleet = cut(fleet_title(page.view.run), 120)
    return render_page("server.html", product="MCP conformance", fleet=fleet, **facts)


# -- files


def _read_marker(folder: Path) -> set[str] | None:
    """Return the files that were written before; None if the folder is not ours."""
    try:
        names = json.loads((folder / MARKER).read_text("utf-8"))["files"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return set()
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def _write_marker(folder: Path, names: set[str]) -> None:
    members = {"about": "written by accord fleet, which may remove", "files": sorted(names)}
    _replace(folder / MARKER, json.dumps(members, indent=1) + "\n")


def _demand_free(folder: Path, texts: dict[str, str]) -> None:
    for name in texts:
        if (folder / name).exists():
            raise FleetError(
                f"{folder / name} exists, and accord fleet did not write it: choose another folder"
                " for the pages, or remove the file"
            )


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        new.unlink(missing_ok=True)  # of a process that was killed
        with new.open("xb") as file:  # never through a link
            file.write(text.encode("utf-8", errors="backslashreplace"))
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
