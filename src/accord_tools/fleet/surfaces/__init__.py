"""What servers offer: digests, changes, findings of the lint, and rules of directories."""

from accord_tools.fleet.surfaces.changes import MOST_CHANGES, find_surface_changes
from accord_tools.fleet.surfaces.lint import lint_fleet, lint_remote, lint_surface
from accord_tools.fleet.surfaces.lint_rules import LINT_RULES, LintRule
from accord_tools.fleet.surfaces.readiness import (
    DIRECTORIES,
    ReadinessRule,
    check_readiness,
    known_findings,
    readiness_rules,
)
from accord_tools.fleet.surfaces.summary import summarize_surface

__all__ = [
    "DIRECTORIES",
    "LINT_RULES",
    "MOST_CHANGES",
    "LintRule",
    "ReadinessRule",
    "check_readiness",
    "find_surface_changes",
    "known_findings",
    "lint_fleet",
    "lint_remote",
    "lint_surface",
    "readiness_rules",
    "summarize_surface",
]
