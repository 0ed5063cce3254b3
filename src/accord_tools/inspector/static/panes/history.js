// The calls of this and earlier sessions: find, open, replay, keep, compare.
import { html, useState } from "../preact.js";
import { call } from "../api.js";
import { useAction } from "../store.js";
import { go } from "../route.js";
import {
  Button,
  Check,
  Empty,
  ErrorNote,
  Field,
  Fold,
  Panel,
  Text,
  announce,
  formatDate,
  formatSeconds,
  formatSize,
} from "../ui.js";
import { shown } from "../text.js";
import { Comparison } from "./compare.js";
import { HistoryEntry } from "./history_entry.js";
import { TwoPress, focusPane, useNamedWork, useSettled } from "./pane_parts.js";

const PAGE = 50;
const KINDS = { tool: "tool", resource: "resource", prompt: "prompt", request: "request" };

function keyOf(side) {
  return JSON.stringify(side);
}

/** How a kept call ended, in words. */
function outcomeOf(entry) {
  return entry.outcome === "done" && entry.is_error ? "tool error" : shown(entry.outcome);
}

function ChooseBox({ side, title, chosen, onChoose }) {
  const isChosen = chosen.some((each) => keyOf(each) === keyOf(side));
  return html`<input
    type="checkbox"
    aria-label=${`Choose ${shown(title)} to compare`}
    checked=${isChosen}
    onChange=${(event) => onChoose(side, event.target.checked)}
  />`;
}

