// What a call brought: content, structured content, messages, errors, and the answer as it came.
import { html, useMemo, useState } from "./preact.js";
import { JsonView, memberOf, textAt, useJson } from "./json_view.js";
import { parseJson, printJson } from "./json_text.js";
import { Media } from "./media.js";
import { go, place } from "./route.js";
import {
  Button,
  Copy,
  Empty,
  Facts,
  LongText,
  SafeLink,
  Sign,
  Tabs,
  Text,
  formatSeconds,
  formatSize,
} from "./ui.js";

const MOST_BLOCKS = 50;
const JSON_TYPE = /^application\/([\w.-]+\+)?json\b/;

function looksLikeJson(text) {
  return /^\s*[[{]/.test(text) && text.length < 2_000_000;
}

function parses(text) {
  try {
    parseJson(text);
    return true;
  } catch {
    return false;
  }
}

/** A text that may hold JSON: as a tree, with a switch to the text. */
export function TextBlock({ text, type = "", label = "Text" }) {
  const isJson = useMemo(() => looksLikeJson(text) && parses(text), [text]);
  const [isTree, setTree] = useState(isJson && JSON_TYPE.test(type));
  return html`<div class="block">
    ${isTree ? html`<${JsonView} text=${text} />` : html`<${LongText} label=${label}>${text}<//>`}
    <div class="block-tools">
      <${Copy} text=${text} />
      ${isJson &&
      html`<${Button} kind="plain small" aria-pressed=${isTree ? "true" : "false"} onClick=${() => setTree(!isTree)}>
        as JSON
      <//>`}
    </div>
  </div>`;
}

function ResourceLink({ node }) {
  const uri = textAt(node, "uri") ?? "";
  return html`<div class="block">
    <p>
      <b><${Text}>${textAt(node, "title") ?? textAt(node, "name") ?? uri}<//></b>
      <span class="quiet"> <${Text}>${textAt(node, "mimeType") ?? ""}<//></span>
    </p>
    ${textAt(node, "description") && html`<p><${Text}>${textAt(node, "description")}<//></p>`}
    <p>
      <${SafeLink} href=${uri} />
      <${Button} kind="plain small" onClick=${() => go(place().target, "resources", uri)}>
        Read it here
      <//>
    </p>
  </div>`;
}

/** The contents of one resource: text or bytes. */
export function ResourceContents({ node }) {
  const text = textAt(node, "text");
  const blob = textAt(node, "blob");
  const type = textAt(node, "mimeType") ?? "";
  return html`<div class="block">
    <p class="quiet"><${Text}>${textAt(node, "uri") ?? ""}<//> <${Text}>${type}<//></p>
    ${text !== undefined && html`<${TextBlock} text=${text} type=${type} label="Contents" />`}
    ${blob !== undefined && html`<${Media} base64=${blob} type=${type} />`}
    ${text === undefined && blob === undefined && html`<${Rest} node=${node} />`}
  </div>`;
}

function Rest({ node }) {
  return html`<${JsonView} text=${printJson(node, 2)} />`;
}

/** One block of content. */
export function ContentBlock({ node }) {
  const type = textAt(node, "type");
  if (type === "text" && textAt(node, "text") !== undefined) {
    return html`<${TextBlock} text=${textAt(node, "text")} />`;
  }
  if ((type === "image" || type === "audio") && textAt(node, "data") !== undefined) {
    return html`<div class="block">
      <${Media} base64=${textAt(node, "data")} type=${textAt(node, "mimeType") ?? ""} />
    </div>`;
  }
  if (type === "resource_link") return html`<${ResourceLink} node=${node} />`;
  if (type === "resource" && memberOf(node, "resource")) {
    return html`<${ResourceContents} node=${memberOf(node, "resource")} />`;
  }
  return html`<${Rest} node=${node} />`;
}

function Blocks({ nodes, Each }) {
  const [count, setCount] = useState(MOST_BLOCKS);
  if (nodes.length === 0) return html`<${Empty}>The content is empty.<//>`;
  return html`<div class="blocks">
    ${nodes.slice(0, count).map((node, index) => html`<${Each} key=${index} node=${node} />`)}
    ${nodes.length > count &&
    html`<${Button} onClick=${() => setCount(count * 2)}>
      Show more (${nodes.length - count} left)
    <//>`}
  </div>`;
}

function PromptMessage({ node }) {
  const content = memberOf(node, "content");
  const nodes = content?.kind === "array" ? content.items : content ? [content] : [];
  return html`<div class="message">
    <h3><${Text}>${textAt(node, "role") ?? "no role"}<//></h3>
    <${Blocks} nodes=${nodes} Each=${ContentBlock} />
  </div>`;
}

const PARTS = [
  ["content", "Content", ContentBlock],
  ["contents", "Contents", ResourceContents],
  ["messages", "Messages", PromptMessage],
];

function SchemaErrors({ errors }) {
  if (!errors?.length) return null;
  return html`<div class="note is-fail">
    <p><${Sign} severity="fail" /> The structured content does not fit the output schema:</p>
    <ul>
      ${errors.map(
        (each) => html`<li><code>${each.pointer || "/"}</code> <${Text}>${each.message}<//></li>`,
      )}
    </ul>
  </div>`;
}

function tabsOf(node, call) {
  const tabs = [];
  for (const [name, title, Each] of PARTS) {
    const found = memberOf(node, name);
    if (found?.kind === "array") {
      tabs.push({ id: name, title, body: () => html`<${Blocks} nodes=${found.items} Each=${Each} />` });
    }
  }
  const structured = memberOf(node, "structuredContent");
  if (structured) {
    const marked = (call.schema_errors ?? []).map((each) => each.pointer);
    const text = printJson(structured, 2);
    tabs.push({
      id: "structured",
      title: "Structured",
      body: () => html`<${JsonView} text=${text} marked=${marked} />`,
    });
  }
  tabs.push({ id: "answer", title: "Answer", body: () => html`<${JsonView} text=${call.response} />` });
  if (call.request) {
    tabs.push({ id: "request", title: "Request", body: () => html`<${JsonView} text=${call.request} />` });
  }
  return tabs;
}

const OUTCOMES = {
  running: ["running", "running"],
  done: ["pass", "done"],
  error: ["fail", "error"],
  cancelled: ["info", "cancelled"],
  timeout: ["fail", "no answer in time"],
  lost: ["fail", "connection lost"],
};

/** How a call ended, as a sign. */
export function Outcome({ call }) {
  if (call.state === "done" && call.is_error) {
    return html`<${Sign} severity="warn" word="the tool reports an error" />`;
  }
  const [severity, word] = OUTCOMES[call.state] ?? ["info", call.state];
  return html`<${Sign} severity=${severity} word=${word} />`;
}

/** The result of a call, as calls.get or history.get describes it. */
export function Result({ call }) {
  const { node } = useJson(call.response);
  const facts = [
    ["outcome", html`<${Outcome} call=${call} />`],
    ["time", formatSeconds(call.seconds)],
    ["size", formatSize(call.size)],
    ["failed", call.fail ? html`<${Sign} severity="fail" count=${call.fail} word="clauses" />` : ""],
    ["warned", call.warn ? html`<${Sign} severity="warn" count=${call.warn} word="clauses" />` : ""],
  ];
  return html`<div class="result">
    <${Facts} facts=${facts} />
    ${call.error &&
    html`<div class="note is-fail">
      <p>
        <${Sign} severity="fail" />
        ${call.error.code != null && html` <code>${call.error.code}</code>`}
        ${" "}<${Text} lines>${call.error.message}<//>
      </p>
      ${call.error.explanation && html`<p><${Text} lines>${call.error.explanation}<//></p>`}
    </div>`}
    <${SchemaErrors} errors=${call.schema_errors} />
    ${call.response != null && html`<${Tabs} label="Result" tabs=${tabsOf(node, call)} />`}
  </div>`;
}
