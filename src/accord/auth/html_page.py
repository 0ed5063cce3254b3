"""The frame of every page that users see while they authorize: HTML and CSS without scripts."""

from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import Final

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1b1f; --soft: #55555f; --ground: #f4f4f7;
  --sheet: #ffffff; --line: #8a8a96; --act: #1f4fd8; --on-act: #ffffff; --alarm: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececf1; --soft: #b4b4c0; --ground: #131316;
  --sheet: #1f1f24; --line: #77778a; --act: #9db7ff; --on-act: #10214f; --alarm: #ffb4ab; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 1rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
main { max-width: 32rem; margin: 5vh auto; padding: 1.5rem; background: var(--sheet);
  border: 1px solid var(--line); border-radius: 0.75rem; }
h1 { margin: 0 0 1rem; font-size: 1.35rem; line-height: 1.3; }
h2 { margin: 1.25rem 0 0.25rem; font-size: 1rem; }
p, ul { margin: 0.25rem 0; } ul { padding-left: 1.25rem; }
.soft { color: var(--soft); } .alarm { color: var(--alarm); font-weight: 600; }
code { font-size: 0.95em; }
label { display: block; margin: 1rem 0 0.25rem; font-weight: 600; }
input { width: 100%; padding: 0.6rem; font: inherit; color: inherit; background: transparent;
  border: 1px solid var(--line); border-radius: 0.4rem; }
.buttons { display: flex; flex-wrap: wrap; gap: 0.75rem; margin-top: 1.5rem; }
button { flex: 1 1 8rem; min-height: 2.75rem; padding: 0.5rem 1rem; font: inherit;
  font-weight: 600; color: var(--ink); background: transparent; cursor: pointer;
  border: 1px solid var(--line); border-radius: 0.4rem; }
button.act { color: var(--on-act); background: var(--act); border-color: var(--act); }
button.plain { flex: none; min-height: 0; padding: 0; border: 0; color: var(--act);
  text-decoration: underline; font-weight: 400; }
a.button { flex: 1 1 8rem; padding: 0.6rem 1rem; text-align: center; font-weight: 600;
  color: var(--on-act); background: var(--act); border-radius: 0.4rem; text-decoration: none; }
a { color: var(--act); }
.foot { margin-top: 1.5rem; }
form.inline { display: inline; }
:focus-visible { outline: 3px solid var(--act); outline-offset: 2px; }
"""
STYLE_SOURCE: Final = f"'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
"""What a Content-Security-Policy has to allow for the style of a page."""


def html_page(title: str, body: str) -> str:
    """Return a whole page; the body is HTML, the title text."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="robots" content="noindex">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
