// Lists: items are added, removed and moved, and the focus goes with them.
import { html, useLayoutEffect, useRef, useState } from "../preact.js";
import { printJson } from "../json_text.js";
import { shown } from "../text.js";
import { Button, Check, Text, announce, plural } from "../ui.js";
import { choiceOf, deeper, isSame, readText, someNode } from "./model.js";
import { Group, Presence, errorsAt, focusControl, focusIn } from "./frame.js";
import { ModelField } from "./field.js";

// More items are drawn on demand.
const PAGE = 50;

/** Returns a function that focuses an element, found by its id, after the next drawing. */
export function useFocus() {
  const wanted = useRef(null);
  useLayoutEffect(() => {
    if (wanted.current === null) return;
    const found = wanted.current.map((id) => document.getElementById(id)).find(Boolean);
    wanted.current = null;
    focusControl(found);
  });
  return (...ids) => {
    wanted.current = ids;
  };
}

function ItemTools({ id, index, last, onMove, onRemove }) {
  const name = `item ${index + 1}`;
  return html`<div class="form-tools">
    <${Button} class="plain small" id=${`${id}-up-${index}`} disabled=${index === 0} aria-label=${`Move ${name} up`} onClick=${() => onMove(index, index - 1, "up")}>↑<//>
    <${Button} class="plain small" id=${`${id}-down-${index}`} disabled=${index === last} aria-label=${`Move ${name} down`} onClick=${() => onMove(index, index + 1, "down")}>↓<//>
    <${Button} class="plain small" id=${`${id}-remove-${index}`} aria-label=${`Remove ${name}`} onClick=${() => onRemove(index)}>Remove<//>
  </div>`;
}

/** The items of an array after a number of fixed ones. */
function Items({ form, pointer, model, items, from, onItems }) {
  const [count, setCount] = useState(PAGE);
  const focus = useFocus();
  const id = form.id(pointer);
  const last = items.length - 1;
  const change = (next) => {
    form.forget(pointer);
    onItems(next);
  };
  const onMove = (index, to, way) => {
    const next = [...items];
    [next[index], next[to]] = [next[to], next[index]];
    const other = way === "up" ? "down" : "up";
    const isAtEnd = to === (way === "up" ? from : last);
    focus(`${id}-${isAtEnd ? other : way}-${to}`);
    announce(`Moved to place ${to + 1}.`);
    change(next);
  };
  const onRemove = (index) => {
    focus(`${id}-remove-${Math.min(index, last - 1)}`, id + "-add");
    announce(`Removed item ${index + 1}.`);
    change(items.toSpliced(index, 1));
  };
  const add = () => {
    setCount(Math.max(count, items.length + 1 - from));
    focus(form.id(deeper(pointer, items.length)), id + "-add");
    change([...items, someNode(model.items, form.defs)]);
  };
  const showMore = () => {
    focus(form.id(deeper(pointer, from + count)));
    setCount(count + PAGE);
  };
  const drawn = items.slice(from, from + count);
  return html`<ol class="form-items">
      ${drawn.map((item, offset) => {
        const index = from + offset;
        return html`<li key=${index}>
          <${ModelField}
            form=${form}
            name=${`item ${index + 1}`}
            pointer=${deeper(pointer, index)}
            model=${{ ...(model.items ?? { kind: "json" }), required: false }}
            node=${item}
            onNode=${(node) => onItems(items.with(index, node ?? { kind: "null" }))}
            isFixed
          />
          <${ItemTools} id=${id} index=${index} last=${last} onMove=${onMove} onRemove=${onRemove} />
        </li>`;
      })}
    </ol>
    <div class="form-state">
      ${items.length - from > count &&
      html`<${Button} onClick=${showMore}>Show more (${items.length - from - count} left)<//>`}
      ${model.items && html`<${Button} class="plain small" id=${id + "-add"} onClick=${add}>Add an item<//>`}
      <span class="quiet">${plural(items.length - from, "item")}</span>
    </div>`;
}

export function ListGroup({ form, name, pointer, model, node, onNode, isFixed, isRoot }) {
  const focus = useFocus();
  const add = () => {
    focus(form.id(deeper(pointer, 0)));
    onNode({ kind: "array", items: [someNode(model.items, form.defs)] });
  };
  const presence = html`<${Presence} form=${form} name=${name} model=${model} node=${node} onNode=${onNode} isFixed=${isFixed} pointer=${pointer} onAdd=${model.items && add} />`;
  const isOpen = node?.kind === "array";
  return html`<${Group} form=${form} name=${name} pointer=${pointer} model=${model} presence=${presence} isRoot=${isRoot && isOpen}>
    ${isOpen &&
    html`<${Items} form=${form} pointer=${pointer} model=${model} items=${node.items} from=${0} onItems=${(items) => onNode({ kind: "array", items })} />`}
  <//>`;
}

