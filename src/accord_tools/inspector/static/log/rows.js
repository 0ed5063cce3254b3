// The rows of the log that are in view, asked for slice by slice.
import { useEffect, useRef, useState } from "../preact.js";
import { call } from "../api.js";
import { useVersion } from "../store.js";

const KEPT = 4000;
const MARGIN = 40;
// While new rows are followed they come at the pace of the feed; else the counters are enough.
const CALM = 500;

const NOTHING = { messages: 0, fail: 0, warn: 0, stderr: 0, dropped: 0 };

function fresh() {
  return { rows: new Map(), total: 0, firstKept: 0, counters: NOTHING, isLoaded: false };
}

/** Forget rows far from the view, so that a long session does not fill the memory. */
function trim(rows, middle) {
  if (rows.size <= KEPT) return;
  for (const index of rows.keys()) {
    if (Math.abs(index - middle) > KEPT / 4) rows.delete(index);
  }
}

/**
 * Rows by their place among those that the filter lets through.
 * Returns { total, counters, rowAt, want, error, isLoaded }; `want(start, count)` says what is in
 * view, `isFollowing` asks for the newest instead.
 */
export function useRows(target, filter, isFollowing) {
  const version = useVersion(target, "log");
  const key = JSON.stringify(filter);
  const [, redraw] = useState(0);
  const [error, setError] = useState(null);
  const own = useRef({ ...fresh(), key, busy: false, again: false, start: 0, count: 60, asked: 0 });
  const state = own.current;
  if (state.key !== key) Object.assign(state, fresh(), { key, start: 0 });
  state.version = version;
  state.isFollowing = isFollowing;

  const ask = useRef(async () => {
    if (state.busy) {
      state.again = true;
      return;
    }
    state.busy = true;
    do {
      state.again = false;
      await askOnce(state, target, setError);
      redraw((count) => count + 1);
    } while (state.again);
    state.busy = false;
  }).current;

  useEffect(() => {
    const wait = isFollowing ? 0 : Math.max(0, state.asked + CALM - performance.now());
    const timer = setTimeout(ask, wait);
    // A timer that is due soon stays, or steady traffic would put the question off for ever.
    return wait > 0 ? undefined : () => clearTimeout(timer);
  }, [key, version, isFollowing]);

  const want = (start, count) => {
    state.start = start;
    state.count = count;
    for (let index = start; index < Math.min(start + count, state.total); index += 1) {
      if (state.rows.get(index)?.version !== state.version) {
        ask();
        return;
      }
    }
  };
  const rowAt = (index) => state.rows.get(index)?.row;
  const { total, counters, isLoaded, rows } = state;
  return { total, counters, isLoaded, rowAt, want, error, rows, refresh: ask };
}

async function askOnce(state, target, setError) {
  const { key, version } = state;
  const count = state.count + 2 * MARGIN;
  const start = state.isFollowing ? -1 : Math.max(0, state.start - MARGIN);
  state.asked = performance.now();
  let data;
  try {
    data = await call("log.rows", { target, start, count, filter: JSON.parse(key) });
  } catch (problem) {
    setError(problem);
    return;
  }
  setError(null);
  if (state.key !== key) {
    state.again = true;
    return;
  }
  // Rows that were dropped at the front, or cleared, move all others.
  if (data.first_kept !== state.firstKept || data.total < state.total) state.rows.clear();
  data.rows.forEach((row, offset) => state.rows.set(data.start + offset, { row, version }));
  trim(state.rows, data.start);
  Object.assign(state, {
    total: data.total,
    firstKept: data.first_kept,
    counters: data.counters,
    isLoaded: true,
  });
}
