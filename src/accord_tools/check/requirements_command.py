"""`accord requirements`: show the catalogue as a list, as a table, or in full."""

import argparse
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from accord.cli.options import Commands, UsageError, add_command, did_you_mean, one_of
from accord.cli.terminal import complain, painter, say, say_json, width
from accord.types import REVISION_IDS, RevisionId

if TYPE_CHECKING:
    from accord.protocol.catalogue import Requirement


_HELP = f"""\
usage: accord requirements [options] [ID ...]

Show the requirements of the protocol: what each says, which party it binds, where it holds.

Exit code: 0 shown, even if none match; 2 there is no such requirement, level, area or party.

examples:
  accord requirements                                          all of them
  accord requirements --revision {REVISION_IDS[2]} --level must-not   what is forbidden there
  accord requirements --area tools --party server              what binds servers about tools
  accord requirements --check wire --format json               what recorded traffic can decide
  accord requirements tools.call.content-array                 all about one of them
  accord requirements --rules                                  the date of the rule set

levels: must, must-not, should, should-not, may, fact (stated without a keyword)

checks: wire (recorded traffic), server-probe, client-probe, process, http-probe, auth-probe, human
"""

_OPTIONS = f"""\
ids* ID       show all about these requirements
--revision R  those that hold in this revision: {", ".join(REVISION_IDS)}; may be repeated
--level L     those of this level, such as must
--area A      those of this area, such as tools
--party P     those that bind this party, such as server
--check C     those that are checked this way, such as wire
--rules       print the date of the rule set, which reports and lock files name, and nothing else
--format F    text, json or markdown (default: text)
"""

_FILTERS = ("revision", "level", "area", "party", "check")
_RECORDED = {"messages": "decided by messages", "http": "decided by what HTTP said"}

Paint = Callable[[str, str], str]


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(commands, "requirements", run, _HELP, _OPTIONS, format="text")


def run(options: argparse.Namespace) -> int:
    """Print the requirements that match the options."""
    form = one_of(options.format, ("text", "json", "markdown"), "format")
    if options.rules:
        return _print_rules(options, form)
    revisions = [one_of(each, REVISION_IDS, "revision") for each in options.revision]
    rows = _select(options, revisions)
    if not rows:
        complain("no requirement matches these options")
    if form == "json":
        _print_json(rows)
    elif form == "markdown":
        say(_as_markdown(rows, revisions))
    elif options.ids:
        say("\n".join(_card(row, painter()) for row in rows))
    else:
        say(_as_text(rows, revisions))
    return 0


def _print_rules(options: argparse.Namespace, form: str) -> int:
    from accord.protocol.catalogue import RULE_SET, RULE_SET_DIGEST, catalogue

    if any(getattr(options, name) for name in ("ids", *_FILTERS)):
        raise UsageError("--rules is about all requirements: leave ids and filters out")
    if form == "json":
        counted = {"rules": RULE_SET, "digest": RULE_SET_DIGEST, "requirements": len(catalogue())}
        say_json(counted)
    else:
        say(f"rules {RULE_SET}\n")
    return 0


def _select(options: argparse.Namespace, revisions: Sequence[RevisionId]) -> "list[Requirement]":
    from accord.protocol.catalogue import AREAS, CHECKS, LEVELS, PARTIES, catalogue, requirements

    wanted: dict[str, Any] = {}
    for name, known in (("level", LEVELS), ("area", AREAS), ("party", PARTIES), ("check", CHECKS)):
        value = getattr(options, name)
        wanted[name] = None if value is None else one_of(value, known, name)
    fitting: set[str] = set()
    for revision in revisions or (None,):
        fitting |= {row.id for row in requirements(revision=revision, **wanted)}
    ids = [_find_id(each, catalogue()) for each in options.ids] or list(catalogue())
    return [catalogue()[each] for each in dict.fromkeys(ids) if each in fitting]


def _find_id(given: str, known: Iterable[str]) -> str:
    ids = list(known)
    if given in ids:
        return given
    within = [each for each in ids if given and each.startswith(f"{given}.")][:5]
    hint = f"; did you mean {' or '.join(within)}?" if within else did_you_mean(given.lower(), ids)
    raise UsageError(f"unknown requirement {given!r}{hint or '; `accord requirements` lists all'}")


