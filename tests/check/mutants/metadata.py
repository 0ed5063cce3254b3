"""Further servers with wrong `_meta` and wrong titles: area meta, broken in other ways."""

from typing import Any

from check.mutants.spoiling import FIRST, LATER, Circumstances, wrong

CALL, LOG, PROGRESS = "tools/call", "notifications/message", "notifications/progress"
NEW = {"revision": "2025-11-25"}
OWN: Circumstances = {"of": "params"}
PASS: Circumstances = {"asked": {"name": "show_pass"}}


def key(id: str, *keys: str, **settings: Any) -> None:
    """Register servers with invalid keys: of a result, a tool, a block and a log message."""
    places: list[tuple[str, str, Circumstances]] = [
        (CALL, "_meta", {}),
        ("tools/list", "tools.1._meta", LATER),
        (CALL, "content.1._meta", PASS),
        (LOG, "_meta", OWN),
    ]
    for text, (method, path, when) in zip(keys, places, strict=False):
        wrong(
            id,
            method,
            path,
            {text: 1},
            when,
            areas=["logging"] if method == LOG else [],
            **settings,
        )


key("meta.key.two-segments", "a/b/c", "org.example//a", "org.example/a/", "org.example/a/b/c")
key(
    "meta.prefix.reserved",
    "modelcontextprotocol.io/x",
    "tools.mcp.com/x",
    "api.modelcontextprotocol.org/x",
)
key("meta.key.label-grammar", "my_org.example/a", "/a", "org..example/a", "org.example-/a")
key("meta.key.name-grammar", "org.example/_a", "a b", "größe", "org.example/a/".rstrip("/") + ".")
key(
    "meta.key.reverse-dns-prefix",
    "example.com/a",
    "www.example.org/a",
    "tools.example.dev/a",
    **NEW,
)
key(
    "meta.key.reserved-by-second-label",
    "com.mcp/a",
    "io.modelcontextprotocol/own",
    "org.mcp.api/a",
    **NEW,
)
key("meta.key.label-grammar", "1st.example/a", **NEW)

wrong("meta.field.reserved", LOG, "_meta", "text", OWN, areas=["logging"])
wrong("meta.field.reserved", "tools/list", "_meta", None, LATER)
wrong("meta.field.reserved", "initialize", "_meta", 7)
wrong("meta.field.more-types", CALL, "content.1._meta", None, PASS)
wrong("meta.field.more-types", "resources/list", "resources.1._meta", [1])
wrong("meta.field.more-types", "prompts/list", "prompts.0._meta", 7, LATER)
wrong("meta.field.more-types", "resources/templates/list", "resourceTemplates.0._meta", "x", FIRST)
wrong("meta.title.display-name", "initialize", "serverInfo.title", None)
wrong("meta.title.display-name", "prompts/list", "prompts.0.arguments.0.title", {"en": "A"}, FIRST)
wrong("meta.title.display-name", "prompts/list", "prompts.1.arguments.0.title", 7)
