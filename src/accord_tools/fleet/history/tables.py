"""The tables of a history; each step brings a database from one version to the next.

Every part that repeats (see `parts`) is a row of its own, found by its digest. Times are ISO 8601
in UTC. A query of your own, such as which server failed a requirement in which runs:

    SELECT run.started, server.name, verdict.message
    FROM verdict JOIN result ON result.verdicts = verdict.list
    JOIN server ON server.id = result.server JOIN run ON run.id = result.run
    WHERE verdict.requirement = 'tools.call.content-array'
"""

import re
from typing import Final

APPLICATION_ID: Final = 0x61636664
"""Marks the file as a history of a fleet; other programs' databases are left alone."""

_FIRST: Final = """
CREATE TABLE rule_set (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    version TEXT NOT NULL,
    ids BLOB NOT NULL
);
CREATE TABLE verdict_list (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    rules INTEGER NOT NULL REFERENCES rule_set,
    letters BLOB NOT NULL,
    others BLOB NOT NULL
);
CREATE TABLE verdict (
    list INTEGER NOT NULL REFERENCES verdict_list ON DELETE CASCADE,
    position INTEGER NOT NULL,
    requirement TEXT NOT NULL,
    verdict TEXT NOT NULL,
    level TEXT NOT NULL,
    message TEXT NOT NULL,
    revisions TEXT NOT NULL,
    evidence TEXT NOT NULL,
    accepted TEXT NOT NULL,
    pending INTEGER NOT NULL,
    PRIMARY KEY (list, position)
) WITHOUT ROWID;
CREATE TABLE finding_list (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE
);
CREATE TABLE finding (
    list INTEGER NOT NULL REFERENCES finding_list ON DELETE CASCADE,
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    severity TEXT NOT NULL,
    subject TEXT NOT NULL,
    text TEXT NOT NULL,
    server TEXT NOT NULL,
    source TEXT NOT NULL,
    accepted TEXT NOT NULL,
    PRIMARY KEY (list, position)
) WITHOUT ROWID;
CREATE TABLE test_list (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    names BLOB NOT NULL
);
CREATE TABLE surface (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    entries BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE wording (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    texts BLOB NOT NULL
);
CREATE TABLE report (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    wording INTEGER NOT NULL REFERENCES wording,
    body BLOB NOT NULL
);
CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    fleet TEXT NOT NULL,
    file TEXT NOT NULL,
    file_digest TEXT NOT NULL,
    started TEXT NOT NULL,
    seconds REAL NOT NULL,
    accord TEXT NOT NULL,
    rules INTEGER NOT NULL REFERENCES rule_set,
    rules_version TEXT NOT NULL,
    git_commit TEXT NOT NULL,
    git_branch TEXT NOT NULL,
    is_dirty INTEGER NOT NULL,
    ci_url TEXT NOT NULL,
    host TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    exit INTEGER NOT NULL,
    notes TEXT NOT NULL,
    left_out TEXT NOT NULL,
    findings INTEGER REFERENCES finding_list,
    is_finished INTEGER NOT NULL,
    regressions INTEGER,
    comparison BLOB NOT NULL
);
CREATE TABLE server (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    first_seen TEXT NOT NULL,
    owner TEXT NOT NULL,
    tags TEXT NOT NULL
);
CREATE TABLE result (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    server INTEGER NOT NULL REFERENCES server,
    state TEXT NOT NULL,
    revision TEXT,
    score REAL,
    exercised INTEGER NOT NULL,
    applicable INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    warnings INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    tests_passed INTEGER NOT NULL,
    tests_failed INTEGER NOT NULL,
    tests_skipped INTEGER NOT NULL,
    start_ms INTEGER,
    call_ms_median INTEGER,
    call_ms_95 INTEGER,
    seconds REAL NOT NULL,
    tools INTEGER NOT NULL,
    resources INTEGER NOT NULL,
    templates INTEGER NOT NULL,
    prompts INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    owner TEXT NOT NULL,
    tags TEXT NOT NULL,
    server_version TEXT NOT NULL,
    cache_key TEXT NOT NULL,
    reused_from TEXT NOT NULL,
    verdicts INTEGER REFERENCES verdict_list,
    findings INTEGER REFERENCES finding_list,
    tests INTEGER REFERENCES test_list,
    surface INTEGER REFERENCES surface,
    report INTEGER REFERENCES report,
    details BLOB NOT NULL,
    UNIQUE (run, server)
);
CREATE INDEX result_of_server ON result (server, run);
"""

STEPS: Final[tuple[str, ...]] = (_FIRST,)
"""The steps; `user_version` of a database says how many it has taken. Only ever append."""

TABLES: Final = tuple(re.findall(r"CREATE TABLE (\w+)", " ".join(STEPS)))
"""The names of all tables."""

# Tables of parts, with the columns that refer to them, in an order in which they can be emptied.
PART_TABLES: Final = {
    "verdict_list": (("result", "verdicts"),),
    "finding_list": (("result", "findings"), ("run", "findings")),
    "test_list": (("result", "tests"),),
    "surface": (("result", "surface"),),
    "report": (("result", "report"),),
    "wording": (("report", "wording"),),
    "rule_set": (("run", "rules"), ("verdict_list", "rules")),
    "server": (("result", "server"),),
}
