"""A correct server whose tools have schemas that dialects read differently, and pages to visit."""

from dataclasses import dataclass, field
from typing import Any

from accord import Context, Server, types
from accord.errors import UrlElicitationRequired

READS = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NEWEST = "https://json-schema.org/draft/2020-12/schema"

server: Server[Any] = Server("schemas", version="1.0.0")


@server.tool(annotations=READS)
async def get_route(legs: tuple[str, int]) -> str:
    """Describe a leg of a route: prefixItems."""
    return f"{legs[0]} for {legs[1]} hours"


@server.tool(
    annotations=READS,
    input_schema={
        "type": "object",
        "properties": {"card": {"type": "string"}, "owner": {"type": "string"}},
        "dependentRequired": {"card": ["owner"]},
        "required": ["card"],
    },
)
async def get_payment(card: str, owner: str = "") -> str:
    """Describe a payment: dependentRequired, in the default dialect."""
    return f"paid by {owner}"


@server.tool(
    annotations=READS,
    input_schema={
        "$schema": NEWEST,
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "unevaluatedProperties": False,
    },
)
async def get_city(**given: Any) -> str:
    """Describe a city: unevaluatedProperties, in a dialect that is declared."""
    return f"all about {given['city']}"


@server.tool(
    annotations=READS,
    input_schema={
        "$schema": DRAFT_7,
        "type": "object",
        "properties": {
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["pair"],
    },
)
async def get_pair(pair: list[Any]) -> str:
    """Describe a pair: a list of items, in draft-07."""
    return f"{len(pair)} things"


@dataclass
class Folder:
    name: str
    inside: list["Folder"] = field(default_factory=list)


@server.tool(annotations=READS)
async def count_folders(folder: Folder) -> str:
    """Count folders within folders: the schema refers to itself."""
    return str(1 + len(folder.inside))


@server.tool(annotations=READS)
async def get_balance(ctx: Context[Any]) -> str:
    """Look into an account that has to be linked first."""
    if "elicitation.url" not in ctx.client_capabilities:
        return "not linked"
    page = ctx.prepare_url("link your account", "https://bank.example/link")
    raise UrlElicitationRequired("link your account", elicitations=[page])


if __name__ == "__main__":
    server.run()