function EntryRow({ entry, isOpen, onOpen, chosen, onChoose }) {
  const title = `${entry.name} of ${formatDate(entry.at)}`;
  const side = { history: entry.id };
  return html`<tr aria-current=${isOpen ? "true" : undefined}>
    <td>
      <${ChooseBox} side=${side} title=${title} chosen=${chosen} onChoose=${onChoose} />
    </td>
    <th scope="row">
      <button type="button" class="plain link" id=${`history-${entry.id}`} onClick=${onOpen}>
        <span class="quiet">${KINDS[entry.kind] ?? entry.kind}</span> <${Text}>${entry.name}<//>
      </button>
      ${entry.pinned && html` <span class="sign">★ pinned</span>`}
      ${entry.note && html`<br /><span class="quiet"><${Text}>${entry.note}<//></span>`}
      ${!entry.is_same_target && html`<br /><span class="quiet"><${Text}>${entry.target}<//></span>`}
    </th>
    <td>${formatDate(entry.at)}</td>
    <td>${outcomeOf(entry)}</td>
    <td>${formatSeconds(entry.seconds)}</td>
    <td>${formatSize(entry.size)}</td>
  </tr>`;
}

function EntryTable({ entries, openId, onOpen, chosen, onChoose }) {
  return html`<div class="scroll">
    <table>
      <thead>
        <tr>
          <th scope="col">Compare</th>
          <th scope="col">Call</th>
          <th scope="col">When</th>
          <th scope="col">Outcome</th>
          <th scope="col">Took</th>
          <th scope="col">Size</th>
        </tr>
      </thead>
      <tbody>
        ${entries.map(
          (entry) => html`<${EntryRow}
            key=${entry.id}
            entry=${entry}
            isOpen=${String(entry.id) === openId}
            onOpen=${() => onOpen(entry.id)}
            chosen=${chosen}
            onChoose=${onChoose}
          />`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** The calls of this session, to be chosen for a comparison. */
function SessionCalls({ target, chosen, onChoose }) {
  const { data, error } = useAction("calls.list", target, "calls");
  const ended = (data?.calls ?? []).filter((each) => each.state !== "running");
  return html`
    <${ErrorNote} error=${error} />
    ${data && ended.length === 0 && html`<${Empty}>No call has ended yet.<//>`}
    <ul class="plain-list rows">
      ${ended.map((each) => {
        const title = `${each.kind} ${each.name} of ${formatDate(each.at)}`;
        return html`<li key=${each.id}>
          <${Check}
            checked=${chosen.some((side) => side.call === each.id)}
            onChange=${(isOn) => onChoose({ call: each.id }, isOn)}
          >
            <${Text}>${title}<//> <span class="quiet">${each.state}</span>
          <//>
        </li>`;
      })}
    </ul>
  `;
}

function Filters({ filter, change }) {
  return html`<div class="bar" role="search" aria-label="History">
    <${Field} label="Text">
      <input
        type="search"
        data-filter
        value=${filter.text}
        onInput=${(event) => change({ text: event.target.value })}
      />
    <//>
    <${Check} checked=${filter.pinned} onChange=${(pinned) => change({ pinned })}>Only pinned<//>
    <${Check} checked=${filter.all_targets} onChange=${(all_targets) => change({ all_targets })}>
      Other servers, too
    <//>
  </div>`;
}

function Bulk({ target, canSend, onReplayed, onDeleted }) {
  const work = useNamedWork();
  const replay = async () => {
    const done = await work.run("replay", () => call("history.replay_pinned", { target }));
    if (done) {
      announce(`${done.ids.length} pinned calls are sent again.`);
      onReplayed(done.ids);
    }
  };
  const clear = async () => {
    const done = await work.run("clear", () => call("history.delete", { target, all: true }));
    if (done !== undefined) onDeleted();
  };
  return html`<div class="actions">
    ${canSend &&
    html`<${Button} busy=${work.busy === "replay"} onClick=${replay}>Replay all pinned<//>`}
    <${TwoPress} again="Press again to delete the calls of this server" busy=${work.busy === "clear"} onClick=${clear}>
      Delete all of this server
    <//>
    <${ErrorNote} error=${work.error} />
  </div>`;
}

/** The ended and running calls that a replay of all pinned entries has started. */
function Replayed({ target, ids }) {
  const { data } = useAction("calls.list", target, "calls");
  const calls = (data?.calls ?? []).filter((each) => ids.includes(each.id)).reverse();
  return html`<${Panel} title="Replayed">
    <ol>
      ${calls.map(
        (each) => html`<li key=${each.id}>
          <${Text}>${each.name}<//>: ${each.state}
          ${each.is_error ? " with an error" : ""} ${formatSeconds(each.seconds)}
        </li>`,
      )}
    </ol>
  <//>`;
}

/** The two sides of a comparison; a third choice takes the place of the first. */
function useSides() {
  const [chosen, setChosen] = useState([]);
  const [sides, setSides] = useState(null);
  const choose = (side, isOn) => {
    const others = chosen.filter((each) => keyOf(each) !== keyOf(side));
    setChosen(isOn ? [...others, side].slice(-2) : others);
  };
  return { chosen, choose, sides, setSides };
}

/** The list with its filters, and what can be done with several calls. */
function Calls({ target, session, openId, chosen, onChoose, onCompare, onReplayed, onDeleted }) {
  const [filter, setFilter] = useState({ text: "", pinned: false, all_targets: false });
  const [count, setCount] = useState(PAGE);
  const text = useSettled(filter.text);
  const asked = { ...filter, text, count: count + 1 };
  const { data, error, isLoading } = useAction("history.list", target, "history", asked);
  const entries = (data?.entries ?? []).slice(0, count);
  const hasMore = (data?.entries ?? []).length > count;
  const change = (more) => {
    setFilter({ ...filter, ...more });
    setCount(PAGE);
  };
  return html`<${Panel} title="Calls">
    <${Filters} filter=${filter} change=${change} />
    ${data?.note
      ? html`<p class="note is-warn"><${Text}>${data.note}<//></p>`
      : data?.keeps === false && html`<p class="quiet">This history ends with the inspector.</p>`}
    <${ErrorNote} error=${error} />
    ${isLoading && html`<p class="quiet">Loading.</p>`}
    ${data &&
    entries.length === 0 &&
    html`<${Empty}>No call matches. Each call that you make is kept here.<//>`}
    ${entries.length > 0 &&
    html`<${EntryTable}
      entries=${entries}
      openId=${openId}
      onOpen=${(id) => go(target, "history", String(id))}
      chosen=${chosen}
      onChoose=${onChoose}
    />`}
    ${hasMore && html`<${Button} onClick=${() => setCount(count + PAGE)}>Show more<//>`}
    ${session?.kind === "live" &&
    html`<${Fold} title="Calls of this session, to compare">
      <${SessionCalls} target=${target} chosen=${chosen} onChoose=${onChoose} />
    <//>`}
    <div class="actions">
      <${Button} disabled=${chosen.length !== 2} onClick=${onCompare}>Compare the two chosen<//>
      <span class="quiet">${chosen.length} of 2 chosen</span>
    </div>
    ${entries.length > 0 &&
    html`<${Bulk}
      target=${target}
      canSend=${session?.can_send ?? false}
      onReplayed=${onReplayed}
      onDeleted=${onDeleted}
    />`}
  <//>`;
}

export function Pane({ target, name }) {
  const [replayed, setReplayed] = useState(null);
  const { chosen, choose, sides, setSides } = useSides();
  const { data: session } = useAction("session.get", target, "session");
  const close = () => {
    go(target, "history");
    const row = document.getElementById(`history-${name}`);
    if (row) row.focus();
    else focusPane();
  };
  return html`<div class="pane" data-pane="history">
    ${name &&
    html`<${HistoryEntry}
      key=${name}
      target=${target}
      id=${name}
      canSend=${session?.can_send ?? false}
      onClose=${close}
    />`}
    ${sides &&
    html`<${Comparison}
      key=${keyOf(sides)}
      target=${target}
      left=${sides[0]}
      right=${sides[1]}
      onClose=${() => setSides(null)}
    />`}
    ${replayed && html`<${Replayed} target=${target} ids=${replayed} />`}
    <${Calls}
      target=${target}
      session=${session}
      openId=${name}
      chosen=${chosen}
      onChoose=${choose}
      onCompare=${() => setSides(chosen)}
      onReplayed=${setReplayed}
      onDeleted=${close}
    />
  </div>`;
}
