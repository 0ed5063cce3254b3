"""What servers offer: digests, changes, findings of the lint, and rules of directories."""

from accord_tools.fleet.catalogs.changes import MOST_CHANGES, find_catalog_changes
from accord_tools.fleet.catalogs.entries import summarize_catalog
from accord_tools.fleet.catalogs.lint import lint_catalog, lint_fleet, lint_remote
from accord_tools.fleet.catalogs.lint_rules import LINT_RULES, LintRule
from accord_tools.fleet.catalogs.readiness import (
    DIRECTORIES,
    ReadinessRule,
    check_readiness,
    known_findings,
    readiness_rules,
)

__all__ = [
    "DIRECTORIES",
    "LINT_RULES",
    "MOST_CHANGES",
    "LintRule",
    "ReadinessRule",
    "check_readiness",
    "find_catalog_changes",
    "known_findings",
    "lint_catalog",
    "lint_fleet",
    "lint_remote",
    "readiness_rules",
    "summarize_catalog",
]
