"""Texts of JSON, TOML and YAML, and what becomes of them by edits, as tables."""

from accord_tools.hosts.documents.document import TextPlace
from accord_tools.hosts.documents.verification import ABSENT

PATHS = {
    "jsonc": ("mcpServers", "desk"),
    "toml": ("mcp_servers", "desk"),
    "yaml": ("extensions", "desk"),
}
VALUE = {"command": "/bin/desk", "args": ["-m", 'a "b"', "a: b"], "env": {"K": "yes"}}

# The container has members, so that adding and removing gives the same bytes.
WITH_MEMBERS = {
    "jsonc": {
        "two": '{\n  "mcpServers": {\n    "a": {\n      "command": "x"\n    }\n  }\n}\n',
        "four": '{\n    "mcpServers": {\n        "a": {}\n    },\n    "theme": "dark"\n}\n',
        "tabs": '{\n\t"mcpServers": {\n\t\t"a": {}\n\t}\n}\n',
        "crlf": '{\r\n  "mcpServers": {\r\n    "a": {}\r\n  }\r\n}\r\n',
        "cr": '{\r  "mcpServers": {\r    "a": {}\r  }\r}\r',
        "mixed": '{\n  "mcpServers": {\r\n    "a": {}\n  }\r\n}\n',
        "no end": '{\n  "mcpServers": {\n    "a": {}\n  }\n}',
        "one line": '{"mcpServers": {"a": {"command": "x"}}, "b": [1, 2]}',
        "dense": '{"mcpServers":{"a":{"command":"x"},"b":{}}}',
        "one line with blanks": '{ "mcpServers": { "a": 1 , "b": 2 } }',
        "one line within": '{\n  "mcpServers": {"a": {}}\n}\n',
        "remark": '{\n  "mcpServers": {\n    "a": {} // first\n  }\n}\n',
        "block remark": '{\n  "mcpServers": {\n    "a": {} /* over\n    lines */\n  }\n}\n',
        "comment after": '{\n  "mcpServers": {\n    "a": {}\n    // "old": {},\n  }\n}\n',
        "comment before": '{\n  "mcpServers": {\n    // note\n    "a": {}\n  }\n}\n',
        "trailing comma": '{\n  "mcpServers": {\n    "a": {},\n  },\n}\n',
        "trailing comma, remark": '{\n  "mcpServers": {\n    "a": {}, // x\n    // y\n  }\n}\n',
        "comma in next line": '{\n  "mcpServers": {\n    "a": {} // x\n    , // y\n  }\n}\n',
        "comma first": '{\n  "mcpServers": {\n    "a": {}\n  , "b": {}\n  }\n}\n',
        "trailing comma in line": '{"mcpServers": {"a": {},},}',
        "blank lines": '{\n\n  "mcpServers": {\n\n    "a": {},\n\n    "b": {}\n\n  }\n\n}\n\n',
        "brace in line": '{ "mcpServers": {\n  "a": {},\n  "b": {} /* c */ } }',
        "brackets in strings": '{"x": "}{][,//", "mcpServers": {"}\\"": "/*"}, "y": "*/"}',
        "not indented": '{\n"mcpServers": {\n"a": {}\n}\n}\n',
        "allman": '{\n  "mcpServers":\n  {\n    "a":\n    {\n      "command": "x"\n    }\n  }\n}\n',
        "unicode": '{\n  "mcpServers": {\n    "ä\\u00e9 𝄞": {"k": "\u2028"}\n  }\n}\n',
    },
    "toml": {
        "one": '[mcp_servers.a]\ncommand = "x"\n',
        "one without end": '[mcp_servers.a]\ncommand = "x"',
        "between": 'model = "m"\n\n[mcp_servers.a]\ncommand = "x"\n\n[tui]\nx = 1\n',
        "dense": 'model = "m"\n[mcp_servers.a]\ncommand = "x"\n[tui]\nx = 1\n',
        "crlf": '[mcp_servers.a]\r\ncommand = "x"\r\n\r\n[tui]\r\nx = 1\r\n',
        "mixed": '[mcp_servers.a]\ncommand = "x"\r\n\r\n[tui]\nx = 1\r\n',
        "comments": "# top\n\n# a\n[mcp_servers.a] # b\nx = 1 # c\n# d\n\n# e\n[tui]\n# f\n",
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
        "lists of tables": "[[l]]\nx = 1\n[[l.m]]\ny = 1\n\n[mcp_servers.a]\nz = 1\n\n[[l]]\nx = 2",
        "blank lines at the end": '[mcp_servers.a]\ncommand = "x"\n\n\n\n',
        "indented": '[mcp_servers]\n\n  [mcp_servers.a]\n  command = "x"\n\n[tui]\n',
    },
    "yaml": {
        "two": "extensions:\n  a:\n    cmd: x\n",
        "four": "extensions:\n    a:\n        cmd: x\nz: 1\n",
        "crlf": "extensions:\r\n  a:\r\n    cmd: x\r\nz: 1\r\n",
        "mixed": "extensions:\n  a:\r\n    cmd: x\nz: 1\r\n",
        "cr": "extensions:\r  a:\r    cmd: x\rz: 1\r",
        "no end": "extensions:\n  a:\n    cmd: x",
        "remark": "extensions: # all\n  a: # first\n    cmd: x # c\n",
        "comments": "# top\nextensions:\n  # a\n  a:\n    cmd: x\n    # no: 1\n  # e\n# z\nz: 1\n",
        "blank lines": "extensions:\n\n  a:\n    cmd: x\n\n  b: {}\n\n\nz: 1\n\n",
        "document": "%YAML 1.1\n--- # start\nextensions:\n  a: 1\n... # end\n",
        "flow": "extensions: {a: {cmd: x}} # c\n",
        "flow in lines": "extensions: {\n  a: {cmd: x}, # c\n  b: 1\n  }\n",
        "flow, trailing comma": "extensions: {a: 1,}\n",
        "flow, comma after comment": "extensions: {\n  a: 1 # c\n  ,\n  b: 2 # d\n  }\n",
        "empty flow": "extensions: {} # c\nz: 1\n",
        "json": '{"extensions": {"a": {"cmd": "x"}}, "z": [1]}\n',
        "block text": "extensions:\n  a:\n    cmd: |\n      x\n       # no\n\n\nz: 1\n",
        "kept block text": "extensions:\n  a: |+\n    x\n\n\nz: 1\n",
        "folded text at the end": "extensions:\n  a: >-\n    x\n    y",
        "long texts": "extensions:\n  a: 'x\n\n    y'\n  b: plain\n    text\n",
        "no value": "extensions:\n  a:\n",
        "quoted keys": "extensions:\n  'a b': 1\n  \"c:d\" : 2\n",
        "anchor elsewhere": "x: &x\n  y: 1\nextensions:\n  a: *x\n  b:\n    <<: *x\n",
        "unicode": 'extensions:\n  ä: "𝄞" # 𝄞\n  é: 𝄞\n',
        "list without indentation": "l:\n- 1\nextensions:\n  a:\n    args:\n    - x\n",
        "indented root": "  extensions:\n    a: 1\n  z: 1\n",
        "tag": "extensions: !!map\n  a: !!str 1\n",
    },
}
WITHOUT_MEMBERS = {
    "jsonc": {
        "empty text": "",
        "blank": " \n\n",
        "comment only": "// my servers\n",
        "comment without end": "/* my servers */",
        "empty object": "{}",
        "empty object in lines": "{\n}\n",
        "empty object with comment": "{\n  // nothing yet\n}\n",
        "other members": '{\n  "theme": "dark"\n}\n',
        "empty container": '{\n  "mcpServers": {}\n}\n',
        "empty container in lines": '{\n  "mcpServers": {\n  }\n}\n',
        "empty container with comment": '{\n  "mcpServers": { // none\n    // yet\n  }\n}\n',
        "null": '{\n  "mcpServers": null\n}\n',
        "one line": '{"mcpServers": {}}',
        "one line with comment": '{"a": 1, "mcpServers": {/* c */}}',
    },
    "toml": {
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
    },
    "yaml": {
        "empty": "",
        "blank": "\n\n",
        "comment": "# my settings",
        "comment with end": "# my settings\n",
        "document": "---\n",
        "document with end": "---\n# c\n...\n",
        "empty root": "{}\n",
        "null root": "--- ~\n",
        "other key": "z: 1\n",
        "no value": "extensions:\nz: 1\n",
        "no value, comment": "extensions: # none\n  # yet\nz: 1\n",
        "null": "extensions: null # none\n",
        "tilde": "extensions: ~",
        "crlf": "z: 1\r\n",
        "empty flow in flow": "{extensions: {}}\n",
    },
}

