// Objects, maps from names to values, and unions.
import { html, useId, useState } from "../preact.js";
import { shown } from "../text.js";
import { Button, announce } from "../ui.js";
import { memberOf } from "../json_text.js";
import { NULL, deeper, idOf, initialOption, optionOf, someNode, withMember } from "./model.js";
import { Group, Label, Notes, FieldFacts, Presence, bind } from "./frame.js";
import { useFocus } from "./lists.js";
import { ModelField } from "./field.js";

const PAGE = 50;
const ANY = { kind: "json" };

/** The members of an object that have no field of their own; `at` is the place among all. */
function othersOf(model, node) {
  const known = new Set((model.fields ?? []).map((each) => each.name));
  const last = new Map(node.members.map(([name], at) => [name, at]));
  return node.members.flatMap(([name, member], at) =>
    known.has(name) && last.get(name) === at ? [] : [{ name, member, at }],
  );
}

function OtherMember({ form, pointer, values, entry, isTwice, id, onName, onMember, onRemove }) {
  const own = useId();
  return html`<div class="form-member">
    <div class="form-state">
      <label class="quiet" for=${own}>Name</label>
      <input id=${own} type="text" class="mono" autocomplete="off" spellcheck=${false} value=${entry.name} onInput=${(event) => onName(event.currentTarget.value)} />
      <${Button} class="plain small" id=${id} aria-label=${`Remove ${shown(entry.name) || `""`}`} onClick=${onRemove}>Remove<//>
    </div>
    ${isTwice && html`<p class="error">This name comes twice; servers use one of the values.</p>`}
    <${ModelField} form=${form} name=${entry.name} pointer=${deeper(pointer, entry.name)} model=${values} node=${entry.member} onNode=${(node) => onMember(node ?? NULL)} isFixed />
  </div>`;
}

