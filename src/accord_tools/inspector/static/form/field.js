// One field of any kind; this is where a form goes deeper.
import { html, useState } from "../preact.js";
import { resolve } from "./model.js";
import { BooleanField, ChoiceField, JsonField, NullField, NumberField, TextField } from "./controls.js";
import { ListGroup, ManyChoices, TupleGroup } from "./lists.js";
import { ObjectGroup, UnionGroup } from "./groups.js";

const FIELDS = {
  text: TextField,
  multiline: TextField,
  number: NumberField,
  integer: NumberField,
  boolean: BooleanField,
  null: NullField,
  choice: ChoiceField,
  list: ListGroup,
  tuple: TupleGroup,
  object: ObjectGroup,
  map: ObjectGroup,
  union: UnionGroup,
  json: JsonField,
};
const CONTAINERS = { list: "array", tuple: "array", object: "object", map: "object" };

/** Whether a group can show a value; other values are shown as JSON. */
function canShow(model, node) {
  const wanted = model.kind === "choice" && model.multiple ? "array" : CONTAINERS[model.kind];
  if (wanted === undefined || node === undefined || node.kind === wanted) return true;
  return node.kind === "null" && Boolean(model.nullable);
}

/**
 * A field.
 * @param {object} props
 * @param {any} props.form what all fields of the form share
 * @param {any} props.model
 * @param {string | number} props.name
 * @param {string} props.pointer its place in the value
 * @param {object | undefined} props.node its value; undefined if it is left out
 * @param {(node: object | undefined) => void} props.onNode
 * @param {boolean} [props.isFixed] whether it cannot be left out, as an item of a list
 * @param {boolean} [props.isRoot]
 */
export function ModelField(props) {
  const model = resolve(props.model, props.form.defs);
  // JSON that is typed here stays JSON until the focus leaves, even once the group could show it.
  const [isTyping, setTyping] = useState(false);
  if (isTyping || !canShow(model, props.node)) {
    const note = "This value does not fit the form, so it is shown as JSON.";
    const onLeave = (event) => setTyping(event.currentTarget.contains(event.relatedTarget));
    return html`<div onFocusIn=${() => setTyping(true)} onFocusOut=${onLeave}>
      <${JsonField} ...${props} model=${{ ...model, kind: "json", limits: [], note }} />
    </div>`;
  }
  const Kind = model.kind === "choice" && model.multiple ? ManyChoices : (FIELDS[model.kind] ?? JsonField);
  return html`<${Kind} ...${props} model=${model} />`;
}