# format, text, place of the fault, what is said
BROKEN = {
    "json": [
        ('{"a": 1\n "b": 2}', 1, 8, "a comma is missing here, between two members"),
        ("[1 2]", 1, 3, "a comma is missing here, between two items"),
        ('{"a": "b', 1, 7, "the text ends within a string"),
        ('{"a": "b\n}', 1, 7, "its line ends before"),
        ("{'a': 1}", 1, 2, "a quote ' begins here; JSON has double quotes only"),
        ("{a: 1}", 1, 2, "the key 'a' needs double quotes"),
        ('{"a" 1}', 1, 6, "a colon is missing"),
        ('{"a" = 1}', 1, 6, "= stands here"),
        ('{"a": 1', 1, 8, "the object that begins in line 1 is not closed; } is missing"),
        ('{"a": [1}', 1, 9, "is closed by ]"),
        ('{"a": 1,, "b": 2}', 1, 8, "two commas"),
        ('{, "a": 1}', 1, 2, "a comma stands before the first value"),
        ('{"a": }', 1, 7, "a value is missing before }"),
        ('{"a": 1}}', 1, 9, "one bracket too many"),
        ('{"a": 1} {"b": 2}', 1, 10, "only one value may stand in a file"),
        ('{"a": "\\x"}', 1, 8, "a backslash itself is written"),
        ('{"a": "\\u12"}', 1, 8, "four hexadecimal digits"),
        ('{"a": "\t"}', 1, 8, "a tab stands in a string"),
        ('{"a": "\x1b"}', 1, 8, "a control character stands in a string"),
        ('{"a": 01}', 1, 7, "begins with 0"),
        ('{"a": +1}', 1, 7, "begins with +"),
        ('{"a": 0x1}', 1, 7, "decimal numbers only"),
        ('{"a": .5}', 1, 7, "is not a number"),
        ('{"a": 1.}', 1, 7, "is not a number"),
        ('{"a": NaN}', 1, 7, "NaN is not a value of JSON"),
        ('{"a": True}', 1, 7, "JSON writes True as true"),
        ('{"a": yes}', 1, 7, "needs double quotes"),
        ('{"a": 1} /* end', 1, 10, "never ends"),
        ('{\n# c\n"a": 1}', 2, 1, "# is not known in JSON"),
        ('{"a": 1 / 2}', 1, 9, "a single /"),
        ("{\u201ca\u201d: 1}", 1, 2, "a quote that JSON does not know"),
        ('{"a":\u00a01}', 1, 6, "U+00A0 (NO-BREAK SPACE)"),
        ('{"a": 1,\n<<<<<<< HEAD\n"b": 2}', 2, 1, "a conflict of git"),
        ('{"a": 1,\r\n"b": 2,\r\n"a": 3}', 3, 1, "appears twice in this object, first in line 1"),
        ('{"a": {"\\u0062": 1, "b": 2}}', 1, 21, "the key 'b' appears twice"),
        ('{"a": 1 // c\n"b": 2', 1, 8, "a comma is missing"),
        ('{"a": :}', 1, 7, "a value cannot begin with :"),
        ('{"a": 1: 2}', 1, 8, "where a comma is expected"),
        ("[,]", 1, 2, "a comma stands before the first value"),
        ("[1,,]", 1, 3, "two commas"),
        ('{"a"}', 1, 2, "a colon is missing"),
        ("{[1]: 2}", 1, 2, "where a key in double quotes is expected"),
        ('["a", "b"', 1, 10, "] is missing"),
        ("\ufeff{}", 1, 1, "an invisible character"),
        ("hello", 1, 1, "needs double quotes"),
        ("[" * 100_000, 1, 201, "nested more than 200 levels deep"),
        ('{"a":' * 100_000, 1, 1001, "nested more than 200 levels deep"),
    ],
    "toml": [
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
    ],
    "yaml": [
        ("a: b: c\n", 1, "a text with a colon in it needs quotes"),
        ("a: 1\nb\nc: 2\n", 3, "a : is missing after a key"),
        ("a: [1, 2\nb: 3\n", 2, "a list is not closed"),
        ("a: {b: 1\nc: ]\n", 2, ""),
        ('a: "x\n', 2, "the text ends within quotes"),
        ("a:\n  b: 1\n c: 2\n", 3, "indented unlike its neighbours"),
        ("a:\n\tb: 1\n", 2, "a tab stands here"),
        ("a: @x\n", 1, "@ cannot begin a text"),
        ("a: *x\n", 1, "refers to an anchor that does not exist"),
        ("a: &a [*a]\n", 1, "stands within the value itself"),
        ("a: 1\na: 2\n", 2, "the key 'a' appears twice, first in line 1"),
        ("x:\n  a: 1\n  'a': 2\n", 3, "the key 'a' appears twice"),
        ("a: 1\n---\nb: 2\n", 2, "a second document begins here"),
        ("a: !secret x\n", 1, "a tag stands here that only one program knows"),
        ("a: \x01\n", 1, "a control character"),
        ("- a\nb: 1\n", 2, "the line is indented unlike"),
        ("a: - b\n", 1, "a list cannot begin"),
        ("a: 2024-99-99\n", 1, "a value cannot be read"),
        ("? [a]\n: 1\n", 1, ""),
        ("[" * 100_000, 1, "nested more than 200 levels deep"),
        ("{a: " * 100_000, 1, "nested more than 200 levels deep"),
        ("- " * 100_000, 1, "nested more than 200 levels deep"),
    ],
}

