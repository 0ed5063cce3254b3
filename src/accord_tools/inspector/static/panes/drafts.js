// What was typed into forms: kept while the page is open, so that no list refresh loses it.
import { useState } from "../preact.js";

const HANDED = "accord-arguments";
const KINDS = { tools: "tool", resources: "resource", templates: "resource", prompts: "prompt" };
const drafts = new Map();

/** Arguments that the history hands over for editing, once. */
function takeHanded(target, kind, name) {
  let handed;
  try {
    handed = JSON.parse(sessionStorage.getItem(HANDED) ?? "null");
  } catch {
    return undefined;
  }
  if (handed?.target !== target || handed.kind !== KINDS[kind] || handed.name !== name) {
    return undefined;
  }
  sessionStorage.removeItem(HANDED);
  return handed.arguments;
}

/** A value kept for one entry of one server: [value, setValue]. */
export function useDraft(target, kind, name, part, initial) {
  const key = JSON.stringify([target, kind, name, part]);
  const [, redraw] = useState(0);
  if (part === "text") {
    const handed = takeHanded(target, kind, name);
    if (typeof handed === "string") drafts.set(key, handed);
  }
  const setValue = (value) => {
    drafts.set(key, value);
    redraw((count) => count + 1);
  };
  return [drafts.has(key) ? drafts.get(key) : initial, setValue];
}