def _level(row: "Requirement", revisions: Sequence[RevisionId]) -> str:
    return row.level_in(revisions[0]) if len(revisions) == 1 else row.level


def _as_text(rows: "Sequence[Requirement]", revisions: Sequence[RevisionId]) -> str:
    cells = [(row.id, _level(row, revisions), row.party, row.check) for row in rows]
    sizes = [max((len(each[place]) for each in cells), default=0) for place in range(4)]
    indent = sum(sizes) + 2 * len(sizes)
    columns, paint = width(), painter()
    lines = []
    for row, parts in zip(rows, cells, strict=True):
        padded = [part.ljust(size) for part, size in zip(parts, sizes, strict=True)]
        head = "  ".join([paint("bold", padded[0]), *padded[1:]])
        lines += _wrap_beside(head, indent, row.text, columns)
    return "".join(f"{line}\n" for line in lines)


def _wrap_beside(head: str, indent: int, text: str, columns: int | None) -> list[str]:
    if columns is None:
        return [f"{head}  {text}"]
    if columns - indent < 30:
        return [head, *(f"    {line}" for line in textwrap.wrap(text, max(columns, 20) - 4))]
    first, *rest = textwrap.wrap(text, columns - indent)
    return [f"{head}  {first}", *(" " * indent + line for line in rest)]


def _card(row: "Requirement", paint: Paint) -> str:
    holding = [each for each in REVISION_IDS if row.holds_in(each)]
    held = [f"{each} {row.level_in(each)} ({_describe_breach(row, each)})" for each in holding]
    facts: list[tuple[str, Sequence[str | None]]] = [
        ("text", [row.text]),
        ("mend", [row.mend]),
        ("party", [row.party]),
        ("check", [row.check]),
        ("recording", [None if row.recording is None else _RECORDED[row.recording]]),
        ("holds in", held),
        ("stated in", [", ".join(row.revisions)]),
        ("official", _official_levels(row)),
        ("removed in", [row.removed_in]),
        ("changed in", [row.changed_in]),
        ("replaced by", row.replaced_by),
        ("change", [row.change]),
        ("source", row.source),
        ("note", [row.note]),
    ]
    lines = [paint("bold", row.id)]
    for label, values in facts:
        for place, value in enumerate(filter(None, values)):
            lines += _label_lines("" if place else label, value)
    return "\n".join(lines) + "\n"


def _describe_breach(row: "Requirement", revision: RevisionId) -> str:
    words = {
        "fail": "a breach is a failure",
        "warn": "a breach is a warning",
        None: "its absence is reported, and is not a breach",
    }
    return words[row.severity_in(revision)]


def _official_levels(row: "Requirement") -> list[str]:
    if isinstance(row.official_level, dict):
        return [f"{each} {level}" for each, level in row.official_level.items()]
    return [] if row.official_level is None else [row.official_level]


def _label_lines(label: str, value: str) -> list[str]:
    head = f"  {label.ljust(11)}  "
    columns = width()
    if columns is None:
        return [head + value]
    return textwrap.wrap(
        value, max(columns, 40), initial_indent=head, subsequent_indent=" " * len(head)
    )


def _print_json(rows: "Sequence[Requirement]") -> None:
    import msgspec

    shown = []
    for row in rows:
        holds = {
            each: {"level": row.level_in(each), "severity": row.severity_in(each)}
            for each in REVISION_IDS
            if row.holds_in(each)
        }
        shown.append({**msgspec.to_builtins(row), "holds": holds})
    say_json(shown)


def _as_markdown(rows: "Sequence[Requirement]", revisions: Sequence[RevisionId]) -> str:
    lines = ["| id | level | party | check | requirement |", "|---|---|---|---|---|"]
    for row in rows:
        text = row.text.replace("|", "\\|").replace("<", "&lt;")
        level = _level(row, revisions)
        lines.append(f"| `{row.id}` | {level} | {row.party} | {row.check} | {text} |")
    return "\n".join(lines) + "\n"