_LISTS = '{"l": [{"name": "a"}], "m": [\n  1, // one\n  2\n]}'
_NOTES = (
    '{\n  "s": {\n    // about all\n\n    // about a\n    /* more */\n    "a": 1, // one\n'
    '    // about b\n    "b": 2\n  }\n}\n'
)
_MEMBERS = '{\n  "a": {\n    "b": 1, // one\n    "c": [] // two\n  }\n}\n'
_LINES = '{\n  "a": {"b": 1, "c": 2},\n  "d": {\n    "e": 1\n  }\n}\n'
_GAPS = '{\n  "a": 1,\n\n  "b": 2,\n\n  "c": 3\n}'
_WHY = '{"mcpServers": {"desk": {"command": "x", /* why */ "args": [ ]}}} // end'
_ARGS = '[a]\nargs = [\n    "x",\n    "y"\n]\n'
_TABLES = '[[mcp_servers]]\nname = "a"\n[mcp_servers.env]\nK = "v"\n\n[tui]\n'
_TABLES_2 = _TABLES.replace("\n\n", '\n\n[[mcp_servers]]\nname = "b"\n\n')
_ITEMS = "mcpServers:\n  - name: a\n    command: x\n  # end\n"
_ITEM_B = "  - name: b\n    env:\n      K: v\n"
_FLAT = "mcpServers:\n- name: a\n  command: x\n"
_DESK = "extensions:\n  desk:\n    cmd: x # why\n    # note\n    args: [a, b] # list\nz: 1\n"
_TOUCH = "s:\n  # all\n\n  # about a\n  a: 1 # one\n  # about b\n  b: 2\n"
_MERGED = "base: &base\n  timeout: 3\nextensions:\n  a:\n    <<: *base\n    cmd: x\n"
_EXTENSIONS = "extensions:\n   a:\n      cmd: x # c\n      # more\n"

