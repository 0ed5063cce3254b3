// The rows of the log as a grid of which only the visible part is drawn.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../preact.js";
import { hasLetters } from "../keys.js";
import { shown } from "../text.js";
import { Sign, Text, formatCount, formatSeconds, formatSize, formatTime } from "../ui.js";

const ROW = 26;
const HEAD = 24;
const MARGIN = 8;
// Browsers limit the height of an element; above this the scroll position is scaled.
const TALLEST = 8_000_000;
// Statuses of HTTP from here on say that a request failed.
const FAILED = 400;

const SENDERS = {
  client: ["→", "from the client"],
  server: ["←", "from the server"],
  stderr: ["⋮", "standard error"],
};
const KIND_WORDS = { result: "result", error: "error", batch: "batch", refusal: "refused" };

function Verdict({ row }) {
  if (row.severity) {
    return html`<${Sign} severity=${row.severity} short count=${row.breaches > 1 ? row.breaches : null} />`;
  }
  return row.kept > 0 && html`<${Sign} severity="pass" short />`;
}

function Row({ row, index, top, isChosen, pairs, onChoose, onOpen, onFollow }) {
  const id = "log-row-" + index;
  const style = { top: `${top}px` };
  if (!row) return html`<div class="log-row" role="row" style=${style} aria-rowindex=${index + 2}></div>`;
  const [sign, sender] = SENDERS[row.from] ?? ["·", row.from];
  const isPaired = pairs.has(row.n);
  const word = KIND_WORDS[row.kind];
  return html`<div
    class=${`log-row from-${row.from} kind-${row.kind}${isPaired ? " is-paired" : ""}`}
    role="row"
    id=${id}
    style=${style}
    aria-rowindex=${index + 2}
    aria-selected=${isChosen ? "true" : "false"}
    onClick=${() => {
      onChoose(index);
      onOpen();
      onFollow(false);
    }}
  >
    <span role="gridcell" class="end">${row.n}</span>
    <span role="gridcell" class="end optional" title=${formatTime(row.at)}>${row.t.toFixed(3)}</span>
    <span role="gridcell"><span aria-hidden="true">${sign}</span><span class="unseen">${sender}</span></span>
    <span role="gridcell" class="what">
      ${row.conversation !== "main" && html`<span class="chip">${shown(row.conversation)}</span> `}
      ${row.method && html`<b><${Text}>${row.method}<//></b> `}
      ${word && html`<span class=${row.kind === "error" || row.kind === "refusal" ? "sign is-warn" : "quiet"}>${word} </span>`}
      ${row.status >= FAILED && row.kind !== "http" && row.kind !== "refusal" && html`<span class="sign is-warn">HTTP ${row.status} </span>`}
      ${row.rule && html`<span class="chip" title=${`the standing answer ${row.rule}`}>by rule</span> `}
      <${Text}>${row.brief}<//>${isPaired && html`<span class="unseen"> (belongs to the chosen message)</span>`}
    </span>
    <span role="gridcell" class="end optional roomy">${shown(row.id ?? "")}</span>
    <span role="gridcell" class="end optional roomy">${formatSize(row.size)}</span>
    <span role="gridcell" class="end">${formatSeconds(row.took)}</span>
    <span role="gridcell"><${Verdict} row=${row} /></span>
  </div>`;
}

function HeadRow() {
  return html`<div class="log-row log-columns" role="row" aria-rowindex="1">
    <span role="columnheader" class="end">no.</span>
    <span role="columnheader" class="end optional">time</span>
    <span role="columnheader"><span class="unseen">direction</span></span>
    <span role="columnheader">message</span>
    <span role="columnheader" class="end optional roomy">id</span>
    <span role="columnheader" class="end optional roomy">size</span>
    <span role="columnheader" class="end">took</span>
    <span role="columnheader"><span class="unseen">verdict</span></span>
  </div>`;
}

/** The size of the visible part, kept up to date. */
function useHeight(box) {
  const [height, setHeight] = useState(400);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setHeight(box.current?.clientHeight || 400));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return Math.max(ROW, height - HEAD);
}

/** What is in view: the first row, how many, and where the rows are drawn. */
function measure(total, view, scrollTop) {
  const full = total * ROW;
  const height = Math.min(full, TALLEST);
  const room = Math.max(1, height - view);
  const at = Math.min(Math.max(0, scrollTop), room);
  const offset = full <= TALLEST ? at : (at / room) * (full - view);
  const first = Math.max(0, Math.floor(offset / ROW) - MARGIN);
  const count = Math.min(total - first, Math.ceil(view / ROW) + 2 * MARGIN);
  const topOf = (index) => at + index * ROW - offset;
  // Where to scroll so that a row is at the top.
  const scrollTo = (index) =>
    full <= TALLEST ? index * ROW : ((index * ROW) / (full - view)) * room;
  return { height, first, count: Math.max(0, count), offset, topOf, scrollTo };
}

export function LogList({ log, chosen, onChoose, onOpen, onEscape, isFollowing, onFollow, pairs, wanted }) {
  const box = useRef(null);
  const last = useRef(0);
  const frame = useRef(0);
  const [scrollTop, setScrollTop] = useState(0);
  const view = useHeight(box);
  const { total } = log;
  const part = measure(total, view, scrollTop);

  useEffect(() => log.want(part.first, part.count), [part.first, part.count, total]);
  useLayoutEffect(() => {
    if (isFollowing) box.current.scrollTop = part.height;
  }, [isFollowing, part.height, view]);

  const read = () => {
    frame.current = 0;
    const at = box.current?.scrollTop ?? 0;
    const isAtEnd = at + view >= part.height - ROW;
    if (isAtEnd) onFollow(true);
    else if (at < last.current - 1) onFollow(false);
    last.current = at;
    setScrollTop(at);
  };
  const latest = useRef(read);
  latest.current = read;
  const onScroll = () => {
    if (!frame.current) frame.current = requestAnimationFrame(() => latest.current());
  };
  const bringIntoView = (index) => {
    const y = index * ROW - part.offset;
    if (y < 0) box.current.scrollTop = part.scrollTo(index);
    else if (y + ROW > view) box.current.scrollTop = part.scrollTo(index - view / ROW + 1);
  };
  // The list gets smaller when a message opens; the chosen row stays in view.
  useEffect(() => {
    if (chosen !== null && !isFollowing) bringIntoView(chosen);
  }, [view, chosen]);
  useEffect(() => {
    if (wanted) {
      onFollow(false);
      bringIntoView(wanted.index);
    }
  }, [wanted]);
  // Keys may come faster than the page is drawn; each counts from the one before.
  const current = useRef(chosen);
  useLayoutEffect(() => {
    current.current = chosen;
  }, [chosen]);
  const move = (index) => {
    const next = Math.min(total - 1, Math.max(0, index));
    if (next < 0) return;
    current.current = next;
    onChoose(next);
    if (next < total - 1) onFollow(false);
    bringIntoView(next);
  };
  const onKeyDown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(view / ROW) - 1);
    const at = current.current ?? (event.key === "ArrowUp" || event.key === "k" ? total : -1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    if (hasLetters()) Object.assign(steps, { j: 1, k: -1 });
    if (event.key in steps) move(at + steps[event.key]);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") {
      move(total - 1);
      onFollow(true);
    } else if (event.key === "Enter" && current.current !== null) onOpen(true);
    else if (event.key === "Escape") onEscape();
    else return;
    event.preventDefault();
  };
  const drawn = Array.from({ length: part.count }, (_, each) => part.first + each);
  const isChosenDrawn = chosen !== null && log.rowAt(chosen) && drawn.includes(chosen);
  return html`<div
    class="log-grid"
    ref=${box}
    role="grid"
    tabindex="0"
    aria-label=${`Messages, ${formatCount(total)} rows`}
    aria-rowcount=${total + 1}
    aria-activedescendant=${isChosenDrawn ? "log-row-" + chosen : undefined}
    onScroll=${onScroll}
    onKeyDown=${onKeyDown}
  >
    <${HeadRow} />
    <div class="log-space" role="rowgroup" style=${{ height: `${part.height}px` }}>
      ${drawn.map(
        (index) => html`<${Row}
          key=${index}
          index=${index}
          row=${log.rowAt(index)}
          top=${part.topOf(index)}
          isChosen=${index === chosen}
          pairs=${pairs}
          onChoose=${onChoose}
          onOpen=${onOpen}
          onFollow=${onFollow}
        />`,
      )}
    </div>
  </div>`;
}
