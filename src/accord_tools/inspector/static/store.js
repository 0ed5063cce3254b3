// What the page knows: answers of actions, asked for again when the feed says that they changed.
import { useEffect, useRef, useState } from "./preact.js";
import { call, readFeed } from "./api.js";

const RETRY = 1000;
const listeners = new Set();
const versions = new Map();
let connected = false;
let refused = false;

function keyOf(target, area) {
  return target + " " + area;
}

function tell() {
  for (const listener of listeners) listener();
}

/** Keep the feed open while the tab is visible; a hidden tab does not hold a connection. */
export async function followFeed() {
  let version = 0;
  for (;;) {
    if (document.hidden) {
      await new Promise((done) =>
        document.addEventListener("visibilitychange", done, { once: true }),
      );
      continue;
    }
    const control = new AbortController();
    const hide = () => document.hidden && control.abort();
    document.addEventListener("visibilitychange", hide);
    try {
      await readFeed(
        version,
        (line) => {
          version = line.version;
          for (const [target, area] of line.changed) {
            versions.set(keyOf(target, area), line.version);
          }
          connected = true;
          refused = false;
          tell();
        },
        control.signal,
      );
    } catch (error) {
      // The next turn tries again; a page that was hidden waits first.
      refused = error.status === 401;
    } finally {
      document.removeEventListener("visibilitychange", hide);
    }
    if (!document.hidden) {
      connected = false;
      tell();
      await new Promise((done) => setTimeout(done, RETRY));
    }
  }
}

/** Draw again when a value of the store changes, and only then. */
function useStore(read) {
  const [, setValue] = useState(read());
  const reading = useRef(read);
  reading.current = read;
  useEffect(() => {
    const listener = () => setValue(reading.current());
    listeners.add(listener);
    listener();
    return () => listeners.delete(listener);
  }, []);
  return read();
}

/** Whether the feed is connected. */
export function useFeed() {
  return useStore(() => connected);
}

/** Whether the key of this page is wrong, as after a new launch on the same port. */
export function useRefused() {
  return useStore(() => refused);
}

/** The version of an area: use it as a dependency of effects. */
export function useVersion(target, area) {
  return useStore(() => versions.get(keyOf(target, area)) ?? 0);
}

/**
 * The answer of an action, asked for again whenever the area changes.
 * Returns { data, error, isLoading }; the last data stay while newer ones are on their way.
 */
export function useAction(name, target, area, params = {}) {
  const version = useVersion(target, area);
  const [state, setState] = useState({ data: null, error: null, isLoading: true });
  const asked = JSON.stringify([name, target, params]);
  const busy = useRef(false);
  const again = useRef(false);
  const latest = useRef(asked);
  latest.current = asked;
  useEffect(() => {
    async function ask() {
      if (busy.current) {
        again.current = true;
        return;
      }
      busy.current = true;
      do {
        again.current = false;
        const question = latest.current;
        const [action, index, given] = JSON.parse(question);
        let next;
        try {
          next = { data: await call(action, { target: index, ...given }), error: null };
        } catch (error) {
          next = { error };
        }
        if (question === latest.current) {
          setState((before) => ({ ...before, ...next, isLoading: false }));
        } else {
          again.current = true;
        }
      } while (again.current);
      busy.current = false;
    }
    ask();
  }, [asked, version]);
  return state;
}
