// A form for a value that is JSON text: drawn from a model, changed field by field.
import { html, useId, useMemo, useRef } from "../preact.js";
import { parseJson, printJson } from "../json_text.js";
import { idOf } from "./model.js";
import { ModelField } from "./field.js";

export { ArgumentEditor } from "./editor.js";

function read(text) {
  if (text.trim() === "") return { node: undefined, fault: null };
  try {
    return { node: parseJson(text), fault: null };
  } catch (fault) {
    return { node: undefined, fault };
  }
}

/** Errors by place: { pointer, message } to pointer -> messages. */
function byPlace(errors) {
  const found = new Map();
  for (const { pointer, message } of errors) {
    found.set(pointer, [...(found.get(pointer) ?? []), message]);
  }
  return found;
}

/** What fields remember beside the value: which option of a union is open, and the other values. */
function useMemory() {
  const places = useRef(new Map());
  return {
    recall(pointer) {
      if (!places.current.has(pointer)) {
        places.current.set(pointer, { option: undefined, values: new Map() });
      }
      return places.current.get(pointer);
    },
    forgetAll() {
      places.current.clear();
    },
    forget(pointer) {
      for (const each of [...places.current.keys()]) {
        if (each.startsWith(pointer + "/")) places.current.delete(each);
      }
    },
  };
}

/** Focus the field at a place, or the nearest around it that is drawn. */
export function focusPlace(prefix, pointer) {
  for (let place = pointer; ; place = place.slice(0, place.lastIndexOf("/"))) {
    const found = document.getElementById(`${prefix}${idOf(place)}`);
    if (found) {
      found.scrollIntoView({ block: "nearest" });
      found.focus();
      return;
    }
    if (place === "") return;
  }
}

/**
 * A form.
 * @param {object} props
 * @param {any} props.model of `accord_tools.inspector.forms.model`
 * @param {string} props.text the value as JSON
 * @param {(text: string) => void} props.onText
 * @param {{pointer: string, message: string}[]} [props.errors]
 * @param {string} [props.idPrefix] what ids begin with
 * @param {(name: string, value: string) => Promise<{values: string[]}>} [props.onComplete]
 * @param {string[]} [props.completes] the members that `onComplete` knows values for
 */
export function Form({ model, text, onText, errors = [], idPrefix, onComplete, completes = [] }) {
  const own = useId();
  const prefix = idPrefix ?? own;
  const { node, fault } = useMemo(() => read(text), [text]);
  const memory = useMemory();
  // Text that came from elsewhere may be of another option of a union.
  const made = useRef(text);
  if (made.current !== text) {
    made.current = text;
    memory.forgetAll();
  }
  const places = useMemo(() => byPlace(errors), [errors]);
  if (fault) {
    const place = `line ${fault.line}, column ${fault.column}`;
    return html`<p class="note is-warn">
      ${`The form shows nothing while the JSON has a fault in ${place}: ${fault.message}.`}
    </p>`;
  }
  const form = {
    defs: model.defs ?? {},
    errors: places,
    complete: onComplete,
    completes,
    id: (pointer) => `${prefix}${idOf(pointer)}`,
    ...memory,
  };
  const onNode = (next) => {
    made.current = next === undefined ? "" : printJson(next, 2);
    onText(made.current);
  };
  return html`<div class="form">
    <${ModelField} form=${form} name="value" pointer="" model=${model} node=${node} onNode=${onNode} isRoot />
  </div>`;
}
