// What stands around each field: its label, what it takes, whether it is sent, its errors.
import { html } from "../preact.js";
import { Button, Text } from "../ui.js";
import { shown } from "../text.js";
import { NULL, describeModel, idOf, initialNode, isSame, readText } from "./model.js";

/** The errors at exactly this place. */
export function errorsAt(form, pointer) {
  return form.errors.get(pointer) ?? [];
}

/** The attributes that bind a control to its label, description and errors. */
export function bind(form, pointer, model) {
  const id = form.id(pointer);
  const isWrong = errorsAt(form, pointer).length > 0;
  const described = [id + "-facts", hasHint(model) && id + "-hint", isWrong && id + "-error"];
  return {
    id,
    "aria-describedby": described.filter(Boolean).join(" "),
    "aria-invalid": isWrong ? "true" : undefined,
    "aria-required": model.required ? "true" : undefined,
  };
}

const CONTROLS = "input:not([type=file]),select,textarea,button:not(:disabled)";

/** Focus an element, or the first control in it. */
export function focusControl(element) {
  (element?.matches(CONTROLS) ? element : (element?.querySelector(CONTROLS) ?? element))?.focus();
}

/** Focus what has an id, after the drawing that a change of state has asked for. */
export function focusIn(id) {
  queueMicrotask(() => focusControl(document.getElementById(id)));
}

function hasHint(model) {
  return Boolean(model.description || model.note || model.examples?.length);
}

/** The name of a field, and its title where that says more. */
export function Label({ name, model }) {
  const isTitled = model.title && model.title.toLowerCase() !== String(name).toLowerCase();
  return html`<b class="form-name"><${Text}>${name === "" ? '""' : String(name)}<//></b>${isTitled &&
    html` <span class="form-title"><${Text}>${model.title}<//></span>`}`;
}

/** What a field takes. */
export function FieldFacts({ id, model }) {
  return html`<span class="hint" id=${id + "-facts"}
    ><${Text}>${describeModel(model).join(", ")}<//></span
  >`;
}

/** Description, note, examples and errors. */
export function Notes({ form, pointer, model }) {
  const id = form.id(pointer);
  const errors = errorsAt(form, pointer);
  return html`${hasHint(model) &&
    html`<div class="hint" id=${id + "-hint"}>
      ${model.description && html`<p><${Text} lines>${model.description}<//></p>`}
      ${model.examples?.length > 0 &&
      html`<p>For example: <${Text}>${model.examples.join("  ")}<//></p>`}
      ${model.note && html`<p><${Text}>${model.note}<//></p>`}
    </div>`}
    ${errors.length > 0 && html`<p class="error" id=${id + "-error"}><${Text}>${errors.join("; ")}<//></p>`}`;
}

/** What the control does not show: nothing, null and an empty text look alike in it. */
function stateOf(model, node, isFixed) {
  if (node === undefined) {
    const standard = model.default == null ? "" : `default ${model.default}`;
    return [model.required ? "" : "left out", standard].filter(Boolean).join(", ");
  }
  if (node.kind === "null") return "null";
  const isChoice = model.nullable || (!model.required && !isFixed);
  return isChoice && node.kind === "string" && node.value === "" ? "an empty text is sent" : "";
}

/**
 * Whether a value is sent, and the buttons that change that. Absent, null and empty are three
 * states: typing sets a value, and emptying an optional text leaves it out again.
 */
export function Presence({ form, name, model, node, onNode, isFixed, pointer, onAdd }) {
  const state = stateOf(model, node, isFixed);
  const label = shown(name);
  const set = (next) => () => {
    onNode(next);
    // The button that was pressed may be gone.
    focusIn(form.id(pointer));
  };
  const isUnset = node === undefined || node.kind === "null";
  const standard = isUnset ? readText(model.default ?? "") : undefined;
  const empty = isUnset ? initialNode({ ...model, default: undefined }, form.defs) : undefined;
  const buttons = [
    standard && !isSame(standard, node) && standard.kind !== "null" && ["Use the default", set(standard)],
    isUnset && onAdd && ["Add an item", onAdd],
    empty && !isSame(empty, standard) && [setWord(empty), set(empty)],
    model.nullable && node?.kind !== "null" && ["Null", set(NULL)],
    node !== undefined && !model.required && !isFixed && ["Leave out", set(undefined)],
  ].filter(Boolean);
  if (!state && buttons.length === 0) return null;
  return html`<div class="form-state">
    ${state && html`<span class="quiet"><${Text}>${state}<//></span>`}
    ${buttons.map(
      ([word, onClick]) => html`<${Button} key=${word} class="plain small" aria-label=${`${word}: ${label}`} onClick=${onClick}>
        ${word}
      <//>`,
    )}
  </div>`;
}

function setWord(node) {
  if (node.kind === "string" && node.value === "") return "Send an empty text";
  return node.kind === "array" && node.items.length === 0 ? "Send an empty list" : "Set";
}

/** A field with one control. */
export function Frame({ form, name, pointer, model, presence, children }) {
  const id = form.id(pointer);
  return html`<div class="form-field" data-place=${idOf(pointer)}>
    <div class="form-head">
      <label for=${id}><${Label} name=${name} model=${model} /></label>
      <${FieldFacts} id=${id} model=${model} />
    </div>
    ${children} ${presence}
    <${Notes} form=${form} pointer=${pointer} model=${model} />
  </div>`;
}

/** A field with fields in it. */
export function Group({ form, name, pointer, model, presence, tools, children, isRoot }) {
  const id = form.id(pointer);
  if (isRoot) {
    return html`<div class="form-root" id=${id} data-place=${idOf(pointer)} tabindex="-1">
      <${Notes} form=${form} pointer=${pointer} model=${{ ...model, description: "" }} />
      ${children}
    </div>`;
  }
  return html`<fieldset class="form-group" id=${id} data-place=${idOf(pointer)} tabindex="-1" aria-describedby=${bind(form, pointer, model)["aria-describedby"]}>
    <legend><${Label} name=${name} model=${model} /></legend>
    <div class="form-head"><${FieldFacts} id=${id} model=${model} />${tools}</div>
    ${presence}
    <${Notes} form=${form} pointer=${pointer} model=${model} />
    ${children}
  </fieldset>`;
}
