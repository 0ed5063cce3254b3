// What the page says when there is nothing to inspect.
import { html } from "../preact.js";

/** No target was named: explain the command line; nothing can be launched from here. */
export function Guide({ children }) {
  return html`<main id="main" tabindex="-1" class="guide">
    <h1>No server yet</h1>
    <p>Name a server on the command line, then this page explores it:</p>
    <pre>
accord inspect https://example.com/mcp
accord inspect server.py
accord inspect package.module:server
accord inspect -- uvx some-server --option
accord inspect --trace session.jsonl</pre
    >
    <p>For safety this page never launches a command by itself. All options: <code>accord inspect --help</code>.</p>
    ${children}
  </main>`;
}

/** The address has no key, or the key of an earlier launch. */
export function NoKey({ isWrong = false }) {
  return html`<main id="main" class="guide">
    <h1>${isWrong ? "This key is not valid" : "A key is missing"}</h1>
    <p>
      ${isWrong
        ? "accord inspect was started again since this page was opened, and has a new key."
        : "This page needs the key that accord inspect printed when it started."}
    </p>
    <p>Open the whole address that the terminal shows. It ends in <code>#key=</code> and the key.</p>
  </main>`;
}
