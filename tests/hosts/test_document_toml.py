"""Edits of TOML: one span changes, every other byte stays."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_tools.hosts.documents.document import (
    TextPlace,
    UneditableDocument,
    UnreadableDocument,
    open_document,
)
from accord_tools.hosts.documents.value_texts import format_key, format_value
from hosts.document_edits import DocumentEdits
from support.tables import cases

PATH = ("mcp_servers", "desk")
VALUE = {"command": "/bin/desk", "args": ["-m", 'a "b"'], "env": {"K": "v"}}

WITH_MEMBERS = {
    "one": '[mcp_servers.a]\ncommand = "x"\n',
    "one without end": '[mcp_servers.a]\ncommand = "x"',
    "between": 'model = "m"\n\n[mcp_servers.a]\ncommand = "x"\n\n[tui]\nx = 1\n',
    "dense": 'model = "m"\n[mcp_servers.a]\ncommand = "x"\n[tui]\nx = 1\n',
    "crlf": '[mcp_servers.a]\r\ncommand = "x"\r\n\r\n[tui]\r\nx = 1\r\n',
    "mixed": '[mcp_servers.a]\ncommand = "x"\r\n\r\n[tui]\nx = 1\r\n',
    "comments": '# top\n\n# a\n[mcp_servers.a] # b\ncommand = "x" # c\n# d\n\n# e\n[tui]\n# f\n',
    "dense comments": '# a\n[mcp_servers.a]\ncommand = "x"\n# e\n[tui]\n',
    "comment at the end": '[mcp_servers.a]\ncommand = "x"\n# off\n# args = []',
    "lonely comment": '[mcp_servers.a]\ncommand = "x"\n\n# ---- rest ----\n\n[tui]\nx = 1\n',
    "sub-table": '[mcp_servers.a]\ncommand = "x"\n\n[mcp_servers.a.env]\nK = "v"\n\n\n[tui]\n',
    "apart": "[mcp_servers.a]\nc = 1\n\n[tui]\nx = 1\n\n[mcp_servers.b]\nc = 1\n\n[z]\n",
    "inline": 'mcp_servers = { a = { command = "x" } } # c\n[tui]\n',
    "inline in table": '[mcp_servers]\na = { command = "x" }\nb = {}\n\n[tui]\n',
    "dotted": 'mcp_servers.a.command = "x"\nmcp_servers.a.args = []\nz = 1\n',
    "dotted in table": '[mcp_servers]\na.command = "x"\n',
    "quoted": '["mcp_servers" . \'a.b\']\n"x\\u0041" = 1\n',
    "strings": (
        "[mcp_servers.a]\nx = \"\"\"\n[mcp_servers.z]\n# no\n\"\"\"\ny = '''\n[t]'''\n\n[tui]\n"
    ),
    "lists": '[mcp_servers.a]\nargs = [\n  "]", # c\n  "[mcp_servers.z]",\n]\n\n[tui]\n',
    "lists of tables": "[[l]]\nx = 1\n[[l.m]]\ny = 1\n\n[mcp_servers.a]\nz = 1\n\n[[l]]\nx = 2\n",
    "blank lines at the end": '[mcp_servers.a]\ncommand = "x"\n\n\n\n',
    "indented": '[mcp_servers]\n\n  [mcp_servers.a]\n  command = "x"\n\n[tui]\n',
}
WITHOUT_MEMBERS = {
    "empty": "",
    "blank": "\n\n",
    "comment": "# my settings",
    "comment with end": "# my settings\n\n",
    "other key": 'model = "m"\n',
    "other table": "[tui]\nx = 1\n",
    "empty table": "[mcp_servers]\n",
    "empty table before": "[mcp_servers]\n\n[tui]\nx = 1\n",
    "empty inline": "mcp_servers = {}\n",
    "crlf": 'model = "m"\r\n',
}


EDITS = DocumentEdits("toml", PATH, VALUE)
add, take = EDITS.add, EDITS.take


@cases("text", WITH_MEMBERS.values(), ids=WITH_MEMBERS)
def test_adding_and_removing_gives_the_same_bytes(text):
    after = add(text)
    assert add(after) == after
    assert take(after) == text


@cases("text", WITHOUT_MEMBERS.values(), ids=WITHOUT_MEMBERS)
def test_a_table_is_made_where_it_is_absent(text):
    after = add(text)
    assert open_document(after, "toml").find(PATH) is not None
    take(after)


@cases("text", WITH_MEMBERS.values(), ids=WITH_MEMBERS)
def test_each_table_and_key_can_be_removed(text):
    data = tomllib.loads(text)
    for name, table in data["mcp_servers"].items():
        take(text, ("mcp_servers", name))
        for key in table:
            open_document(text, "toml").remove(("mcp_servers", name, key))
    for key in data:
        take(text, (key,))


def test_a_new_table_stands_after_its_siblings():
    text = '[mcp_servers.a]\ncommand = "x"\n\n# the look\n[tui]\nx = 1\n'
    assert add(text) == (
        '[mcp_servers.a]\ncommand = "x"\n\n[mcp_servers.desk]\ncommand = "/bin/desk"\n'
        'args = ["-m", "a \\"b\\""]\nenv = { K = "v" }\n\n# the look\n[tui]\nx = 1\n'
    )


def test_sub_tables_and_touching_comments_go_with_their_table():
    text = (
        "# top\n\n# about desk\n[mcp_servers.desk]\nx = 1\n\n[tui]\ny = 1\n\n"
        '[mcp_servers.desk.env]\nK = "v"\n\n# about z\n[z]\n'
    )
    assert take(text) == "# top\n\n[tui]\ny = 1\n\n# about z\n[z]\n"


def test_replacing_changes_only_what_differs():
    text = (
        '[mcp_servers.desk]\ncommand = "x" # why\n# note\nargs = [\n  "a", # first\n]\n'
        'old = 1\n\n[mcp_servers.desk.env]\nK = "v" # key\n\n[tui]\n'
    )
    value = {"command": "y", "args": ["a"], "env": {"K": "v", "L": "w"}, "cwd": "/"}
    assert add(text, value=value) == (
        '[mcp_servers.desk]\ncommand = "y" # why\n# note\nargs = [\n  "a", # first\n]\n'
        'cwd = "/"\n\n[mcp_servers.desk.env]\nK = "v" # key\nL = "w"\n\n[tui]\n'
    )


def test_a_list_in_lines_stays_in_lines():
    text = '[a]\nargs = [\n    "x",\n    "y"\n]\n'
    assert add(text, ("a", "args"), ["z"]) == '[a]\nargs = [\n    "z",\n]\n'
    assert add(text, ("a", "args", 2), "z") == text.replace('"y"', '"y",\n    "z"')
    assert take(text, ("a", "args", 1)) == text.replace(',\n    "y"', "")


def test_tables_of_a_list_are_appended_and_removed():
    text = '[[mcp_servers]]\nname = "a"\n[mcp_servers.env]\nK = "v"\n\n[tui]\n'
    after = add(text, ("mcp_servers", 1), {"name": "b"})
    assert after == text.replace("\n\n", '\n\n[[mcp_servers]]\nname = "b"\n\n')
    assert take(after, ("mcp_servers", 1)) == text
    assert take(after, ("mcp_servers", 0)) == '[[mcp_servers]]\nname = "b"\n\n[tui]\n'
    assert add("", ("mcp_servers", 0), {"name": "b"}) == '[[mcp_servers]]\nname = "b"\n'
    empty = "mcp_servers = []\n"
    assert add(empty, ("mcp_servers", 0), {"name": "b"}) == 'mcp_servers = [{ name = "b" }]\n'
    with pytest.raises(UneditableDocument, match="not the last table"):
        open_document(after, "toml").set(("mcp_servers", 0, "sub", "x"), 1)


@cases(
    ("text", "keys", "value", "after"),
    [
        ("", ("a",), 1, "a = 1\n"),
        ("# c\n", ("a",), 1, "# c\n\na = 1\n"),
        ("a = 1\n\n[t]\n", ("b",), 2, "a = 1\nb = 2\n\n[t]\n"),
        ("# c\n\n# t\n[t]\n", ("b",), 2, "# c\n\nb = 2\n\n# t\n[t]\n"),
        ("[t]\n", ("t", "b"), [1, 2], "[t]\nb = [1, 2]\n"),
        ("[t.u]\n", ("t", "b"), 2, "[t.u]\n\n[t]\nb = 2\n"),
        ("t.u.v = 1\n", ("t", "u", "w"), 2, "t.u.v = 1\nt.u.w = 2\n"),
        ("", ("t", "u", "w"), 2, "[t.u]\nw = 2\n"),
        ("a = 1", ("a",), {"b": None}, "a = {}"),
    ],
)
def test_keys_are_added_where_they_belong(text, keys, value, after):
    assert open_document(text, "toml").set(keys, value).apply(text) == after
    tomllib.loads(after)


def test_a_table_without_a_header_is_replaced():
    text = "# top\n\n[a.b]\nx = 1\n\n[a.c]\n\n[z]\n"
    assert add(text, ("a",), {"y": 1}) == "# top\n\n[a]\ny = 1\n\n[z]\n"
    assert add(text, ("a",), {}) == "# top\n\n[a]\n\n[z]\n"


def test_null_members_are_left_out():
    assert add("", value={"command": "x", "cwd": None}) == '[mcp_servers.desk]\ncommand = "x"\n'


def test_a_dotted_key_within_braces_is_refused():
    document = open_document("a = { b.c = 1 }\n", "toml")
    with pytest.raises(UneditableDocument, match="dotted key within braces"):
        document.set(("a", "b", "c"), 2)
    assert document.find(("a", "b")) == TextPlace(1, 1)


@cases(
    ("text", "keys", "value"),
    [
        ("mcp_servers = 1\n", PATH, VALUE),
        ("[mcp_servers]\n", ("mcp_servers", 0), VALUE),
        ("[a.b]\n", ("a", "b"), 1),
        ("[[a]]\n[[a]]\n", ("a",), []),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(text, keys, value):
    with pytest.raises(UneditableDocument):
        open_document(text, "toml").set(keys, value)


def test_places_have_line_and_column():
    text = 'a = 1\r\n[t.u]\r\n  x.y = [1, { z = 2 }]\r\n[[l]]\r\n[[l]]\r\nk = """\r\n"""\r\n'
    document = open_document(text, "toml")
    assert document.find(("a",)) == TextPlace(1, 1)
    assert document.find(("t",)) == TextPlace(2, 1)
    assert document.find(("t", "u", "x")) == TextPlace(3, 3)
    assert document.find(("t", "u", "x", "y", 1, "z")) == TextPlace(3, 15)
    assert document.find(("l", 1)) == TextPlace(5, 1)
    assert document.find(("l", 1, "k")) == TextPlace(6, 1)
    assert document.find(("l", 2)) is None


BROKEN = [
    ("a 1", 1, 3, "an = is expected here, after a key"),
    ("a = ", 1, 5, "a value is expected here"),
    ("x = 1\na = yes", 2, 5, "a text needs double quotes"),
    ("a = 1 b = 2", 1, 7, "each key needs a line of its own"),
    ('a = "x', 1, 7, "a string never ends"),
    ('a = "x\n', 1, 7, "a line end stands here"),
    ('a = """x', 1, 9, "a string never ends"),
    ("a = [1, 2", 1, 10, "a list is not closed"),
    ("a = {b = 1", 1, 11, "a table is not closed"),
    ("[a\nb = 1", 1, 3, "] is missing"),
    ("a = 1\na = 2", 2, 6, "a key appears twice"),
    ("[a.b]\n[a.b]", 2, 5, "the table a.b appears twice"),
    ('a = "C:\\path"', 1, 9, "a backslash in double quotes"),
    ("= 1", 1, 1, "a key or a [table] is expected here"),
    ("a.b.=1", 1, 5, "a key is expected here"),
    ("a = 1\r", 1, 6, "something stands here behind the value"),
    ("a = " + "[" * 100_000, 1, 205, "nested more than 200 levels deep"),
    ("a = " + "{a=" * 100_000, 1, 605, "nested more than 200 levels deep"),
    ("x = 1\n" + "a." * 100_000 + "a = 1", 2, 1, "more than 200 parts"),
]