/** A list whose first items have fields of their own. */
export function TupleGroup({ form, name, pointer, model, node, onNode, isFixed, isRoot }) {
  const presence = html`<${Presence} form=${form} name=${name} model=${model} node=${node} onNode=${onNode} isFixed=${isFixed} pointer=${pointer} />`;
  const isOpen = node?.kind === "array";
  const items = isOpen ? node.items : [];
  const set = (index, item) => {
    // What follows an item that is left out goes, too: a list has no holes.
    if (item === undefined) return onNode({ kind: "array", items: items.slice(0, index) });
    const next = [...items];
    while (next.length < index) next.push(someNode(model.prefix[next.length], form.defs));
    next[index] = item;
    return onNode({ kind: "array", items: next });
  };
  const first = model.prefix.length;
  const hasRest = isOpen && (items.length > first || (model.items && items.length === first));
  return html`<${Group} form=${form} name=${name} pointer=${pointer} model=${model} presence=${presence} isRoot=${isRoot && isOpen}>
    ${isOpen &&
    model.prefix.map(
      (each, index) => html`<${ModelField}
        key=${index}
        form=${form}
        name=${each.title || `item ${index + 1}`}
        pointer=${deeper(pointer, index)}
        model=${each}
        node=${items[index]}
        onNode=${(item) => set(index, item)}
      />`,
    )}
    ${hasRest &&
    html`<${Items} form=${form} pointer=${pointer} model=${model} items=${items} from=${first} onItems=${(next) => onNode({ kind: "array", items: next })} />`}
  <//>`;
}

/** A list of values out of some: boxes to tick. Values that are not offered stay. */
export function ManyChoices({ form, name, pointer, model, node, onNode, isFixed }) {
  const presence = html`<${Presence} form=${form} name=${name} model=${model} node=${node} onNode=${onNode} isFixed=${isFixed} pointer=${pointer} />`;
  const items = node?.kind === "array" ? node.items : [];
  const toggle = (value, isOn) => {
    const next = isOn ? [...items, value] : items.filter((each) => !isSame(each, value));
    onNode({ kind: "array", items: next });
  };
  const remove = (index) => {
    onNode({ kind: "array", items: items.toSpliced(index, 1) });
    focusIn(form.id(pointer));
  };
  const offered = items.map((each) => choiceOf(model, each));
  const others = items.flatMap((each, index) =>
    offered[index] < 0 || offered.indexOf(offered[index]) < index ? [[each, index]] : [],
  );
  return html`<${Group} form=${form} name=${name} pointer=${pointer} model=${model} presence=${presence}>
    <div class="form-choices">
      ${model.choices.map((choice, index) => {
        const value = readText(choice.value);
        return html`<${Check} key=${index} checked=${offered.includes(index)} onChange=${(isOn) => toggle(value, isOn)}>
          <${Text}>${choice.title || '""'}<//>
        <//>`;
      })}
    </div>
    ${others.length > 0 && html`<p class="hint">Also in the list:</p>`}
    ${others.map(
      ([each, index]) => html`<div class="form-state" key=${"other" + index} id=${form.id(deeper(pointer, index))} tabindex="-1">
        <code><${Text}>${printJson(each)}<//></code>
        <${Button} class="plain small" aria-label=${`Remove ${shown(printJson(each))}`} onClick=${() => remove(index)}>Remove<//>
        ${errorsAt(form, deeper(pointer, index)).map((said) => html`<span class="error"><${Text}>${said}<//></span>`)}
      </div>`,
    )}
  <//>`;
}
