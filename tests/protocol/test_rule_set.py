"""The date of the rule set is looked at whenever a requirement or a rule changes."""

import re
from hashlib import sha256

import accord.protocol
from accord.protocol.catalogue import RULE_SET, RULE_SET_DIGEST, Requirement, catalogue
from accord.protocol.rules import complete
from accord.protocol.rules._rule import RULES, Rule
from accord.protocol.rules.http import HTTP_RULES, HttpRule

# What no verdict depends on.
_PROSE = {"text", "mend", "source", "note", "change"}

ADVICE = """\
The table of requirements and rules is not that of rules {date}: its digest is {digest}.

1. Can a check that passed fail now, or one that failed pass? Then it is a new rule set. If a
   release has rules {date} (CHANGELOG.md, `git tag`), set RULE_SET in
   src/accord/protocol/catalogue.py to this month (a second one in a month: "2026-11.2"), and write
   the ids of its requirements of servers into src/accord_tools/fleet/rules/.
2. In any case set RULE_SET_DIGEST beside it to {digest}.
3. Add a change (changes/README.md) that names the requirement ids.
"""


def digest_of(*rows: str) -> str:
    return sha256("\n".join(sorted(rows)).encode()).hexdigest()[:16]


def line_of_requirement(row: Requirement) -> str:
    fields = [each for each in row.__struct_fields__ if each not in _PROSE]
    return f"requirement {[(each, getattr(row, each)) for each in fields]}"


def line_of_rule(rule: Rule) -> str:
    about = rule.about
    on = sorted(about.on) if about.on is not None else "all methods"
    facts = [rule.requirement, about.by, about.kinds, on, rule.deep, rule.only, rule.reaction]
    return f"rule {facts} {rule.lifetime.since} {rule.lifetime.until}"


def line_of_http_rule(rule: HttpRule) -> str:
    return f"rule {[rule.requirement, rule.when, rule.forms, rule.needs]}"


def digest_of_rules() -> str:
    """Return the digest of ids, levels, lifetimes and messages, whatever their order."""
    complete("2025-11-25")
    return digest_of(
        *map(line_of_requirement, catalogue().values()),
        *map(line_of_rule, RULES),
        *map(line_of_http_rule, HTTP_RULES),
    )


def test_the_date_is_looked_at_when_the_table_of_rules_changes():
    digest = digest_of_rules()
    assert digest == RULE_SET_DIGEST, ADVICE.format(date=RULE_SET, digest=digest)


def test_the_digest_sees_ids_levels_and_lifetimes_and_no_prose():
    from msgspec.structs import replace

    row = catalogue()["ping.response.empty"]
    line = line_of_requirement(row)
    assert line_of_requirement(replace(row, text="Other words.", note=None)) == line
    for change in ({"id": "ping.other"}, {"level": "SHOULD"}, {"removed_in": "2025-11-25"}):
        assert line_of_requirement(replace(row, **change)) != line
    rule = next(each for each in RULES if each.about.on)
    about = replace(rule.about, kinds=("fault",))
    assert line_of_rule(replace(rule, about=about)) != line_of_rule(rule)


def test_the_date_is_a_month_and_public():
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])(\.\d)?", RULE_SET)
    assert accord.protocol.RULE_SET == RULE_SET
