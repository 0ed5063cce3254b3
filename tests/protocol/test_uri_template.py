"""URI templates: the examples of RFC 6570, what is refused, and matching as the reverse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.protocol.uri_template import Several, parse
from support.tables import cases

VALUES = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
    "empty_keys": {},
    "semi": ";",
    "a": "",
    "blank_list": ["", "x"],
    "blank_keys": {"k": ""},
}

EXPANSIONS = {
    # simple
    "{var}": "value",
    "{hello}": "Hello%20World%21",
    "{half}": "50%25",
    "O{empty}X": "OX",
    "O{undef}X": "OX",
    "{x,y}": "1024,768",
    "{x,hello,y}": "1024,Hello%20World%21,768",
    "?{x,empty}": "?1024,",
    "?{x,undef}": "?1024",
    "?{undef,y}": "?768",
    "{var:3}": "val",
    "{var:30}": "value",
    "{list}": "red,green,blue",
    "{list*}": "red,green,blue",
    "{keys}": "semi,%3B,dot,.,comma,%2C",
    "{keys*}": "semi=%3B,dot=.,comma=%2C",
    # reserved
    "{+var}": "value",
    "{+hello}": "Hello%20World!",
    "{+half}": "50%25",
    "{base}index": "http%3A%2F%2Fexample.com%2Fhome%2Findex",
    "{+base}index": "http://example.com/home/index",
    "O{+empty}X": "OX",
    "O{+undef}X": "OX",
    "{+path}/here": "/foo/bar/here",
    "here?ref={+path}": "here?ref=/foo/bar",
    "up{+path}{var}/here": "up/foo/barvalue/here",
    "{+x,hello,y}": "1024,Hello%20World!,768",
    "{+path,x}/here": "/foo/bar,1024/here",
    "{+path:6}/here": "/foo/b/here",
    "{+list}": "red,green,blue",
    "{+list*}": "red,green,blue",
    "{+keys}": "semi,;,dot,.,comma,,",
    "{+keys*}": "semi=;,dot=.,comma=,",
    # fragment
    "{#var}": "#value",
    "{#hello}": "#Hello%20World!",
    "{#half}": "#50%25",
    "foo{#empty}": "foo#",
    "foo{#undef}": "foo",
    "{#x,hello,y}": "#1024,Hello%20World!,768",
    "{#path,x}/here": "#/foo/bar,1024/here",
    "{#path:6}/here": "#/foo/b/here",
    "{#list}": "#red,green,blue",
    "{#list*}": "#red,green,blue",
    "{#keys}": "#semi,;,dot,.,comma,,",
    "{#keys*}": "#semi=;,dot=.,comma=,",
    # label
    "{.who}": ".fred",
    "{.who,who}": ".fred.fred",
    "{.half,who}": ".50%25.fred",
    "www{.dom*}": "www.example.com",
    "X{.var}": "X.value",
    "X{.empty}": "X.",
    "X{.undef}": "X",
    "X{.var:3}": "X.val",
    "X{.list}": "X.red,green,blue",
    "X{.list*}": "X.red.green.blue",
    "X{.keys}": "X.semi,%3B,dot,.,comma,%2C",
    "X{.keys*}": "X.semi=%3B.dot=..comma=%2C",
    "X{.empty_keys}": "X",
    "X{.empty_keys*}": "X",
    # path
    "{/who}": "/fred",
    "{/who,who}": "/fred/fred",
    "{/half,who}": "/50%25/fred",
    "{/who,dub}": "/fred/me%2Ftoo",
    "{/var}": "/value",
    "{/var,empty}": "/value/",
    "{/var,undef}": "/value",
    "{/var,x}/here": "/value/1024/here",
    "{/var:1,var}": "/v/value",
    "{/list}": "/red,green,blue",
    "{/list*}": "/red/green/blue",
    "{/list*,path:4}": "/red/green/blue/%2Ffoo",
    "{/keys}": "/semi,%3B,dot,.,comma,%2C",
    "{/keys*}": "/semi=%3B/dot=./comma=%2C",
    # path parameters
    "{;who}": ";who=fred",
    "{;half}": ";half=50%25",
    "{;empty}": ";empty",
    "{;v,empty,who}": ";v=6;empty;who=fred",
    "{;v,bar,who}": ";v=6;who=fred",
    "{;x,y}": ";x=1024;y=768",
    "{;x,y,empty}": ";x=1024;y=768;empty",
    "{;x,y,undef}": ";x=1024;y=768",
    "{;hello:5}": ";hello=Hello",
    "{;list}": ";list=red,green,blue",
    "{;list*}": ";list=red;list=green;list=blue",
    "{;keys}": ";keys=semi,%3B,dot,.,comma,%2C",
    "{;keys*}": ";semi=%3B;dot=.;comma=%2C",
    "{;blank_list*}": ";blank_list;blank_list=x",
    "{;blank_keys*}": ";k",
    # query
    "{?who}": "?who=fred",
    "{?half}": "?half=50%25",
    "{?x,y}": "?x=1024&y=768",
    "{?x,y,empty}": "?x=1024&y=768&empty=",
    "{?x,y,undef}": "?x=1024&y=768",
    "{?var:3}": "?var=val",
    "{?list}": "?list=red,green,blue",
    "{?list*}": "?list=red&list=green&list=blue",
    "{?keys}": "?keys=semi,%3B,dot,.,comma,%2C",
    "{?keys*}": "?semi=%3B&dot=.&comma=%2C",
    "{?blank_list*}": "?blank_list=&blank_list=x",
    # query continued
    "{&who}": "&who=fred",
    "?fixed=yes{&x}": "?fixed=yes&x=1024",
    "{&x,y,empty}": "&x=1024&y=768&empty=",
    "{&var:3}": "&var=val",
    "{&list*}": "&list=red&list=green&list=blue",
    "{&keys}": "&keys=semi,%3B,dot,.,comma,%2C",
    # literals
    "": "",
    "/caf\u00e9%20/{who}": "/caf%C3%A9%20/fred",
}


@cases(("template", "uri"), EXPANSIONS.items())
def test_expands_as_the_standard_says(template: str, uri: str) -> None:
    assert parse(template).expand(VALUES) == uri


@cases(
    ("template", "why"),
    [
        ("a/{x", "position 2: this brace is never closed"),
        ("a/x}", "position 3: '}' is not allowed"),
        ("a b", "position 1: ' ' is not allowed"),
        ("a\ud800", "position 1: '\\ud800' is not allowed"),
        ("a%2", "position 1: '%' without two hex digits"),
        ("{}", "position 1: expected the name of a variable"),
        ("{x,}", "position 3: expected the name of a variable"),
        ("{?}", "position 2: expected the name of a variable"),
        ("{!x}", "position 1: operator '!' is reserved for extensions"),
        ("{x y}", "position 2: ' ' cannot stand in the name of a variable"),
        ("{x**}", "position 2: '*' cannot stand in the name of a variable"),
        ("{x:}", "position 3: a maximum length is a number from 1 to 9999"),
        ("{x:0}", "position 3: a maximum length is a number from 1 to 9999"),
        ("{x:10000}", "position 3: a maximum length is a number from 1 to 9999"),
        ("{a,x:\u0663}", "position 5: a maximum length is a number from 1 to 9999"),
        ("{x{y}}", "position 2: '{' cannot stand in the name of a variable"),
    ],
)
def test_refuses_invalid_templates_and_says_where(template: str, why: str) -> None:
    with pytest.raises(ValueError, match="position") as refusal:
        parse(template)
    assert str(refusal.value) == why


def test_several_values_cannot_be_cut_to_a_length() -> None:
    with pytest.raises(ValueError, match="'list' has a maximum length"):
        parse("{list:3}").expand(VALUES)


def test_a_template_names_each_variable_once_and_in_order() -> None:
    template = parse("x://{b}/{+a.c}/{b}{?d*,%41}")
    assert template.variables == ("b", "a.c", "d", "%41")
    assert str(template) == "x://{b}/{+a.c}/{b}{?d*,%41}"


MATCHES = [
    ("note://all", "note://all", {}),
    ("note://all", "note://al", None),
    ("", "", {}),
    ("", "note://all", None),
    ("note://all", "note://all/", None),
    ("note://{name}", "note://first", {"name": "first"}),
    ("note://{name}", "note://a%20%C3%A9%2Fb", {"name": "a \u00e9/b"}),
    ("note://{name}", "note://caf\u00e9", {"name": "caf\u00e9"}),
    ("note://{name}", "note://", None),
    ("note://{name}", "note://a/b", None),
    ("note://{name}", "note://a?b", None),
    ("note://{name}", "note://%FF", None),
    ("note://{name}", "note://\ud800", None),
    ("note://{name}", "note://50%", {"name": "50%"}),
    ("caf\u00e9/{x}", "caf%c3%a9/%7E", {"x": "~"}),
    ("~{x}", "%7Ea", {"x": "a"}),
    ("a%2Fb/{x}", "a/b/1", None),
    ("{x}.{y}", "a.b.c", {"x": "a.b", "y": "c"}),
    ("{x}{y}", "abc", {"x": "ab", "y": "c"}),
    ("{x,y}", "a,b", {"x": "a", "y": "b"}),
    ("{x,y}", "a,b,c", None),
    ("{x}", "a,b", {"x": "a,b"}),
    ("{x}/{x}", "a/a", {"x": "a"}),
    ("{x}/{x}", "a/b", None),
    ("{x:1}/{x}", "a/ab", {"x": "ab"}),
    ("{x}/{x:1}", "ab/a", {"x": "ab"}),
    ("{x:1}/{x}", "b/ab", None),
    ("{x:2}", "abc", None),
    ("{x:2}", "%C3%A9b", {"x": "\u00e9b"}),
    ("file://{+path}", "file:///a/b.txt", {"path": "/a/b.txt"}),
    ("file:///{+path}/{name}", "file:///a/b/c", {"path": "a/b", "name": "c"}),
    ("x{.a,b}", "x.1.2", {"a": "1", "b": "2"}),
    ("x{/a,b}", "x/1/2", {"a": "1", "b": "2"}),
    ("x{/a}", "x/", {"a": ""}),
    ("x{/a}", "x", None),
    ("x{/a}", "x/1/2", None),
    ("x{/a*}", "x/1/2", {"a": "1/2"}),
    ("x{#a}", "x#1/2", {"a": "1/2"}),
    ("x{;a,b}", "x;b=2;a", {"a": "", "b": "2"}),
    ("x{?q,n}", "x?q=a%26b&n=5", {"q": "a&b", "n": "5"}),
    ("x{?q,n}", "x?n=5", {"n": "5"}),
    ("x{?q,n}", "x?n=5&q=a/b=c", {"n": "5", "q": "a/b=c"}),
    ("x{?q,n}", "x", {}),
    ("x{?q,n}", "x?", None),
    ("x{?q,n}", "x?other=1", None),
    ("x{?q}", "x?q=1&q=2", None),
    ("x{?q:2}", "x?q=12", {"q": "12"}),
    ("x{?q:2}", "x?q=123", None),
    ("x?fixed=1{&q}", "x?fixed=1&q=2", {"q": "2"}),
    ("x{?q}&end", "x?q=1&end", {"q": "1"}),
    ("x{?q,end}&end", "x?q=1&end", {"q": "1"}),
]


@cases(("template", "uri", "values"), MATCHES)
def test_matches_what_expansion_makes(
    template: str, uri: str, values: dict[str, str] | None
) -> None:
    assert parse(template).match(uri) == values


@cases(
    ("template", "uri", "values"),
    [
        ("x/{a}", "x/1,2%2C3", ["1", "2,3"]),
        ("x{/a*}", "x/1/2%2F3", ["1", "2/3"]),
        ("x{.a*}", "x.1.2", ["1", "2"]),
        ("x{?a}", "x?a=1,2", ["1", "2"]),
        ("x{?a*,b}", "x?a=1&b=5&a=2,3", ["1", "2,3"]),
        ("x{;a*}", "x;a=1;a=2", ["1", "2"]),
    ],
)
def test_lists_are_matched_part_by_part(template: str, uri: str, values: list[str]) -> None:
    found = parse(template).match(uri)
    assert found is not None
    assert isinstance(found["a"], Several)
    assert list(found["a"].parts) == values


def test_one_part_is_plain_text_and_there_are_only_so_many() -> None:
    template = parse("x{?a*}")
    found = template.match("x?a=1")
    assert found == {"a": "1"}
    assert type(found["a"]) is str
    assert template.match("x?" + "&".join(["a=1"] * 32)) is not None
    assert template.match("x?" + "&".join(["a=1"] * 33)) is None


def test_matching_stays_linear_where_backtracking_would_not_end() -> None:
    template = parse("x" + "{a}-{b}-{c}-{d}-{e}-{f}-{g}-{h}" + "!")
    assert template.match("x" + "-" * 20_000) is None


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1)


@given(TEXTS, TEXTS, st.text(st.characters(exclude_categories=("Cs",))))
def test_matching_reverses_expansion(first: str, second: str, third: str) -> None:
    template = parse("x://{first}/{second}{?third}")
    values = {"first": first, "second": second, "third": third}
    assert template.match(template.expand(values)) == values


@given(st.text(max_size=30))
def test_any_text_is_a_template_or_refused_with_a_place(text: str) -> None:
    try:
        template = parse(text)
    except ValueError as error:
        refusal = str(error)
    else:
        assert set(template.match(text) or ()) <= set(template.variables)
        return
    assert refusal.startswith("position ")


def test_a_template_is_shown_by_its_text():
    template = parse("note://{name}")
    assert str(template) == "note://{name}"
    assert repr(template) == "UriTemplate('note://{name}')"


@cases(
    ("template", "spanning"),
    [
        ("note://{name}", set()),
        ("note:{/name}{;id}{.kind}", set()),
        ("note://{+path}", {"path"}),
        ("note:{/path*}", {"path"}),
        ("note:{#part}{?query}{&more}", {"part", "query", "more"}),
        ("note://{name}/{+name,rest}", {"name", "rest"}),
    ],
)
def test_the_variables_that_may_hold_slashes_are_known(template, spanning):
    assert parse(template).slash_variables == spanning
