"""Each message that docs/troubleshooting.md explains is still in the source."""

import ast
import re
from pathlib import Path

import accord
from support.tables import cases

PAGE = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text()
MESSAGES = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)


def texts():
    """Return the texts of the source in full; a tab stands for what is put into them."""
    for path in Path(accord.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (getattr(each, "value", "\t") for each in node.values)
                yield "".join(part if isinstance(part, str) else "\t" for part in parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"%(\.\d)?[sgrdf]", "\t", node.value)


TEXTS = "\n\n".join(each.replace("\n", " ") for each in texts())


@cases("message", MESSAGES)
def test_a_message_of_the_page_is_in_the_source(message):
    pattern = "[^\n]*".join(map(re.escape, message.split("...")))
    assert re.search(pattern, TEXTS), message


def test_the_page_explains_the_messages_that_people_meet():
    assert len(MESSAGES) > 20
