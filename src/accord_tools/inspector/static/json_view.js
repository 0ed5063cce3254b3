// JSON as a tree: opens and closes, marks places, copies values and paths. Numbers stay as sent.
import { html, useEffect, useMemo, useState } from "./preact.js";
import { parseJson, printJson } from "./json_text.js";
import { Button, Copy, LongText, Text } from "./ui.js";

// Nodes up to this depth are open at first, unless they have very many members.
const OPEN_DEPTH = 3;
const OPEN_MEMBERS = 60;
const PAGE = 200;
const LONG = 600;

/** The JSON pointer of a member. */
export function pointerTo(parent, name) {
  return `${parent}/${String(name).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** The node at a JSON pointer; undefined if the document has no such place. */
export function nodeAt(node, pointer) {
  let found = node;
  for (const raw of pointer.split("/").slice(1)) {
    const part = raw.replaceAll("~1", "/").replaceAll("~0", "~");
    if (found?.kind === "object") found = found.members.find(([name]) => name === part)?.[1];
    else if (found?.kind === "array") found = found.items[Number(part)];
    else return undefined;
  }
  return found;
}

/** A member of an object node; undefined if it is missing. */
export function memberOf(node, name) {
  return node?.kind === "object" ? node.members.find(([each]) => each === name)?.[1] : undefined;
}

/** The text of a string member; undefined if it is missing or another kind. */
export function textAt(node, name) {
  const found = memberOf(node, name);
  return found?.kind === "string" ? found.value : undefined;
}

function childrenOf(node) {
  if (node.kind === "object") return node.members;
  if (node.kind === "array") return node.items.map((item, index) => [index, item]);
  return [];
}

function summaryOf(node) {
  const count = childrenOf(node).length;
  if (node.kind === "object") return count ? `{ ${count} }` : "{}";
  return count ? `[ ${count} ]` : "[]";
}

function LongString({ value }) {
  const [isWhole, setWhole] = useState(value.length <= LONG);
  if (isWhole && value.length > LONG) return html`<${LongText} label="Value">${value}<//>`;
  return html`<span class="json-string">"<${Text}>${value.slice(0, LONG)}<//>${
    isWhole
      ? '"'
      : html`… <${Button} kind="plain small" onClick=${() => setWhole(true)}>
          whole text (${value.length} characters)
        <//>`
  }</span>`;
}

function Scalar({ node }) {
  if (node.kind === "string") return html`<${LongString} value=${node.value} />`;
  if (node.kind === "number") return html`<span class="json-number">${node.text}</span>`;
  return html`<span class="json-word">${node.kind}</span>`;
}

function Label({ name, isIndex }) {
  if (name === null) return null;
  return html`<span class=${isIndex ? "json-index" : "json-name"}>
    ${isIndex ? name : html`<${Text}>${name}<//>`}:
  </span>`;
}

function Branch({ name, isIndex, node, pointer, depth, marked }) {
  const children = childrenOf(node);
  const isOnWay = marked.some((each) => each === pointer || each.startsWith(pointer + "/"));
  const isSmall = depth < OPEN_DEPTH && children.length <= OPEN_MEMBERS;
  const [isOpen, setOpen] = useState(depth === 0 || isSmall || isOnWay);
  const [count, setCount] = useState(PAGE);
  useEffect(() => {
    if (isOnWay) setOpen(true);
  }, [isOnWay]);
  if (children.length === 0) {
    return html`<${Label} name=${name} isIndex=${isIndex} />
      <span class="json-word">${summaryOf(node)}</span>`;
  }
  return html`<details open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>
      <${Label} name=${name} isIndex=${isIndex} />
      <span class="quiet">${summaryOf(node)}</span>
    </summary>
    ${isOpen &&
    html`<ul>
        ${children.slice(0, count).map(
          ([key, child]) => html`<${Node}
            key=${key}
            name=${key}
            isIndex=${node.kind === "array"}
            node=${child}
            pointer=${pointerTo(pointer, key)}
            depth=${depth + 1}
            marked=${marked}
          />`,
        )}
      </ul>
      ${children.length > count &&
      html`<${Button} kind="plain small" onClick=${() => setCount(count + PAGE * 5)}>
        Show more (${children.length - count} left)
      <//>`}`}
  </details>`;
}

function Node({ name = null, isIndex = false, node, pointer, depth, marked }) {
  const isMarked = marked.includes(pointer);
  const isBranch = node.kind === "object" || node.kind === "array";
  const Element = depth === 0 ? "div" : "li";
  return html`<${Element} class=${isMarked ? "json-marked" : undefined} data-pointer=${isMarked ? pointer : undefined}>
    ${isMarked && html`<span class="sign is-fail"><span aria-hidden="true">✗</span> here </span>`}
    ${isBranch
      ? html`<${Branch} ...${{ name, isIndex, node, pointer, depth, marked }} />`
      : html`<${Label} name=${name} isIndex=${isIndex} /> <${Scalar} node=${node} />`}
    ${depth > 0 &&
    html`<span class="json-tools">
      <${Copy} label="value" title="Copy the value" text=${() => valueText(node)} />
      <${Copy} label="path" title="Copy the JSON pointer" text=${pointer} />
    </span>`}
  </${Element}>`;
}

function valueText(node) {
  return node.kind === "string" ? node.value : printJson(node, 2);
}

/** Parse a text once; returns { node } or { error }. */
export function useJson(text) {
  return useMemo(() => {
    if (text === null || text === undefined) return { node: null };
    try {
      return { node: parseJson(text) };
    } catch (error) {
      return { node: null, error };
    }
  }, [text]);
}

/**
 * A JSON text as a tree. A text that is not JSON is shown as it is.
 * @param {{text: string, marked?: string[]}} props `marked` are JSON pointers to point at
 */
export function JsonView({ text, marked = [] }) {
  const { node, error } = useJson(text);
  if (error || !node) return html`<${LongText}>${text ?? ""}<//>`;
  return html`<div class="json">
    <div class="json-whole"><${Copy} text=${() => printJson(node, 2)} title="Copy the whole" /></div>
    <${Node} node=${node} pointer="" depth=${0} marked=${marked} />
  </div>`;
}
