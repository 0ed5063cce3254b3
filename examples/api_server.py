"""A server for an HTTP API, made from its OpenAPI document: no tool is written by hand.

    accord list examples/api_server.py
    accord call examples/api_server.py find_book isbn=9780141439518

The API is a small one in this file, so that the example runs without the network. With a real one,
the document is a file, and `base_url` is what the document says.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from accord import Server
from accord.compose import openapi

KEY = "key-of-this-server"
BOOKS: dict[str, dict[str, Any]] = {
    "9780141439518": {"isbn": "9780141439518", "title": "Pride and Prejudice", "copies": 2},
    "9780141439600": {"isbn": "9780141439600", "title": "A Tale of Two Cities", "copies": 0},
}


class Library(BaseHTTPRequestHandler):
    """The API: finds and lends books, for callers with a key."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/books":
            wanted = query.partition("=")[2].lower()
            self.reply(200, [each for each in BOOKS.values() if wanted in each["title"].lower()])
        else:
            book = BOOKS.get(path.rpartition("/")[2])
            self.reply(200 if book else 404, book or {"error": "no such book"})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        book = BOOKS[self.path.split("/")[2]]
        if not book["copies"]:
            return self.reply(409, {"error": "all copies are lent"})
        book["copies"] -= 1
        return self.reply(200, {**book, "reader": asked["reader"]})

    def reply(self, status: int, value: object) -> None:
        if self.headers["X-Key"] != KEY:
            status, value = 401, {"error": "no key"}
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Stay quiet: over stdio, clients would get it as a log of the server."""


def answer(name: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{name}"}
    return {"200": {"description": "fine", "content": {"application/json": {"schema": schema}}}}


ISBN = {"name": "isbn", "in": "path", "required": True, "schema": {"type": "string"}}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Library", "version": "1.0.0"},
    "security": [{"key": []}],
    "paths": {
        "/books": {
            "get": {
                "operationId": "listBooks",
                "summary": "List the books whose title has a word",
                "tags": ["reading"],
                "parameters": [{"name": "word", "in": "query", "schema": {"type": "string"}}],
                "responses": answer("Books"),
            }
        },
        "/books/{isbn}": {
            "get": {
                "operationId": "findBook",
                "summary": "Find one book",
                "tags": ["reading"],
                "parameters": [ISBN],
                "responses": answer("Book"),
            }
        },
        "/books/{isbn}/loans": {
            "post": {
                "operationId": "lendBook",
                "summary": "Lend a copy to a reader",
                "tags": ["lending"],
                "parameters": [ISBN],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["reader"],
                                "properties": {"reader": {"type": "string", "minLength": 1}},
                            }
                        }
                    },
                },
                "responses": answer("Book"),
            }
        },
    },
    "components": {
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
        "schemas": {
            "Book": {
                "type": "object",
                "properties": {
                    "isbn": {"type": "string"},
                    "title": {"type": "string"},
                    "copies": {"type": "integer", "description": "how many can be lent"},
                },
            },
            "Books": {"type": "array", "items": {"$ref": "#/components/schemas/Book"}},
        },
    },
}

library = ThreadingHTTPServer(("127.0.0.1", 0), Library)
threading.Thread(target=library.serve_forever, daemon=True).start()

server = Server("library", version="1.0.0")
server.mount(
    openapi(
        DOCUMENT,
        base_url=f"http://127.0.0.1:{library.server_port}",
        auth={"key": KEY},
    ).rename({"listBooks": "list_books", "findBook": "find_book", "lendBook": "lend_book"})
)

if __name__ == "__main__":
    server.run()
