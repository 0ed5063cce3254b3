"""`accord fleet merge`: put the runs of several machines together."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.cli.options import UsageError, kind_of_work, one_of
from accord.cli.terminal import note
from accord_tools.fleet.commands.outputs import OUTPUTS, deliver_view, demand_outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accord_tools.fleet.history import ExportedRun, History
    from accord_tools.fleet.results import FleetRun, FleetView
    from accord_tools.fleet.rule_set import RuleSet

_FAIL_ON: Final = ("failure", "regression", "warning", "drift", "never")
_HELP: Final = """\
usage: accord fleet merge [options] FILE.json ...

Put the runs of shards together to one run, and report on it. With --history it is compared with
the run before it, and kept.

Exit code: 0 all servers are as expected, 1 at least one is not (see --fail-on), 2 the runs cannot
be read, do not belong together, or one of them was interrupted.

examples:
  accord fleet merge part1.json part2.json --output fleet.html
  accord fleet merge part1.json part2.json --history runs.sqlite --fail-on regression
"""
_OPTIONS: Final = f"""\
files* FILE     what accord fleet run --shard I/N --output FILE.json wrote
--history FILE  compare with the newest run of this history, and keep the merged run in it
--against RUN   compare with another run of the history, or with a .json file
--fail-on WHAT  what fails: {", ".join(_FAIL_ON)} (default: failure); may be repeated
{OUTPUTS}"""


@kind_of_work(_HELP, _OPTIONS, against="last")
def run(options: argparse.Namespace) -> int:
    """Merge the runs and report."""
    from accord_tools.fleet.history import merge_runs, open_history, read_export

    demand_outputs(options)
    if not options.files:
        raise UsageError("merge needs at least one FILE that accord fleet run --output wrote")
    exports = [read_export(Path(each)) for each in options.files]
    merged = merge_runs([each.run for each in exports])
    rules = _find_rules(exports)
    with open_history(options.history) as history:
        for each in history.notes:
            note(each)
        view = _compare(merged, rules, history, options)
    return view.run.exit if deliver_view(view, options) else 2


def _find_rules(exports: "Sequence[ExportedRun]") -> "RuleSet":
    """Return the rules of the runs: as a file lists them, else those with verdicts."""
    from accord_tools.fleet.rule_set import RuleSet

    stamp = exports[0].run.rules
    for each in exports:
        if each.rules is not None:
            found = RuleSet(stamp.version, each.rules)
            if found.stamp.digest == stamp.digest:
                return found
    raise UsageError(
        "the files do not list the rules of their runs; another version of accord wrote them"
    )


def _compare(
    merged: "FleetRun", rules: "RuleSet", history: "History", options: argparse.Namespace
) -> "FleetView":
    """Return the merged run, compared with an earlier one, and keep it."""
    from msgspec.structs import replace

    from accord_tools.fleet.results import FAIL_ON, FleetView

    before: FleetRun | None
    if options.against == "last":
        names = [each.name for each in merged.results]
        branch, before_rules = merged.origin.git_branch, None
        before = history.last_run(merged.fleet, merged.file, branch, names)
    else:
        before, before_rules = history.find_run(options.against, merged.fleet, merged.file)
    view = FleetView(run=merged, rules=tuple(sorted(rules.ids)))
    if before is not None:
        compared = history.compare(before, view, rules, before_rules=before_rules)
        view = replace(view, comparison=compared)
    fail_on = [one_of(each, FAIL_ON, "value of --fail-on") for each in options.fail_on]
    # A shard that was interrupted left servers out that no other shard has.
    is_finished = merged.exit != 2 or not merged.left_out
    view = history.conclude_run(view, rules, fail_on or ["failure"], is_finished=is_finished)
    return view if options.history is not None else replace(view, run=replace(view.run, id=0))
