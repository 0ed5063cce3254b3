// Fields with one control: texts, numbers, choices, JSON. What is typed is never lost.
import { html, useEffect, useRef, useState } from "../preact.js";
import { parseJson, printJson } from "../json_text.js";
import { shown } from "../text.js";
import { Button, ErrorNote } from "../ui.js";
import { NULL, choiceOf, readText } from "./model.js";
import { Frame, Presence, bind, focusIn } from "./frame.js";

const MOST_BYTES = 4_000_000;
const PIECE = 0x8000;
const WAIT = 150;
const MOST_COMPLETIONS = 100;
const KEYBOARDS = { email: "email", uri: "url", tel: "tel" };

/** The values that the server offers for what was typed so far. */
function useCompletion(form, name, isOffered, typed) {
  const [values, setValues] = useState([]);
  useEffect(() => {
    if (!isOffered || typed === undefined) return undefined;
    let isCurrent = true;
    const timer = setTimeout(async () => {
      try {
        const found = await form.complete(name, typed);
        if (isCurrent) setValues((found?.values ?? []).slice(0, MOST_COMPLETIONS));
      } catch {
        // A form works without completion; the message is in the log.
        if (isCurrent) setValues([]);
      }
    }, WAIT);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [isOffered, name, typed]);
  return values;
}

function File({ name, onNode }) {
  const [problem, setProblem] = useState("");
  const input = useRef(null);
  const take = async () => {
    const file = input.current.files[0];
    if (!file) return;
    if (file.size > MOST_BYTES) {
      setProblem(`The file has ${file.size} bytes; the form takes ${MOST_BYTES} at most.`);
      return;
    }
    const bytes = new Uint8Array(await file.arrayBuffer());
    const parts = [];
    for (let at = 0; at < bytes.length; at += PIECE) {
      parts.push(String.fromCharCode(...bytes.subarray(at, at + PIECE)));
    }
    setProblem("");
    onNode({ kind: "string", value: btoa(parts.join("")) });
  };
  return html`<div class="form-file">
    <input type="file" ref=${input} aria-label=${`File for ${shown(name)}, sent as base64`} onChange=${take} />
    ${problem && html`<${ErrorNote} error=${problem} />`}
  </div>`;
}

/** A text; a value that is not a text is shown as JSON until something is typed. */
export function TextField({ form, name, pointer, model, node, onNode, isFixed }) {
  const isText = node?.kind === "string";
  const isOther = node !== undefined && !isText && !(node.kind === "null" && model.nullable);
  const value = isText ? node.value : isOther ? printJson(node) : "";
  // A field of one line would drop line ends.
  const [isTall, setTall] = useState(model.kind === "multiline");
  const isLong = isTall || /[\n\r]/.test(value);
  if (isLong && !isTall) setTall(true);
  const bound = bind(form, pointer, model);
  const isOffered = Boolean(form.complete && form.completes.includes(name) && pointer.lastIndexOf("/") === 0);
  const [typed, setTyped] = useState(undefined);
  const offered = useCompletion(form, name, isOffered, typed);
  const onInput = (event) => {
    const text = event.currentTarget.value;
    setTyped(text);
    const isLeftOut = text === "" && !model.required && !isFixed;
    onNode(isLeftOut ? undefined : { kind: "string", value: text });
  };
  const common = {
    ...bound,
    value,
    onInput,
    spellcheck: false,
    placeholder: node?.kind === "null" ? "null" : placeholderOf(model, node),
  };
  const control = isLong
    ? html`<textarea ...${common} rows="4"></textarea>`
    : html`<input
          type=${model.format === "password" ? "password" : "text"}
          autocomplete="off"
          inputmode=${KEYBOARDS[model.format]}
          list=${isOffered ? bound.id + "-list" : undefined}
          onFocus=${() => isOffered && setTyped(value)}
          ...${common}
        />
        ${isOffered &&
        html`<datalist id=${bound.id + "-list"}>
          ${offered.map((each) => html`<option value=${each}>${shown(each)}</option>`)}
        </datalist>`}`;
  const presence = html`<${Presence} form=${form} name=${name} model=${model} node=${node} onNode=${onNode} isFixed=${isFixed} pointer=${pointer} />`;
  return html`<${Frame} form=${form} name=${name} pointer=${pointer} model=${model} presence=${presence}>
    <div class="form-line">
      ${control}
      ${!isLong &&
      mayHaveLines(model) &&
      html`<${Button} class="plain small" title="Write several lines" aria-label=${`Several lines for ${shown(name)}`} onClick=${() => {
        setTall(true);
        focusIn(bound.id);
      }}>↵ lines<//>`}
    </div>
    ${isOther && html`<p class="hint">This value is JSON of another type; typing replaces it by a text.</p>`}
    ${model.encoding === "base64" && html`<${File} name=${name} onNode=${onNode} />`}
  <//>`;
}

/** Whether line ends make sense in a text; the schema says what most texts look like. */
function mayHaveLines(model) {
  return !model.format && !(model.limits ?? []).some((each) => each.startsWith("matches "));
}

function placeholderOf(model, node) {
  return node === undefined && model.default != null ? `default: ${shown(model.default)}` : undefined;
}

/**
 * A text that is read as JSON, and is a JSON string where it is not JSON. What was typed is shown
 * as long as the value is what was made of it.
 */
function useTyped(node, isOptional, onNode) {
  const [draft, setDraft] = useState(null);
  const printed = node === undefined ? null : printJson(node);
  const isOwn = draft !== null && draft.printed === printed;
  const type = (text) => {
    let next;
    let fault = null;
    if (text.trim() !== "") {
      try {
        next = parseJson(text);
      } catch (error) {
        fault = error;
        next = { kind: "string", value: text };
      }
    } else if (!isOptional) {
      next = NULL;
    }
    setDraft({ text, fault, printed: next === undefined ? null : printJson(next) });
    onNode(next);
  };
  return { text: isOwn ? draft.text : null, fault: isOwn ? draft.fault : null, type };
}

/** A number stays the text that was typed. */
export function NumberField({ form, name, pointer, model, node, onNode, isFixed }) {
  const bound = bind(form, pointer, model);
  const typed = useTyped(node, !isFixed, onNode);
  const isNull = node?.kind === "null" && model.nullable;
  const value = node === undefined || isNull ? "" : printJson(node);
  const presence = html`<${Presence} form=${form} name=${name} model=${model} node=${node} onNode=${onNode} isFixed=${isFixed} pointer=${pointer} />`;
  return html`<${Frame} form=${form} name=${name} pointer=${pointer} model=${model} presence=${presence}>
    <input
      ...${bound}
      type="text"
      inputmode=${model.kind === "integer" ? "numeric" : "decimal"}
      autocomplete="off"
      class="mono"
      value=${typed.text ?? value}
      placeholder=${isNull ? "null" : placeholderOf(model, node)}
      onInput=${(event) => typed.type(event.currentTarget.value)}
    />
    ${typed.fault && html`<p class="hint">This is not a number; it is sent as a text.</p>`}
  <//>`;
}

/** Any JSON. */
export function JsonField({ form, name, pointer, model, node, onNode, isFixed }) {
  const bound = bind(form, pointer, model);
  const typed = useTyped(node, !isFixed, onNode);
  const value = typed.text ?? (node === undefined ? "" : printJson(node, 2));
  const presence = html`<${Presence} form=${form} name=${name} model=${model} node=${node} onNode=${onNode} isFixed=${isFixed} pointer=${pointer} />`;
  return html`<${Frame} form=${form} name=${name} pointer=${pointer} model=${model} presence=${presence}>
    <textarea
      ...${bound}
      rows=${Math.min(12, Math.max(2, value.split("\n").length))}
      spellcheck=${false}
      value=${value}
      placeholder=${placeholderOf(model, node) ?? "JSON"}
      onInput=${(event) => typed.type(event.currentTarget.value)}
    ></textarea>
    ${typed.fault &&
    html`<p class="hint">
      ${`Not JSON (line ${typed.fault.line}, column ${typed.fault.column}: ${typed.fault.message}); it is sent as a text.`}
    </p>`}
  <//>`;
}

const ABSENT = "absent";
const OTHER = "other";

/** A select whose entries are values, with entries for null, for nothing and for another value. */
function ValueSelect({ form, pointer, model, node, onNode, isFixed, entries, chosen }) {
  const isNull = node?.kind === "null" && chosen < 0;
  const current = node === undefined ? ABSENT : chosen >= 0 ? String(chosen) : isNull && model.nullable ? "null" : OTHER;
  const absent = model.required ? "choose" : "left out";
  const standard = model.default == null ? "" : ` (default: ${shown(model.default)})`;
  const onChange = (event) => {
    const { value } = event.currentTarget;
    if (value === ABSENT) onNode(undefined);
    else if (value === "null") onNode(NULL);
    else if (value !== OTHER) onNode(entries[Number(value)].node);
  };
  return html`<select ...${bind(form, pointer, model)} value=${current} onChange=${onChange}>
    ${(!isFixed || current === ABSENT) && html`<option value=${ABSENT}>${absent}${standard}</option>`}
    ${entries.map((each, index) => html`<option key=${index} value=${String(index)}>${each.title}</option>`)}
    ${model.nullable && html`<option value="null">null</option>`}
    ${current === OTHER && html`<option value=${OTHER}>${shown(printJson(node)).slice(0, 80)} (another value)</option>`}
  </select>`;
}

const BOOLEANS = [
  { title: "true", node: { kind: "true" } },
  { title: "false", node: { kind: "false" } },
];

export function BooleanField(props) {
  const { form, name, pointer, model, node } = props;
  const chosen = BOOLEANS.findIndex((each) => each.node.kind === node?.kind);
  return html`<${Frame} form=${form} name=${name} pointer=${pointer} model=${model}>
    <${ValueSelect} ...${props} entries=${BOOLEANS} chosen=${chosen} />
  <//>`;
}

export function ChoiceField(props) {
  const { form, name, pointer, model, node } = props;
  const entries = model.choices.map((each) => ({
    title: shown(each.title || '""').slice(0, 120),
    node: readText(each.value) ?? NULL,
  }));
  return html`<${Frame} form=${form} name=${name} pointer=${pointer} model=${model}>
    <${ValueSelect} ...${props} entries=${entries} chosen=${node === undefined ? -1 : choiceOf(model, node)} />
  <//>`;
}

const NULLS = [{ title: "null", node: NULL }];

export function NullField(props) {
  const { form, name, pointer, model, node } = props;
  return html`<${Frame} form=${form} name=${name} pointer=${pointer} model=${model}>
    <${ValueSelect} ...${props} model=${{ ...model, nullable: false }} entries=${NULLS} chosen=${node?.kind === "null" ? 0 : -1} />
  <//>`;
}