# What an edit of one value makes of a text.
EDITS = {
    "jsonc": {
        "layout of the neighbours": (
            '{\n\t"mcpServers": {\n\t\t"a": {\n\t\t\t"command": "x"\n\t\t} // first\n\t}\n}\n',
            PATHS["jsonc"],
            {"command": "y"},
            (
                '{\n\t"mcpServers": {\n\t\t"a": {\n\t\t\t"command": "x"\n\t\t}, // first\n'
                '\t\t"desk": {\n\t\t\t"command": "y"\n\t\t}\n\t}\n}\n'
            ),
        ),
        "trailing comma": (
            '{\n  "mcpServers": {\n    "a": 1,\n  },\n}\n',
            PATHS["jsonc"],
            2,
            '{\n  "mcpServers": {\n    "a": 1,\n    "desk": 2,\n  },\n}\n',
        ),
        "empty text": (
            "",
            PATHS["jsonc"],
            {"command": "x"},
            '{\n  "mcpServers": {\n    "desk": {\n      "command": "x"\n    }\n  }\n}\n',
        ),
        "only what differs": (
            _WHY,
            PATHS["jsonc"],
            {"command": "other", "args": []},
            _WHY.replace('"x"', '"other"'),
        ),
        "new member": (
            _MEMBERS,
            ("a",),
            {"b": 1, "c": [], "d": True},
            _MEMBERS.replace("[] // two", '[], // two\n    "d": true'),
        ),
        "old member": (
            _MEMBERS.replace("[] // two", '[], // two\n    "d": true'),
            ("a",),
            {"b": 1, "c": []},
            _MEMBERS,
        ),
        "whole, in a line": (_LINES, ("a",), {"x": 1}, _LINES.replace('"b": 1, "c": 2', '"x": 1')),
        "whole, in lines": (_LINES, ("d",), {"x": 1}, _LINES.replace('"e": 1', '"x": 1')),
        "touching comment": (
            _NOTES,
            ("s", "a"),
            ABSENT,
            '{\n  "s": {\n    // about all\n\n    // about b\n    "b": 2\n  }\n}\n',
        ),
        "comments of another": (
            _NOTES,
            ("s", "b"),
            ABSENT,
            (
                '{\n  "s": {\n    // about all\n\n    // about a\n    /* more */\n'
                '    "a": 1 // one\n  }\n}\n'
            ),
        ),
        "blank lines, first": (_GAPS, ("a",), ABSENT, '{\n  "b": 2,\n\n  "c": 3\n}'),
        "blank lines, middle": (_GAPS, ("b",), ABSENT, '{\n  "a": 1,\n\n  "c": 3\n}'),
        "blank lines, last": (_GAPS, ("c",), ABSENT, '{\n  "a": 1,\n\n  "b": 2\n}'),
        "item in a line": (
            _LISTS,
            ("l", 1),
            {"name": "b"},
            _LISTS.replace('"a"}', '"a"}, {"name": "b"}'),
        ),
        "item in lines": (_LISTS, ("m", 2), 3, _LISTS.replace("2\n", "2,\n  3\n")),
        "item removed": (_LISTS, ("m", 0), ABSENT, _LISTS.replace("  1, // one\n", "")),
    },
    "toml": {
        "behind its siblings": (
            '[mcp_servers.a]\ncommand = "x"\n\n# the look\n[tui]\nx = 1\n',
            PATHS["toml"],
            {"command": "y", "args": ["-m", 'a "b"'], "env": {"K": "v"}},
            (
                '[mcp_servers.a]\ncommand = "x"\n\n[mcp_servers.desk]\ncommand = "y"\n'
                'args = ["-m", "a \\"b\\""]\nenv = { K = "v" }\n\n# the look\n[tui]\nx = 1\n'
            ),
        ),
        "sub-tables and touching comments": (
            (
                "# top\n\n# about desk\n[mcp_servers.desk]\nx = 1\n\n[tui]\ny = 1\n\n"
                '[mcp_servers.desk.env]\nK = "v"\n\n# about z\n[z]\n'
            ),
            PATHS["toml"],
            ABSENT,
            "# top\n\n[tui]\ny = 1\n\n# about z\n[z]\n",
        ),
        "only what differs": (
            (
                '[mcp_servers.desk]\ncommand = "x" # why\n# note\nargs = [\n  "a", # first\n]\n'
                'old = 1\n\n[mcp_servers.desk.env]\nK = "v" # key\n\n[tui]\n'
            ),
            PATHS["toml"],
            {"command": "y", "args": ["a"], "env": {"K": "v", "L": "w"}, "cwd": "/"},
            (
                '[mcp_servers.desk]\ncommand = "y" # why\n# note\nargs = [\n  "a", # first\n]\n'
                'cwd = "/"\n\n[mcp_servers.desk.env]\nK = "v" # key\nL = "w"\n\n[tui]\n'
            ),
        ),
        "list in lines": (_ARGS, ("a", "args"), ["z"], '[a]\nargs = [\n    "z",\n]\n'),
        "item in lines": (_ARGS, ("a", "args", 2), "z", _ARGS.replace('"y"', '"y",\n    "z"')),
        "item removed": (_ARGS, ("a", "args", 1), ABSENT, _ARGS.replace(',\n    "y"', "")),
        "table of a list": (_TABLES, ("mcp_servers", 1), {"name": "b"}, _TABLES_2),
        "last table of a list": (_TABLES_2, ("mcp_servers", 1), ABSENT, _TABLES),
        "first table of a list": (
            _TABLES_2,
            ("mcp_servers", 0),
            ABSENT,
            '[[mcp_servers]]\nname = "b"\n\n[tui]\n',
        ),
        "new list of tables": (
            "",
            ("mcp_servers", 0),
            {"name": "b"},
            '[[mcp_servers]]\nname = "b"\n',
        ),
        "empty list": (
            "mcp_servers = []\n",
            ("mcp_servers", 0),
            {"name": "b"},
            'mcp_servers = [{ name = "b" }]\n',
        ),
        "key in an empty text": ("", ("a",), 1, "a = 1\n"),
        "key below a comment": ("# c\n", ("a",), 1, "# c\n\na = 1\n"),
        "key above a table": ("a = 1\n\n[t]\n", ("b",), 2, "a = 1\nb = 2\n\n[t]\n"),
        "key above a comment": ("# c\n\n# t\n[t]\n", ("b",), 2, "# c\n\nb = 2\n\n# t\n[t]\n"),
        "key in a table": ("[t]\n", ("t", "b"), [1, 2], "[t]\nb = [1, 2]\n"),
        "table above a sub-table": ("[t.u]\n", ("t", "b"), 2, "[t.u]\n\n[t]\nb = 2\n"),
        "dotted key": ("t.u.v = 1\n", ("t", "u", "w"), 2, "t.u.v = 1\nt.u.w = 2\n"),
        "new tables": ("", ("t", "u", "w"), 2, "[t.u]\nw = 2\n"),
        "null": ("a = 1", ("a",), {"b": None}, "a = {}"),
        "null members": ("", ("t",), {"x": "y", "cwd": None}, '[t]\nx = "y"\n'),
        "table without a header": (
            "# top\n\n[a.b]\nx = 1\n\n[a.c]\n\n[z]\n",
            ("a",),
            {"y": 1},
            "# top\n\n[a]\ny = 1\n\n[z]\n",
        ),
        "table without members": (
            "# top\n\n[a.b]\nx = 1\n\n[a.c]\n\n[z]\n",
            ("a",),
            {},
            "# top\n\n[a]\n\n[z]\n",
        ),
    },
    "yaml": {
        "layout of the neighbours": (
            f"{_EXTENSIONS}   # end\n",
            PATHS["yaml"],
            {"cmd": "go", "args": ["z"]},
            f"{_EXTENSIONS}   desk:\n      cmd: go\n      args:\n         - z\n   # end\n",
        ),
        "item": (
            _ITEMS,
            ("mcpServers", 1),
            {"name": "b", "env": {"K": "v"}},
            _ITEMS.replace("  # end", f"{_ITEM_B}  # end"),
        ),
        "item removed": (
            _ITEMS.replace("  # end", f"{_ITEM_B}  # end"),
            ("mcpServers", 0),
            ABSENT,
            f"mcpServers:\n{_ITEM_B}  # end\n",
        ),
        "flat item": (_FLAT, ("mcpServers", 1), {"name": "b"}, f"{_FLAT}- name: b\n"),
        "new list": ("", ("mcpServers", 0), {"name": "b"}, "mcpServers:\n  - name: b\n"),
        "empty list": (
            "mcpServers: []\n",
            ("mcpServers", 0),
            {"name": "b"},
            "mcpServers:\n  - name: b\n",
        ),
        "only item": ("mcpServers:\n  - name: b\n", ("mcpServers", 0), ABSENT, "mcpServers: []\n"),
        "first member of an item": (
            "l:\n  - name: a\n    command: x\n",
            ("l", 0, "name"),
            ABSENT,
            "l:\n  - command: x\n",
        ),
        "only what differs": (
            _DESK,
            PATHS["yaml"],
            {"cmd": "/bin/y", "args": ["a", "c"]},
            _DESK.replace("x #", "/bin/y #").replace("b]", "c]"),
        ),
        "new member": (
            _DESK,
            PATHS["yaml"],
            {"cmd": "x", "args": ["a", "b"], "on": "no"},
            _DESK.replace("# list", '# list\n    "on": "no"'),
        ),
        "touching comment": (_TOUCH, ("s", "a"), ABSENT, "s:\n  # all\n\n  # about b\n  b: 2\n"),
        "comments of another": (
            _TOUCH,
            ("s", "b"),
            ABSENT,
            "s:\n  # all\n\n  # about a\n  a: 1 # one\n",
        ),
        "merged member": (_MERGED, ("extensions", "a", "timeout"), 4, f"{_MERGED}    timeout: 4\n"),
        "blank lines of a text": ("a: |+\n  x\n\n\nz: 1\n", ("z",), ABSENT, "a: |+\n  x\n\n\n"),
        "keys that are not texts": (
            "2: a\n'2': b\non: c\n'on': d\n",
            ("2",),
            ABSENT,
            "2: a\non: c\n'on': d\n",
        ),
    },
}

