"""A page with nothing but a form, on the files of the inspector and under its policy.

    with form_server({"add": SCHEMA}) as url:
        page = await chromium.open(url + "#add")

The address names the schema. In the page, `text()` is the JSON that the form holds, and
`put(text)` sets it.
"""

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from accord_tools.inspector.forms.errors import TextFault, find_errors, read_text
from accord_tools.inspector.forms.form_actions import example_for
from accord_tools.inspector.forms.model import build_form
from accord_tools.inspector.web.static_files import StaticFiles

STATIC: Final = Path(__file__).parents[1] / "src/accord_tools/inspector/static"
APP: Final = """
import { html, render, useState } from "./preact.js";
import { call } from "./api.js";
import { Form, ArgumentEditor } from "./form/form.js";
import * as json from "./json_text.js";
import * as models from "./form/model.js";

function Page({ name, model, start }) {
  const [text, setText] = useState(start);
  const [errors, setErrors] = useState([]);
  window.text = () => text;
  window.put = setText;
  window.errors = () => errors;
  const kind = name.startsWith("prompt") ? "prompts" : "tools";
  return html`<main class="guide"><h1>Form</h1>
    <${ArgumentEditor} target=${0} kind=${kind} name=${name} model=${model} text=${text}
      onText=${setText} onErrors=${setErrors} completes=${["language"]} />
  </main>`;
}
const name = decodeURIComponent(location.hash.slice(1));
const { model } = await call("model", { name });
Object.assign(window, { json, models, model, Form, html, render });
document.getElementById("app").replaceChildren();
render(html`<${Page} name=${name} model=${model} start="{}" />`, document.getElementById("app"));
window.isReady = true;
"""


@contextmanager
def form_server(schemas: Mapping[str, Any]) -> Iterator[str]:
    """Serve forms for schemas; yields the address."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "static"
        shutil.copytree(STATIC, copy)
        (copy / "app.js").write_text(APP, encoding="utf-8")
        files = StaticFiles(copy)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = files.find(self.path.partition("?")[0])
                body = b"" if found is None else found.body
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", found.media_type if found else "text/plain")
                self.send_header("Content-Security-Policy", files.policy)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                params = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = msgspec.json.encode(_answer(schemas, unquote(self.path), params))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _answer(schemas: Mapping[str, Any], path: str, params: dict[str, Any]) -> object:
    schema = schemas[params["name"]]
    if path == "/api/model":
        return {"model": build_form(schema)}
    if path == "/api/forms.example":
        return example_for(schema)
    if path == "/api/history.last":
        return {"arguments": '{"last": 1.10}', "recent": []}
    if path == "/api/calls.complete":
        offered = [each for each in ("python", "perl") if each.startswith(params["value"])]
        return {"values": offered, "total": 2, "has_more": False}
    try:
        errors = find_errors(schema, read_text(params["text"]).value)
    except TextFault as fault:
        place = {"line": fault.line, "column": fault.column, "message": fault.message}
        return {"errors": [], "syntax": place}
    return {"errors": errors, "syntax": None}
