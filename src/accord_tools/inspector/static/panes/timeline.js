// The requests of the log on a time axis: one lane for each, newest last.
import { html, useEffect, useRef, useState } from "../preact.js";
import { call } from "../api.js";
import { useVersion } from "../store.js";
import { showInLog } from "../log/focus.js";
import { shown } from "../text.js";
import {
  Button,
  Check,
  Empty,
  ErrorNote,
  Field,
  Sign,
  Text,
  announce,
  formatCount,
  formatSeconds,
} from "../ui.js";
import { useSettled } from "./pane_parts.js";
import { MOVES, WHOLE, follow, marksInWords, moveView, shareOf, ticksOf } from "./timeline_view.js";

const LANES = 500;
// A busy log changes ten times a second; eyes follow one picture a second.
const PAUSE = 1000;
const PAGE = 10;
const SENDERS = { client: ["→", "from the client"], server: ["←", "from the server"] };
const STATES = { answered: "answered", error: "error", open: "open", cancelled: "cancelled" };
const SIGNS = { progress: "•", notification: "·", cancelled: "×", question: "?", stderr: "|" };

/** The answer of log.timeline, asked for again when the log has changed, once a second at most. */
function useTimeline(target, filter) {
  const version = useVersion(target, "log");
  const [state, setState] = useState({ data: null, error: null });
  const asked = JSON.stringify(filter);
  const timing = useRef({ timer: null, last: 0, asked: "" });
  useEffect(() => {
    const { current } = timing;
    const ask = async () => {
      current.timer = null;
      current.last = Date.now();
      try {
        const data = await call("log.timeline", { target, count: LANES, filter: JSON.parse(asked) });
        if (current.asked === asked) setState({ data, error: null });
      } catch (error) {
        if (current.asked === asked) setState((before) => ({ ...before, error }));
      }
    };
    const isOther = current.asked !== asked;
    current.asked = asked;
    if (isOther) clearTimeout(current.timer);
    else if (current.timer !== null) return;
    const wait = isOther ? 0 : Math.max(0, current.last + PAUSE - Date.now());
    current.timer = setTimeout(ask, wait);
  }, [target, asked, version]);
  useEffect(() => () => clearTimeout(timing.current.timer), []);
  return state;
}

function positionOf(data, value) {
  return data.has_times ? `${value.toFixed(3)} s` : `row ${value}`;
}

function Bar({ lane, view }) {
  const start = shareOf(view, lane.start);
  const end = lane.end === null ? 100 : shareOf(view, lane.end);
  if (end < 0) return html`<span class="lane-beyond">‹</span>`;
  if (start > 100) return html`<span class="lane-beyond is-later">›</span>`;
  const left = Math.max(0, start);
  const style = { left: `${left}%`, width: `${Math.max(0, Math.min(100, end) - left)}%` };
  return html`<span class=${`lane-bar is-${lane.state}`} style=${style}></span>`;
}

function Marks({ lane, view }) {
  return lane.marks.map((mark) => {
    const at = shareOf(view, mark.t);
    if (at < 0 || at > 100) return null;
    const open = (event) => {
      event.stopPropagation();
      showInLog({ row: mark.n });
    };
    return html`<span
      key=${mark.n}
      class=${`lane-mark is-${mark.kind}`}
      style=${{ left: `${at}%` }}
      title=${`${mark.kind}, row ${mark.n}`}
      onClick=${open}
      >${SIGNS[mark.kind] ?? "·"}</span
    >`;
  });
}

function Lane({ data, lane, index, view, isChosen, onOpen }) {
  const [sign, sender] = SENDERS[lane.sender] ?? ["·", lane.sender];
  const took = lane.end === null ? null : lane.end - lane.start;
  const marks = marksInWords(lane.marks);
  return html`<div
    class="lane"
    role="row"
    id=${`lane-${lane.n}`}
    aria-rowindex=${index + 2}
    aria-selected=${isChosen ? "true" : "false"}
    onClick=${onOpen}
  >
    <span role="gridcell" class="end">${lane.n}</span>
    <span role="gridcell" class="what">
      <span aria-hidden="true">${sign} </span><span class="unseen">${sender} </span>
      ${lane.conversation !== "main" && html`<span class="chip">${shown(lane.conversation)}</span> `}
      <b><${Text}>${lane.method}<//></b> <${Text}>${lane.brief}<//>
      ${lane.severity && html`${" "}<${Sign} severity=${lane.severity} short />`}
    </span>
    <span role="gridcell" class="end">${positionOf(data, lane.start)}</span>
    <span role="gridcell" class=${`end state is-${lane.state}`}>
      ${lane.state === "answered" ? "" : `${STATES[lane.state]} `}
      ${lane.state === "answered" && html`<span class="unseen">answered after </span>`}
      ${took !== null && data.has_times ? formatSeconds(took) : ""}
    </span>
    <span role="gridcell" class="track">
      <span class="unseen">${marks}</span>
      <span class="lane-space" aria-hidden="true">
        <${Bar} lane=${lane} view=${view} /><${Marks} lane=${lane} view=${view} />
      </span>
    </span>
  </div>`;
}

function HeadRow({ data, view }) {
  return html`<div class="lane lane-columns" role="row" aria-rowindex="1">
    <span role="columnheader" class="end">no.</span>
    <span role="columnheader" class="what">request</span>
    <span role="columnheader" class="end">${data.has_times ? "start" : "place"}</span>
    <span role="columnheader" class="end">took</span>
    <span role="columnheader" class="track">
      <span class="unseen">while it was open</span>
      <span class="lane-space" aria-hidden="true">
        ${ticksOf(view, data.has_times ? " s" : "").map(
          ({ at, label }) =>
            html`<span key=${label} class="lane-tick" style=${{ left: `${at}%` }}>${label}</span>`,
        )}
      </span>
    </span>
  </div>`;
}