_ALIAS = "x: &x {a: 1}\n"
# Edits that could do harm, or lead nowhere, and what is said about them.
REFUSED = {
    "jsonc": [
        ('{"mcpServers": "x"}', PATHS["jsonc"], 1, "mcpServers is a text, and not an object"),
        ("[1]", PATHS["jsonc"], 1, "the document is a list, and not an object"),
        ('{"mcpServers": {}}', ("mcpServers", 0), 1, "is an object, and not a list"),
        ('{"l": [1]}', ("l", 3), 1, "l has 1 items; item 3 cannot be added"),
        ('{"a": 1, "l": [0]}', (), ABSENT, "is not in the document"),
        ('{"a": 1, "l": [0]}', ("b",), ABSENT, "is not in the document"),
        ('{"a": 1, "l": [0]}', ("a", "b"), ABSENT, "is not in the document"),
        ('{"a": 1, "l": [0]}', ("l", 1), ABSENT, "is not in the document"),
    ],
    "toml": [
        (_TABLES_2, ("mcp_servers", 0, "sub", "x"), 1, "not the last table"),
        ("a = { b.c = 1 }\n", ("a", "b", "c"), 2, "dotted key within braces"),
        ("mcp_servers = 1\n", PATHS["toml"], 1, "mcp_servers is a value, and not an object"),
        ("[mcp_servers]\n", ("mcp_servers", 0), 1, "is an object, and not a list"),
        ("[a.b]\n", ("a", "b"), 1, "a.b has tables; change it by hand"),
        ("[[a]]\n[[a]]\n", ("a",), [], "a has tables; change it by hand"),
    ],
    "yaml": [
        (f"{_ALIAS}extensions: *x\n", PATHS["yaml"], 1, r"written as \*x"),
        ("extensions: &x\n  a: 1\ny: *x\n", PATHS["yaml"], 1, "anchor &x, which is used elsewh"),
        ("extensions: text\n", PATHS["yaml"], 1, "extensions is a text, and not an object"),
        ("extensions:\n  - 1\n", PATHS["yaml"], 1, "extensions is a list, and not an object"),
        ("extensions: {}\n", ("extensions", 0), 1, "is an object, and not a list"),
        ("l: [1]\n", ("l", 2), 1, "l has 1 items; item 2 cannot be added"),
        ("- 1\n", PATHS["yaml"], 1, "the document is a list"),
        ("extensions:\n  ? a\n  : 1\n", PATHS["yaml"], 1, r"keys with \?"),
        ("extensions: {a: }\n", PATHS["yaml"], 1, "has no value"),
        ("extensions: {a, b: 1}\n", PATHS["yaml"], 1, "a key without a colon"),
        (f"{_ALIAS}extensions:\n  <<: *x\n", ("extensions", "a", "y"), 1, "by a merge"),
        ("extensions: [a: 1]\n", ("extensions", 0, "b"), 1, "without braces"),
        ("l:\n- a: 1 # c\n  b: 2\n", ("l", 0, "a"), ABSENT, "comments stand below"),
        ("a: 1\n", ("b",), ABSENT, "is not in the document"),
        (f"{_ALIAS}y:\n  <<: *x\n", ("y", "a"), ABSENT, "by a merge"),
        (f"{_ALIAS}y: *x\n", ("x",), ABSENT, "anchor &x, which is used elsewhere"),
        ("x:\n  y: &y 1\n  w: 2\nz: *y\n", ("x",), ABSENT, "anchor &y, which is used elsewhere"),
        ("? a\n: 1\n? b\n: 2\n", ("a",), ABSENT, r"written with \?"),
    ],
}

