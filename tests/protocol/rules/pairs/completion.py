from typing import Any

from accord.protocol.revisions import REVISIONS
from protocol.rules.pairs._samples import HANDSHAKE, STATELESS, asked, completed, declared
from support.traces import Pair

SERVER = {"completions": {}, "prompts": {}, "resources": {}}
VALUES = {"completion": {"values": ["Ada", "Alan"], "total": 2, "hasMore": False}}
MANY = {"completion": {"values": [str(number) for number in range(101)]}}
MOST = {"completion": {"values": MANY["completion"]["values"][:100]}}


def answered(requirement: str, legal: Any, illegal: Any, **more: Any) -> Pair:
    return Pair(
        requirement=requirement,
        server=SERVER,
        legal=completed(legal),
        illegal=completed(illegal),
        **more,
    )


def about(requirement: str, legal: Any, illegal: Any, **more: Any) -> Pair:
    return Pair(
        requirement=requirement,
        server=SERVER,
        legal=completed(VALUES, **legal),
        illegal=completed(VALUES, **illegal),
        **more,
    )


PAIRS = [
    *(
        Pair(
            requirement="completion.capability.declared",
            opened=False,
            revisions=(revision,),
            legal=[*declared(revision, SERVER), *completed(VALUES)],
            illegal=[*declared(revision, {"prompts": {}}), *completed(VALUES)],
            party="server",
            also=frozenset({"lifecycle.capabilities.respected"}),
        )
        for revision in REVISIONS
    ),
    about(
        "completion.ref.types",
        {"ref": {"type": "ref/resource", "uri": "note://{name}"}},
        {"ref": {"type": "ref/tool", "name": "add"}},
    ),
    about(
        "completion.ref.types",
        {"ref": {"type": "ref/prompt", "name": "greet"}},
        {"ref": {"type": "ref/prompt", "uri": "note://a"}},
        variant="name",
    ),
    about("completion.ref.types", {}, {"ref": "greet"}, variant="type"),
    Pair(
        requirement="completion.ref.types",
        variant="absent",
        server=SERVER,
        legal=completed(VALUES),
        illegal=asked("completion/complete", {"argument": {"name": "who", "value": "A"}}, VALUES),
    ),
    about(
        "completion.request.context",
        {"context": {"arguments": {"language": "en"}}},
        {"context": {"arguments": {"language": 5}}},
    ),
    about("completion.request.context", {"context": {}}, {"context": "en"}, variant="type"),
    answered("completion.result.values", VALUES, {"completion": {"total": 2}}),
    answered("completion.result.values", VALUES, {"values": ["Ada"]}, variant="completion"),
    answered(
        "completion.result.values", VALUES, {"completion": {"values": "Ada"}}, variant="array"
    ),
    answered(
        "completion.result.values",
        {"completion": {"values": []}},
        {"completion": {"values": [{"value": "Ada"}]}},
        variant="strings",
    ),
    answered("completion.result.max-100", MOST, MANY, revisions=HANDSHAKE),
    answered(
        "completion.result.max-100",
        MOST,
        MANY,
        revisions=STATELESS,
        observed=True,
        also=frozenset({"completion.values-max-100"}),
    ),
    answered("completion.values-max-100", MOST, MANY),
    answered(
        "completion.result.total-and-has-more",
        VALUES,
        {"completion": {"values": [], "total": "2"}},
    ),
    answered(
        "completion.result.total-and-has-more",
        {"completion": {"values": [], "total": 0}},
        {"completion": {"values": [], "hasMore": 0}},
        variant="has-more",
    ),
]
