// The log: filters, the list of messages, and the message that is open.
import { html, useEffect, useRef, useState } from "../preact.js";
import { call } from "../api.js";
import { Button, Empty, ErrorNote, Sign, announce, formatCount, plural } from "../ui.js";
import { Detail } from "./detail.js";
import { EVERYTHING, Filters } from "./filters.js";
import { onWish, takeWish } from "./focus.js";
import { LogList } from "./list.js";
import { useRows } from "./rows.js";

const NO_PAIRS = new Set();

function Counters({ counters }) {
  return html`<span class="quiet">${plural(counters.messages, "message")}</span>
    ${counters.fail > 0 && html`<${Sign} severity="fail" count=${formatCount(counters.fail)} word="failed" />`}
    ${counters.warn > 0 && html`<${Sign} severity="warn" count=${formatCount(counters.warn)} word="warned" />`}
    ${counters.dropped > 0 && html`<span class="quiet">${formatCount(counters.dropped)} not kept</span>`}`;
}

/** Find the place of a message among the rows that the filter lets through. */
async function placeOf(target, filter, n) {
  const ask = (start) => call("log.rows", { target, start, count: 1, filter });
  let low = 0;
  let high = (await ask(0)).total - 1;
  while (low <= high) {
    const middle = Math.floor((low + high) / 2);
    const found = (await ask(middle)).rows[0];
    if (!found) return null;
    if (found.n === n) return { index: middle, row: found };
    if (found.n < n) low = middle + 1;
    else high = middle - 1;
  }
  return null;
}

/** The chosen row: its place and its number; the place is corrected when rows move. */
function useChosen(log) {
  const [chosen, setChosen] = useState(null);
  const row = chosen && log.rowAt(chosen.index);
  useEffect(() => {
    if (!chosen || !row) return;
    if (chosen.n === null) setChosen({ ...chosen, n: row.n, row });
    else if (row.n === chosen.n && row !== chosen.row) setChosen({ ...chosen, row });
    else if (row.n !== chosen.n) {
      for (const [index, each] of log.rows) {
        if (each.row.n === chosen.n) setChosen({ index, n: chosen.n, row: each.row });
      }
    }
  });
  return [chosen, setChosen];
}

export function LogView({ target, canClear, onClose }) {
  const [filter, setFilter] = useState(EVERYTHING);
  const [isFollowing, setFollowing] = useState(true);
  const [seen, setSeen] = useState(0);
  const [isOpen, setOpen] = useState(false);
  const [related, setRelated] = useState([]);
  const [wanted, setWanted] = useState(null);
  const box = useRef(null);
  const log = useRows(target, filter, isFollowing);
  const [chosen, setChosen] = useChosen(log);

  useEffect(() => {
    if (isFollowing) setSeen(log.total);
  }, [isFollowing, log.total]);
  const changeFilter = (next) => {
    setFilter(next);
    setChosen(null);
    setFollowing(true);
  };
  const focusGrid = () => box.current?.querySelector("[role=grid]")?.focus();
  const showRow = async (n) => {
    let found = await placeOf(target, filter, n);
    if (!found) {
      setFilter({ ...EVERYTHING, with_http: true });
      found = await placeOf(target, { ...EVERYTHING, with_http: true }, n);
    }
    if (!found) return;
    setChosen({ index: found.index, n, row: found.row });
    setWanted({ index: found.index });
    setOpen(true);
  };
  useEffect(() => {
    const follow = () => {
      const wish = takeWish();
      if (wish?.filter) changeFilter({ ...EVERYTHING, ...wish.filter });
      if (wish?.row != null) showRow(wish.row);
    };
    follow();
    return onWish(follow);
  }, [target]);
  const clear = () => {
    call("log.clear", { target }).catch((error) => announce(error.message));
    setChosen(null);
    setFollowing(true);
  };
  const close = () => {
    setOpen(false);
    focusGrid();
  };
  const pairs = chosen?.row ? new Set([...related, chosen.row.pair]) : NO_PAIRS;
  const fresh = log.total - seen;
  return html`<aside class="log" aria-label="Log" ref=${box}>
    <div class="log-head">
      <div class="bar">
        <h2>Log</h2>
        <${Counters} counters=${log.counters} />
        <span class="push">
          ${canClear &&
          html`<${Button} kind="plain small" title="Forget all messages" onClick=${clear}>Clear<//>`}
          <${Button} kind="plain small" title="Hide the log" onClick=${onClose}>Hide<//>
        </span>
      </div>
      <${Filters} filter=${filter} onFilter=${changeFilter} />
    </div>
    <${ErrorNote} error=${log.error} />
    <div class="log-list">
      <${LogList}
        log=${log}
        chosen=${chosen?.index ?? null}
        onChoose=${(index) => {
          const row = log.rowAt(index);
          setRelated([]);
          setChosen({ index, n: row?.n ?? null, row: row ?? null });
        }}
        onOpen=${() => setOpen(true)}
        onEscape=${() => setOpen(false)}
        isFollowing=${isFollowing}
        onFollow=${setFollowing}
        pairs=${pairs}
        wanted=${wanted}
      />
      ${log.isLoaded &&
      log.total === 0 &&
      html`<div class="log-nothing"><${Empty}>No message fits. Messages appear here as they travel.<//></div>`}
      ${!isFollowing &&
      html`<${Button} kind="plain log-new" onClick=${() => {
        setFollowing(true);
        focusGrid();
      }}>
        ${fresh > 0 ? `${formatCount(fresh)} new, ` : ""}follow <span aria-hidden="true">↓</span>
      <//>`}
    </div>
    ${isOpen &&
    chosen?.row &&
    html`<${Detail}
      target=${target}
      row=${chosen.row}
      onClose=${close}
      onRow=${showRow}
      onFilter=${(part) => changeFilter({ ...EVERYTHING, ...part })}
      onRelated=${setRelated}
    />`}
  </aside>`;
}