function Lanes({ data, view, onView }) {
  const { lanes } = data;
  const [chosen, setChosen] = useState(null);
  const box = useRef(null);
  const index = lanes.findIndex((lane) => lane.n === chosen);
  const current = useRef(index);
  current.current = index;
  const choose = (at) => {
    const lane = lanes[Math.min(lanes.length - 1, Math.max(0, at))];
    current.current = lanes.indexOf(lane);
    setChosen(lane.n);
    const row = document.getElementById(`lane-${lane.n}`);
    row?.scrollIntoView({ block: "nearest" });
  };
  const open = (lane) => {
    setChosen(lane.n);
    showInLog({ row: lane.n });
  };
  // The newest lanes are in view until a person chooses one.
  const newest = lanes.at(-1).n;
  useEffect(() => {
    if (chosen === null) box.current.scrollTop = box.current.scrollHeight;
  }, [newest]);
  const onKeyDown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = current.current;
    const from = at < 0 ? lanes.length : at;
    const steps = { ArrowDown: at < 0 ? -1 : 1, ArrowUp: -1, PageDown: PAGE, PageUp: -PAGE };
    if (event.key in steps) choose(from + steps[event.key]);
    else if (event.key === "Home") choose(0);
    else if (event.key === "End") choose(lanes.length - 1);
    else if (event.key === "Enter" && lanes[at]) open(lanes[at]);
    else if (event.key in MOVES) onView(MOVES[event.key], lanes[at]);
    else return;
    event.preventDefault();
  };
  return html`<div
    class="lanes"
    ref=${box}
    role="grid"
    tabindex="0"
    aria-label=${`Requests, ${formatCount(lanes.length)} lanes`}
    aria-describedby="timeline-keys"
    aria-rowcount=${lanes.length + 1}
    aria-activedescendant=${index < 0 ? undefined : `lane-${chosen}`}
    onKeyDown=${onKeyDown}
  >
    <${HeadRow} data=${data} view=${view} />
    <div role="rowgroup">
      ${lanes.map(
        (lane, each) => html`<${Lane}
          key=${lane.n}
          data=${data}
          lane=${lane}
          index=${each}
          view=${view}
          isChosen=${lane.n === chosen}
          onOpen=${() => open(lane)}
        />`,
      )}
    </div>
  </div>`;
}

const BUTTONS = [
  ["in", "Zoom in"],
  ["out", "Zoom out"],
  ["earlier", "Earlier"],
  ["later", "Later"],
  ["whole", "Whole"],
];

/** The lanes with the buttons that move the view; `span` is null while all is shown. */
function Axis({ data }) {
  const [span, setSpan] = useState(WHOLE);
  const view = follow(data, span);
  const onView = (how, lane) => {
    const next = moveView(data, view, how, lane);
    setSpan(next);
    const { from, to } = follow(data, next);
    announce(`From ${positionOf(data, from)} to ${positionOf(data, to)}`);
  };
  return html`<div>
    <div class="actions" role="group" aria-label="Part of the time axis">
      ${BUTTONS.map(
        ([how, title]) =>
          html`<${Button} key=${how} kind="plain small" onClick=${() => onView(how)}>${title}<//>`,
      )}
    </div>
    <${Lanes} data=${data} view=${view} onView=${onView} />
    <p class="quiet" id="timeline-keys">
      Keys: ↑ ↓ between lanes, Enter opens the message in the log, + and - zoom, ← → move, 0 shows
      all.
    </p>
    <p class="quiet">
      Signs: • progress, · notification, ? question of the other side, × cancellation, | standard
      error. A bar to the right edge waits for its answer.
    </p>
  </div>`;
}

function Filters({ filter, onFilter }) {
  const change = (more) => onFilter({ ...filter, ...more });
  return html`<div class="bar">
    <${Field} label="Text in requests">
      <input
        type="search"
        data-filter
        value=${filter.text}
        onInput=${(event) => change({ text: event.currentTarget.value })}
      />
    <//>
    <${Field} label="From">
      <select
        value=${filter.sender}
        onChange=${(event) => change({ sender: event.currentTarget.value })}
      >
        <option value="">both sides</option>
        <option value="client">the client</option>
        <option value="server">the server</option>
      </select>
    <//>
    <${Check} checked=${filter.severity} onChange=${(severity) => change({ severity })}>
      only requests that break a rule
    <//>
  </div>`;
}

export function Pane({ target }) {
  const [filter, setFilter] = useState({ text: "", sender: "", severity: false });
  const text = useSettled(filter.text);
  const { data, error } = useTimeline(target, {
    text: text || null,
    sender: filter.sender || null,
    severity: filter.severity,
  });
  const count = data?.lanes.length ?? 0;
  return html`<div class="pane timeline" data-pane="timeline">
    <${Filters} filter=${filter} onFilter=${setFilter} />
    <${ErrorNote} error=${error} />
    ${!data && !error && html`<p class="quiet">Loading.</p>`}
    ${data && count === 0 && html`<${Empty}>No request fits. Requests appear here as they travel.<//>`}
    ${count > 0 && html`<${Axis} data=${data} />`}
    ${data?.total > count &&
    count === LANES &&
    html`<p class="quiet">
      The newest ${formatCount(count)} of ${formatCount(data.total)} requests; the log has all.
    </p>`}
    ${data && !data.has_times && html`<p class="quiet">The recording has no times; rows stand in their order.</p>`}
  </div>`;
}