PLACES = {
    "json": (
        '// c\r\n{\r\n  "a": [1,\r\n {"b": 2}]}',
        {
            (): TextPlace(2, 1),
            ("a",): TextPlace(3, 3),
            ("a", 1, "b"): TextPlace(4, 3),
            ("a", 2): None,
            ("x", "y"): None,
        },
    ),
    "toml": (
        (
            'a = 1\r\n[t.u]\r\n  x.y = [1, { z = 2 }]\r\n[[l]]\r\n[[l]]\r\nk = """\r\n[n]\r\n"""\n'
            "[[l.m]]\r\n'b c'.\"\\u0041\" = [\r\n  1, # ]\r\n  [2], ]\r\n[x.y.z]\r\n[x]\r\nw = {}\n"
        ),
        {
            ("a",): TextPlace(1, 1),
            ("t",): TextPlace(2, 1),
            ("t", "u", "x"): TextPlace(3, 3),
            ("t", "u", "x", "y", 1, "z"): TextPlace(3, 15),
            ("l",): TextPlace(4, 1),
            ("l", 1): TextPlace(5, 1),
            ("l", 1, "k"): TextPlace(6, 1),
            ("l", 1, "m", 0): TextPlace(9, 1),
            ("l", 1, "m", 0, "b c", "A", 0): TextPlace(11, 3),
            ("l", 1, "m", 0, "b c", "A", 1, 0): TextPlace(12, 4),
            ("x",): TextPlace(13, 1),
            ("x", "w"): TextPlace(15, 1),
            ("l", 2): None,
        },
    ),
    "yaml": (
        "# c\r\na:\r\n  b:\r\n    - x\r\n    - {y: 1}\r\n2: a\r\n'2': b\r\non: c\r\n'on': d\r\n",
        {
            ("a",): TextPlace(2, 1),
            ("a", "b", 0): TextPlace(4, 5),
            ("a", "b", 1, "y"): TextPlace(5, 8),
            ("a", "b", 2): None,
            (2,): TextPlace(6, 1),
            ("2",): TextPlace(7, 1),
            ("on",): TextPlace(9, 1),
        },
    ),
}