/** Members by name: those of a map, and those that the schema does not know. */
function OtherMembers({ form, pointer, model, node, onNode }) {
  const [count, setCount] = useState(PAGE);
  const [name, setName] = useState("");
  const focus = useFocus();
  const id = form.id(pointer);
  const values = model.values ?? ANY;
  const others = othersOf(model, node);
  const names = new Map();
  for (const [each] of node.members) names.set(each, (names.get(each) ?? 0) + 1);
  const put = (members) => onNode({ kind: "object", members });
  const remove = (entry, place) => {
    focus(`${id}-remove-${Math.min(place, others.length - 2)}`, id + "-name", id);
    announce(`Removed ${shown(entry.name)}.`);
    form.forget(pointer);
    put(node.members.toSpliced(entry.at, 1));
  };
  const add = () => {
    setCount(Math.max(count, others.length + 1));
    focus(form.id(deeper(pointer, name)), id + "-name");
    put([...node.members, [name, someNode(values, form.defs)]]);
    setName("");
  };
  const showMore = () => {
    focus(`${id}-remove-${count}`);
    setCount(count + PAGE);
  };
  const isKnown = names.has(name);
  const onKeyDown = (event) => {
    if (event.key !== "Enter" || isKnown || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    add();
  };
  return html`${others.length > 0 && !model.values && html`<p class="hint">Not in the schema:</p>`}
    ${others.slice(0, count).map(
      (entry, place) => html`<${OtherMember}
        key=${entry.at}
        form=${form}
        pointer=${pointer}
        values=${values}
        entry=${entry}
        id=${`${id}-remove-${place}`}
        isTwice=${names.get(entry.name) > 1}
        onName=${(next) => put(node.members.with(entry.at, [next, entry.member]))}
        onMember=${(member) => put(node.members.with(entry.at, [entry.name, member]))}
        onRemove=${() => remove(entry, place)}
      />`,
    )}
    ${others.length > count &&
    html`<${Button} onClick=${showMore}>Show more (${others.length - count} left)<//>`}
    ${model.values &&
    html`<div class="form-state">
      <label class="quiet" for=${id + "-name"}>New name</label>
      <input id=${id + "-name"} type="text" class="mono" autocomplete="off" spellcheck=${false} value=${name} onInput=${(event) => setName(event.currentTarget.value)} onKeyDown=${onKeyDown} />
      <${Button} class="plain small" disabled=${isKnown} onClick=${add}>Add a member<//>
      ${isKnown && html`<span class="quiet">is there already</span>`}
    </div>`}`;
}

/** An object with fields, a map from names to values, or both. */
export function ObjectGroup({ form, name, pointer, model, node, onNode, isFixed, isRoot }) {
  const presence = html`<${Presence} form=${form} name=${name} model=${model} node=${node} onNode=${onNode} isFixed=${isFixed} pointer=${pointer} />`;
  const isOpen = node?.kind === "object" || (isRoot && node === undefined);
  const members = node?.kind === "object" ? node : { kind: "object", members: [] };
  const fields = model.fields ?? [];
  const isEmpty = isOpen && fields.length === 0 && !model.values && members.members.length === 0;
  return html`<${Group} form=${form} name=${name} pointer=${pointer} model=${model} presence=${presence} isRoot=${isRoot && isOpen}>
    ${isOpen &&
    fields.map(
      (each) => html`<${ModelField}
        key=${"." + each.name}
        form=${form}
        name=${each.name}
        pointer=${deeper(pointer, each.name)}
        model=${each.model}
        node=${memberOf(node, each.name)}
        onNode=${(member) => onNode(withMember(node, fields, each.name, member))}
      />`,
    )}
    ${isOpen && html`<${OtherMembers} form=${form} pointer=${pointer} model=${model} node=${members} onNode=${onNode} />`}
    ${isEmpty && html`<p class="hint">There is nothing to fill in.</p>`}
  <//>`;
}

const ABSENT = "absent";

/** One of several kinds of values; what was filled in for another option is kept. */
export function UnionGroup({ form, name, pointer, model, node, onNode, isFixed, isRoot }) {
  const id = form.id(pointer);
  const kept = form.recall(pointer);
  const isNull = node?.kind === "null" && model.nullable;
  const isSet = node !== undefined && !isNull;
  const remembered = kept.option < model.options.length ? kept.option : undefined;
  const option = isSet ? (remembered ?? optionOf(model, node, form.defs)) : undefined;
  // What is typed next may fit another option better; the one that is open stays open.
  kept.option = option;
  const current = isNull ? "null" : (option ?? ABSENT);
  const choose = (event) => {
    const { value } = event.currentTarget;
    if (option !== undefined) kept.values.set(option, node);
    kept.option = value === ABSENT || value === "null" ? undefined : Number(value);
    if (value === ABSENT) onNode(undefined);
    else if (value === "null") onNode(NULL);
    else onNode(kept.values.get(kept.option) ?? begin(model.options[kept.option].model, form.defs));
  };
  const chosen = option === undefined ? null : model.options[option];
  const inner = chosen && { ...chosen.model, required: true };
  return html`<div class="form-group" data-place=${idOf(pointer)} role="group" aria-labelledby=${id + "-title"}>
    <div class="form-head">
      <label for=${id} id=${id + "-title"}><${Label} name=${name} model=${isRoot ? { title: model.title } : model} /></label>
      <${FieldFacts} id=${id} model=${model} />
    </div>
    <select ...${bind(form, pointer, model)} value=${String(current)} onChange=${choose}>
      ${(!isFixed || current === ABSENT) && html`<option value=${ABSENT}>${model.required ? "choose" : "left out"}</option>`}
      ${model.options.map((each, index) => html`<option key=${index} value=${String(index)}>${shown(each.title).slice(0, 120)}</option>`)}
      ${model.nullable && html`<option value="null">null</option>`}
    </select>
    <${Notes} form=${form} pointer=${pointer} model=${model} />
    ${chosen &&
    html`<div class="form-option" key=${option}>
      <${ModelField} form=${inside(form, pointer)} name=${chosen.title} pointer=${pointer} model=${inner} node=${node} onNode=${onNode} isFixed isRoot=${isPlainObject(chosen.model)} />
    </div>`}
  </div>`;
}

function begin(model, defs) {
  return initialOption(model, defs) ?? someNode(model, defs);
}

function isPlainObject(model) {
  return model.kind === "object";
}

/** The form for the option of a union: the same place, but ids, errors and memory of its own. */
function inside(form, pointer) {
  const isHere = (each) => each === pointer;
  return {
    ...form,
    id: (each) => form.id(each) + (isHere(each) ? "-option" : ""),
    errors: new Map([...form.errors].filter(([each]) => !isHere(each))),
    recall: (each) => form.recall(isHere(each) ? each + "\n" : each),
  };
}
