// The filters of the log.
import { html, useEffect, useState } from "../preact.js";
import { findElement } from "../keys.js";
import { shown } from "../text.js";
import { Button, Check, Fold } from "../ui.js";

const DELAY = 200;
const KINDS = [
  ["", "all kinds"],
  ["request", "requests"],
  ["result", "results"],
  ["error", "errors"],
  ["notification", "notifications"],
  ["batch", "batches"],
  ["text", "not JSON"],
];
const SENDERS = [
  ["", "both directions"],
  ["client", "from the client"],
  ["server", "from the server"],
];

const CHIPS = {
  call: "messages of call",
  related: "messages related to",
  requirement: "messages that break",
  conversation: "conversation",
};

/** The filter that lets all messages through. */
export const EVERYTHING = { with_http: false, with_stderr: true };

/** A text field whose value is taken over after a short rest. */
function LateField({ value, onValue, label, isFilter }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => onValue(text), DELAY);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<input
    type="search"
    aria-label=${label}
    placeholder=${label}
    data-filter=${isFilter ? "" : undefined}
    spellcheck=${false}
    value=${text}
    onInput=${(event) => setText(event.currentTarget.value)}
  />`;
}

function Choice({ label, value, choices, onValue }) {
  return html`<select aria-label=${label} value=${value} onChange=${(event) => onValue(event.currentTarget.value)}>
    ${choices.map(([id, title]) => html`<option value=${id}>${title}</option>`)}
  </select>`;
}

/** Filters that were set by a link elsewhere on the page, each with a way to drop it. */
function Chips({ filter, onFilter }) {
  const found = Object.keys(CHIPS).filter((name) => filter[name] !== undefined);
  return (
    found.length > 0 &&
    html`<div class="bar">
      ${found.map(
        (name) => html`<${Button}
          kind="plain small"
          title="Drop this filter"
          aria-pressed="true"
          onClick=${() => {
            onFilter({ ...filter, [name]: undefined });
            findElement(".log [data-filter]")?.focus();
          }}
        >
          ${shown(`${CHIPS[name]} ${filter[name]}`)} <span aria-hidden="true">×</span>
        <//>`,
      )}
    </div>`
  );
}

export function Filters({ filter, onFilter }) {
  const set = (name, value) => onFilter({ ...filter, [name]: value || undefined });
  const more = Number(Boolean(filter.method)) + Number(Boolean(filter.sender)) + (filter.kinds ? 1 : 0);
  return html`<div role="search" aria-label="Filters of the log">
    <div class="bar">
      <${LateField} label="Filter by text" isFilter value=${filter.text ?? ""} onValue=${(value) => set("text", value)} />
      <${Check} checked=${Boolean(filter.severity)} onChange=${(value) => set("severity", value)}>
        only breaches
      <//>
    </div>
    <${Fold} title=${"More filters" + (more ? ` (${more} set)` : "")}>
      <div class="bar">
        <${LateField} label="Method" value=${filter.method ?? ""} onValue=${(value) => set("method", value)} />
        <${Choice} label="Direction" value=${filter.sender ?? ""} choices=${SENDERS} onValue=${(value) => set("sender", value)} />
        <${Choice}
          label="Kind of message"
          value=${filter.kinds?.[0] ?? ""}
          choices=${KINDS}
          onValue=${(value) => set("kinds", value ? [value] : undefined)}
        />
        <${Check} checked=${filter.with_http} onChange=${(value) => onFilter({ ...filter, with_http: value })}>HTTP<//>
        <${Check} checked=${filter.with_stderr} onChange=${(value) => onFilter({ ...filter, with_stderr: value })}>stderr<//>
      </div>
    <//>
    <${Chips} filter=${filter} onFilter=${onFilter} />
  </div>`;
}
