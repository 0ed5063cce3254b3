// A way for panes to point the log at something, even if the log is closed at that time.
const EVENT = "accord-log";
let wanted = null;

/**
 * Show messages in the log: { filter: { call } } or { row: number }.
 * The page opens the log; the log takes the wish when it is drawn.
 */
export function showInLog(wish) {
  wanted = wish;
  dispatchEvent(new CustomEvent(EVENT));
}

/** The last wish, once. */
export function takeWish() {
  const found = wanted;
  wanted = null;
  return found;
}

/** Be called for each wish; returns how to stop. */
export function onWish(listener) {
  addEventListener(EVENT, listener);
  return () => removeEventListener(EVENT, listener);
}
