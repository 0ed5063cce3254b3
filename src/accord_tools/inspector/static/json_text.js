// JSON without loss: numbers keep their text, members keep their order, names may come twice.

/** @typedef {{kind: string, members?: [string, Node][], items?: Node[], value?: string, text?: string}} Node */

const DEEPEST = 1000;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
const WORDS = ["true", "false", "null"];
const HEX = /^[0-9a-fA-F]{4}$/;

/** A text is not JSON; line and column count from 1. */
export class JsonFault extends Error {
  /** @param {string} message @param {string} text @param {number} position */
  constructor(message, text, position) {
    super(message);
    const before = text.slice(0, position);
    this.line = before.split("\n").length;
    this.column = position - before.lastIndexOf("\n");
  }
}

class Reader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  fail(message, position = this.at) {
    return new JsonFault(message, this.text, position);
  }

  skip() {
    for (;;) {
      const code = this.text.charCodeAt(this.at);
      if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return;
      this.at += 1;
    }
  }

  /** @returns {Node} */
  value(depth) {
    this.skip();
    const sign = this.text[this.at];
    if (sign === "{") return this.object(depth + 1);
    if (sign === "[") return this.array(depth + 1);
    if (sign === '"') return { kind: "string", value: this.string() };
    for (const word of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return { kind: word };
      }
    }
    NUMBER.lastIndex = this.at;
    const found = NUMBER.exec(this.text);
    if (found === null) throw this.fail("expected a value");
    this.at = NUMBER.lastIndex;
    return { kind: "number", text: found[0] };
  }

  open(depth) {
    if (depth > DEEPEST) throw this.fail(`nests deeper than ${DEEPEST} levels`);
    this.at += 1;
    this.skip();
  }

  /** Whether another part follows; the closing sign is taken. */
  next(closing) {
    this.skip();
    const sign = this.text[this.at];
    if (sign !== "," && sign !== closing) {
      throw this.fail("expected a comma or a closing bracket");
    }
    this.at += 1;
    this.skip();
    return sign === ",";
  }

  /** @returns {Node} */
  object(depth) {
    this.open(depth);
    /** @type {[string, Node][]} */
    const members = [];
    if (this.text[this.at] === "}") {
      this.at += 1;
      return { kind: "object", members };
    }
    do {
      if (this.text[this.at] !== '"') throw this.fail("expected a name in double quotes");
      const name = this.string();
      this.skip();
      if (this.text[this.at] !== ":") throw this.fail("expected a colon after the name");
      this.at += 1;
      members.push([name, this.value(depth)]);
    } while (this.next("}"));
    return { kind: "object", members };
  }

  /** @returns {Node} */
  array(depth) {
    this.open(depth);
    /** @type {Node[]} */
    const items = [];
    if (this.text[this.at] === "]") {
      this.at += 1;
      return { kind: "array", items };
    }
    do items.push(this.value(depth));
    while (this.next("]"));
    return { kind: "array", items };
  }

  string() {
    const { text } = this;
    const start = this.at;
    const parts = [];
    let from = (this.at += 1);
    for (;;) {
      const code = text.charCodeAt(this.at);
      if (code === 34) break;
      if (code !== code) throw this.fail("this text has no closing quote", start);
      if (code < 32) throw this.fail("write a line break as \\n and a tab as \\t within quotes");
      if (code !== 92) {
        this.at += 1;
        continue;
      }
      parts.push(text.slice(from, this.at), this.escape());
      from = this.at;
    }
    parts.push(text.slice(from, this.at));
    this.at += 1;
    return parts.join("");
  }

  escape() {
    const sign = this.text[this.at + 1];
    if (sign === "u") {
      const digits = this.text.slice(this.at + 2, this.at + 6);
      if (!HEX.test(digits)) throw this.fail("four hexadecimal digits must follow \\u");
      this.at += 6;
      return String.fromCharCode(Number.parseInt(digits, 16));
    }
    if (sign === undefined || !Object.hasOwn(ESCAPES, sign)) {
      throw this.fail("a backslash must be written twice, or begin an escape such as \\n");
    }
    this.at += 2;
    return ESCAPES[sign];
  }
}

/**
 * Read JSON.
 * @param {string} text
 * @returns {Node} an object has members [name, node], an array items, a string a value, a number
 *   its text; true, false and null have their kind alone
 * @throws {JsonFault} the text is not JSON
 */
export function parseJson(text) {
  const reader = new Reader(text);
  const node = reader.value(0);
  reader.skip();
  if (reader.at < text.length) throw reader.fail("there is more text after the value");
  return node;
}

/**
 * Write JSON; with an indent, one member or item on each line.
 * @param {Node} node
 * @param {number} indent
 */
export function printJson(node, indent = 0) {
  const parts = [];
  print(node, indent > 0 ? " ".repeat(indent) : "", "\n", parts);
  return parts.join("");
}

function print(node, indent, line, parts) {
  if (node.kind === "string") {
    parts.push(JSON.stringify(node.value));
    return;
  }
  if (node.kind === "number") {
    parts.push(node.text);
    return;
  }
  if (node.kind !== "object" && node.kind !== "array") {
    parts.push(node.kind);
    return;
  }
  const isObject = node.kind === "object";
  const inner = isObject ? node.members : node.items;
  parts.push(isObject ? "{" : "[");
  const deeper = line + indent;
  inner.forEach((each, index) => {
    if (index > 0) parts.push(",");
    if (indent) parts.push(deeper);
    if (isObject) parts.push(JSON.stringify(each[0]), indent ? ": " : ":");
    print(isObject ? each[1] : each, indent, deeper, parts);
  });
  if (indent && inner.length > 0) parts.push(line);
  parts.push(isObject ? "}" : "]");
}

/** The node of an object's member, the last one of that name; undefined if it has none. */
export function memberOf(node, name) {
  return node?.kind === "object" ? node.members.findLast(([each]) => each === name)?.[1] : undefined;
}