@cases(("text", "line", "column", "said"), BROKEN, ids=[each[0][:20] for each in BROKEN])
def test_a_fault_is_explained_with_its_place(text, line, column, said):
    with pytest.raises(UnreadableDocument) as caught:
        open_document(text, "toml")
    assert said in str(caught.value)
    assert caught.value.place.line == line
    assert abs(caught.value.place.column - column) <= 1  # versions of Python differ


# -- generated documents

KEYS = st.sampled_from(["a", "b", "c-c", "q q", 'x"y', "ä", "d.e", "env"])
SCALARS = st.booleans() | st.integers(-9, 9) | st.text(st.sampled_from("ab\"'\\#[]\n="), max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=5,
)
REMARK = st.sampled_from(["", "", "", " # c", " # [x]", "   "])
GAP = st.sampled_from(["", "", "\n", "\n", "\n\n", "# c\n", "\n# c\n", "# c\n\n", "\n# c\n\n"])


@st.composite
def toml(draw, tables):
    """Draw a text for tables by their paths, with any comments, blank lines and line ends."""

    def pairs(table):
        lines = [f"{format_key(k)} = {write(v)}{draw(REMARK)}\n" for k, v in table.items()]
        return "".join(each + draw(st.sampled_from(["", "", "", "# c\n", "\n"])) for each in lines)

    def write(value):
        if isinstance(value, list) and value and draw(st.booleans()):
            return "[\n" + "".join(f"  {format_value(each)}, # c\n" for each in value) + "]"
        if isinstance(value, str) and "\\" not in value and draw(st.booleans()):
            return f'"""\n{value.replace(chr(34), "")}"""'
        return format_value(value)

    parts = [draw(GAP), draw(st.sampled_from(["", "z = 1\n"]))]
    for path, table in tables:
        header = ".".join(map(format_key, path))
        parts += [draw(GAP), f"[{header}]{draw(REMARK)}\n", pairs(table)]
    text = "".join([*parts, draw(GAP)])
    text = text.removesuffix("\n") if draw(st.booleans()) else text
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@st.composite
def documents(draw):
    """Draw tables of servers and others, in any order."""
    names = draw(st.lists(KEYS, min_size=1, max_size=3, unique=True))
    paths = [("mcp_servers", name) for name in names]
    paths += [("mcp_servers", name, "sub") for name in names if draw(st.booleans())]
    paths += draw(st.sampled_from([[], [("tui",)], [("tui",), ("x", "y")]]))
    tables = [(path, draw(st.dictionaries(KEYS, VALUES, max_size=3))) for path in paths]
    return names, draw(toml(draw(st.permutations(tables))))


@settings(max_examples=60, deadline=None)
@given(documents(), st.dictionaries(KEYS, VALUES, max_size=3))
def test_any_document_gets_a_table_and_loses_it_again(drawn, value):
    _, text = drawn
    after = add(text, value=value)
    assert take(after) == text


@settings(max_examples=60, deadline=None)
@given(documents(), st.dictionaries(KEYS, VALUES, max_size=3), st.data())
def test_any_table_of_any_document_is_replaced_or_removed(drawn, value, data):
    names, text = drawn
    keys = ("mcp_servers", data.draw(st.sampled_from(names)))
    add(text, keys, value)
    take(text, keys)


def test_a_large_file_is_edited():
    entry = 'command = "x"\nargs = ["--a", "' + "b" * 900 + '"] # c\n\n'
    text = "".join(f"[mcp_servers.s{n}]\n{entry}" for n in range(500))
    assert take(add(text)) == text