# Corner cases in the manner of test suites for parsers of JSON.
VALID = [
    *("0", "-0", "1e400", "-1.5E+3", '""', '"\\ud800"', '"\\/\\b\\f\\n\\r\\t\\u0000"', "[[[]]]"),
    *('{"": {"": []}}', "9" * 5000, " \t\r\n null \r", '["// no", "/* no */"]', "[1,]"),
    *('{"a": 1,}', "/**/[]//", "[1,/* c */]", "[/*,*/1]//,", '"\\\\"', "[" * 200 + "]" * 200),
    '{"a":"\\\\", "b":"\\""}',
]
INVALID = ["[1}", "[/]", "[1/**2]", "tru", '"a', "[1,2", "-", "1 2", "{1:2}"]

# Texts that YAML could take for something else.
TRAPS = r"""
yes No on OFF true False null ~ y n 1 1.5 1e3 1E+3 0x1F 0o7 007 1_000 12:30 2024-01-31 .inf -.INF
.nan + - -y -- --- ... : :a a: a:b # a#b @x `x !x &x *x %x | > ? = << [ ] { } , a,b 'x' "x" None
2024-01-31T10:00:00Z 1:2:3 0b1 +1 -1 /usr/bin C:\x https://x/y?z=1 a=b ~/x $HOME ${env:KEY}
"""
ODD = [
    "", " ", " a", "a ", "a b", "a  b", "a: b", "a #b", "- a", "a\nb", "\t", "\x1b", "\u2028",
    "\x85", "\ufeff", "é", "𝄞", "\U000e0001", "\\", "a\\nb", "? a", "key: {x}", "x" * 300,
]  # fmt: skip
