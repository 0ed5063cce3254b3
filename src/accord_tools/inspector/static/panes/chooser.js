// A list of what the server offers, with a filter; the chosen entry is shown beside it.
import { html, useEffect, useState } from "../preact.js";
import { call } from "../api.js";
import { useAction } from "../store.js";
import { addressOf } from "../route.js";
import { Button, Empty, ErrorNote, Text, formatCount, formatSize, useWork } from "../ui.js";

const PAGE = 200;
const DELAY = 150;

/** The class of a hint: what may change things stands out, with its words as the sign. */
export function Hints({ hints }) {
  if (!hints?.length) return null;
  const kindOf = (hint) =>
    /destructive|may change|changes/.test(hint) ? " is-warn" : /read.only/.test(hint) ? " is-pass" : "";
  return html`<ul class="chips" aria-label="Hints">
    ${hints.map((hint) => html`<li class=${"chip" + kindOf(hint)}><${Text}>${hint}<//></li>`)}
  </ul>`;
}

function Entry({ entry, href, isChosen }) {
  const about = [entry.title && entry.title !== entry.name ? entry.title : "", entry.description]
    .filter(Boolean)
    .join(": ");
  const facts = [entry.mime, entry.size == null ? "" : formatSize(entry.size)].filter(Boolean);
  return html`<li>
    <a href=${href} aria-current=${isChosen ? "true" : undefined}>
      <span class="name"><${Text}>${entry.name}<//></span>
      ${about && html`<span class="about"><${Text}>${about}<//></span>`}
      ${facts.length > 0 && html`<span class="about"><${Text}>${facts.join(", ")}<//></span>`}
      <${Hints} hints=${entry.hints} />
    </a>
  </li>`;
}

/** A value that follows another after a short rest. */
export function useLate(value, delay = DELAY) {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLate(value), delay);
    return () => clearTimeout(timer);
  }, [value]);
  return late;
}

function said(data, kind, text) {
  if (data.state === "unconnected") return `The ${kind} are listed once the server is connected.`;
  if (data.state === "absent") return `The server offers no ${kind}.`;
  if (data.state === "loading" && !data.total) return "Loading.";
  return text ? "Nothing fits the filter." : `The list of ${kind} is empty.`;
}

/**
 * The list of one kind.
 * @param {{target: number, kind: string, chosen: string, placeOf: (name: string) => string,
 *   pane: string}} props `placeOf` makes the name in the address
 */
export function EntryList({ target, kind, pane, chosen, placeOf = (name) => name }) {
  const [text, setText] = useState("");
  const [count, setCount] = useState(PAGE);
  const late = useLate(text);
  const params = { kind, text: late, start: 0, count };
  const { data, error } = useAction("catalog.list", target, "catalog", params);
  const [refresh, isBusy, problem] = useWork(() => call("catalog.refresh", { target, kind }));
  const entries = data?.entries ?? [];
  return html`<div>
    <div class="bar">
      <input
        type="search"
        data-filter
        aria-label=${`Filter ${kind}`}
        placeholder=${`Filter ${kind}`}
        spellcheck=${false}
        value=${text}
        onInput=${(event) => setText(event.currentTarget.value)}
      />
      <${Button} onClick=${refresh} busy=${isBusy} title="Ask the server for this list again">Refresh<//>
    </div>
    <${ErrorNote} error=${error ?? problem} />
    ${data?.error && html`<${ErrorNote} error=${data.error} />`}
    ${data?.stale && html`<p class="note is-warn">The list may have changed since it was read.</p>`}
    ${data?.changes?.length > 0 && html`<${Changes} changes=${data.changes} />`}
    ${entries.length > 0 &&
    html`<ul class="entries">
      ${entries.map(
        (entry) => html`<${Entry}
          key=${entry.name}
          entry=${entry}
          href=${addressOf(target, pane, placeOf(entry.name))}
          isChosen=${entry.name === chosen}
        />`,
      )}
    </ul>`}
    ${data && entries.length === 0 && !data.error && html`<${Empty}>${said(data, kind, late)}<//>`}
    ${data && data.matching > entries.length &&
    html`<${Button} onClick=${() => setCount(count + PAGE * 2)}>
      Show more (${formatCount(data.matching - entries.length)} left)
    <//>`}
    ${data?.total > 0 && html`<p class="quiet">${formatCount(data.matching)} of ${formatCount(data.total)}</p>`}
  </div>`;
}

function Changes({ changes }) {
  return html`<div class="note is-info">
    <p>The server changed this list:</p>
    <ul>${changes.map((each) => html`<li><${Text}>${each}<//></li>`)}</ul>
  </div>`;
}

/** The list on the left, the chosen entry on the right; on small screens one of them. */
export function Chooser({ target, pane, list, hasChosen, children }) {
  return html`<div class=${"chooser" + (hasChosen ? " has-chosen" : "")}>
    <div>${list}</div>
    <div>
      ${hasChosen && html`<p class="back"><a href=${addressOf(target, pane)}>← Back to the list</a></p>`}
      ${children}
    </div>
  </div>`;
}
