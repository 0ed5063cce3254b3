// What the models of a form mean for values. No part of this draws.
import { memberOf, parseJson, printJson } from "../json_text.js";

/** @typedef {any} Node as parseJson returns it */

const LONGEST_CHAIN = 20;
const DEEPEST = 6;
const FIRST_ITEMS = 5;

export const NULL = { kind: "null" };

/** The node of a text, or undefined where the text is blank or not JSON. */
export function readText(text) {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** The model that a reference leads to; what the reference says of itself goes first. */
export function resolve(model, defs) {
  let found = model;
  for (let count = 0; found.kind === "ref" && count < LONGEST_CHAIN; count += 1) {
    const target = Object.hasOwn(defs, found.ref) ? defs[found.ref] : { kind: "json" };
    const { kind, ref, ...own } = found;
    found = { ...target, ...own };
  }
  return found.kind === "ref" ? { ...found, kind: "json" } : found;
}

/**
 * The value that a field starts with when it is required: its default, the one value that fits, or
 * an empty one. Undefined where there is no empty value, as for numbers.
 * @returns {Node | undefined}
 */
export function initialNode(given, defs, path = []) {
  if (given.kind === "ref" && path.includes(given.ref)) return undefined;
  const model = resolve(given, defs);
  const deeper = given.kind === "ref" ? [...path, given.ref] : path;
  const fixed = readText(model.const ?? model.default ?? "");
  if (fixed) return fixed;
  switch (model.kind) {
    case "text":
    case "multiline":
      return { kind: "string", value: "" };
    case "null":
      return NULL;
    case "choice":
      return model.multiple ? { kind: "array", items: [] } : undefined;
    case "list":
      return { kind: "array", items: [] };
    case "tuple":
      return {
        kind: "array",
        items: (model.prefix ?? []).map((each) => initialNode(each, defs, deeper) ?? NULL),
      };
    case "map":
      return { kind: "object", members: [] };
    case "object":
      return { kind: "object", members: initialMembers(model, defs, deeper) };
    case "union":
      return initialOption(model.options[0].model, defs, deeper);
    default:
      return undefined;
  }
}

/** What an option of a union starts with: also the member that marks it, required or not. */
export function initialOption(given, defs, path = []) {
  const model = resolve(given, defs);
  let node = initialNode(given, defs, path);
  if (model.kind !== "object" || node?.kind !== "object") return node;
  for (const field of model.fields ?? []) {
    const tag = readText(field.model.const ?? "");
    if (tag && !memberOf(node, field.name)) node = withMember(node, model.fields, field.name, tag);
  }
  return node;
}

/** @returns {[string, Node][]} */
function initialMembers(model, defs, path) {
  /** @type {[string, Node][]} */
  const members = [];
  for (const field of model.fields ?? []) {
    if (!field.model.required) continue;
    const node = initialNode(field.model, defs, path);
    if (node !== undefined) members.push([field.name, node]);
  }
  return members;
}

/** The text that a form starts with. */
export function initialText(model) {
  const node = initialNode(model, model.defs ?? {});
  return node === undefined ? "" : printJson(node, 2);
}

/** A value for a place that cannot be left out, such as an item of a list. @returns {Node} */
export function someNode(given, defs) {
  const model = resolve(given, defs);
  const node = initialNode(given, defs);
  if (node !== undefined) return node;
  if (model.kind === "number" || model.kind === "integer") return { kind: "number", text: "0" };
  if (model.kind === "boolean") return { kind: "false" };
  if (model.kind === "choice") return readText(model.choices[0]?.value ?? "") ?? NULL;
  return NULL;
}

/** Whether two values are the same, but for spaces. */
export function isSame(one, other) {
  if (one === undefined || other === undefined) return one === other;
  return one.kind === other.kind && printJson(one) === printJson(other);
}

/** The index of the choice that a value is; -1 if it is another one. */
export function choiceOf(model, node) {
  return (model.choices ?? []).findIndex((each) => isSame(readText(each.value), node));
}

/** The index of the option of a union that a value fits best. */
export function optionOf(model, node, defs) {
  let best = 0;
  let most = -1;
  model.options.forEach((option, index) => {
    const score = rate(option.model, node, defs, 0);
    if (score > most) [best, most] = [index, score];
  });
  return best;
}

const SCALARS = { text: ["string"], multiline: ["string"], boolean: ["true", "false"], null: ["null"] };

/** How well a value fits a model: 0 not at all. */
function rate(given, node, defs, depth) {
  const model = resolve(given, defs);
  if (depth > DEEPEST) return 0.25;
  if (model.nullable && node.kind === "null") return 1;
  if (SCALARS[model.kind]) return SCALARS[model.kind].includes(node.kind) ? 2 : 0;
  switch (model.kind) {
    case "number":
      return node.kind === "number" ? 2 : 0;
    case "integer":
      return node.kind !== "number" ? 0 : /^-?[0-9]+$/.test(node.text) ? 3 : 0.5;
    case "choice":
      if (model.multiple) return node.kind === "array" ? rateItems(model, node) : 0;
      return choiceOf(model, node) >= 0 ? 3 : 0;
    case "list":
      return node.kind === "array" ? rateList(model, node, defs, depth) : 0;
    case "tuple":
      return node.kind === "array" ? 1 : 0;
    case "map":
    case "object":
      return node.kind === "object" ? rateObject(model, node, defs, depth) : 0;
    case "union":
      return Math.max(...model.options.map((each) => rate(each.model, node, defs, depth + 1)));
    default:
      return 0.25;
  }
}

function rateItems(model, node) {
  return node.items.every((each) => choiceOf(model, each) >= 0) ? 3 : 1;
}

function rateList(model, node, defs, depth) {
  const first = node.items.slice(0, FIRST_ITEMS);
  const fits = first.every((each) => !model.items || rate(model.items, each, defs, depth + 1) > 0.5);
  return fits ? 2 : 1;
}

function rateObject(model, node, defs, depth) {
  let score = 1;
  for (const { name, model: inner } of model.fields ?? []) {
    const member = memberOf(node, name);
    if (member === undefined) {
      if (inner.required) score -= 0.3;
      continue;
    }
    const found = rate(inner, member, defs, depth + 1);
    if (found === 0 && resolve(inner, defs).const != null) return 0.1;
    score += found > 0 ? 1 : -0.2;
  }
  const known = new Set((model.fields ?? []).map(({ name }) => name));
  const others = node.members.filter(([name]) => !known.has(name)).length;
  return Math.max(0.2, score - (model.closed ? 0.3 * others : 0));
}

/** A JSON Pointer for one part more. */
export function deeper(pointer, part) {
  return `${pointer}/${String(part).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** A text as a part of an id: letters, digits, dashes and codes. */
export function idOf(pointer) {
  return pointer.replace(/[^A-Za-z0-9-]/g, (each) => `_${each.charCodeAt(0).toString(16)}_`);
}

/** The members of an object with one of them set, or left out if the node is undefined. */
export function withMember(node, fields, name, member) {
  const members = node?.kind === "object" ? [...node.members] : [];
  const at = members.findLastIndex(([each]) => each === name);
  if (member === undefined) {
    return { kind: "object", members: members.filter(([each]) => each !== name) };
  }
  if (at >= 0) {
    members[at] = [name, member];
    return { kind: "object", members };
  }
  // New members stand in the order of the schema.
  const order = new Map(fields.map((each, index) => [each.name, index]));
  const own = order.get(name) ?? Infinity;
  const before = members.findIndex(([each]) => (order.get(each) ?? -1) > own);
  members.splice(before < 0 ? members.length : before, 0, [name, member]);
  return { kind: "object", members };
}

const EXAMPLES = {
  date: "such as 2025-01-31",
  "date-time": "such as 2025-01-31T12:00:00Z",
  time: "such as 12:00:00Z",
  duration: "such as P1DT2H",
  email: "such as ada@example.com",
  uri: "such as https://example.com/",
  uuid: "such as 00000000-0000-4000-8000-000000000000",
  ipv4: "such as 127.0.0.1",
  ipv6: "such as ::1",
};

/** What a field takes, in a few words; that it takes text says the field itself. */
export function describeModel(model) {
  const kind = {
    text: model.encoding || model.format || "",
    multiline: model.format || "",
    json: "any JSON",
    choice: model.multiple ? "any of these" : "",
    map: "names and values",
    union: "one of several",
    boolean: "",
  }[model.kind];
  const example = Object.hasOwn(EXAMPLES, model.format ?? "") ? EXAMPLES[model.format] : "";
  return [
    model.required ? "required" : "",
    kind ?? model.kind,
    model.examples?.length > 0 ? "" : example,
    ...(model.limits ?? []),
    model.deprecated ? "deprecated" : "",
    model.read_only ? "read only" : "",
  ].filter(Boolean);
}
