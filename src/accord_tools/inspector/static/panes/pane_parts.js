// What several panes share: work under way, a clock, pages of long lists, clauses, JSON nodes.
import { html, useCallback, useEffect, useRef, useState } from "../preact.js";
import { Button, SafeLink, Text } from "../ui.js";

/**
 * Work that a person starts: `run(what, work)` keeps its name in `busy` and its failure in `error`.
 * `run` returns what the work returns, or undefined after a failure or while other work goes on.
 * Buttons are not disabled meanwhile: a disabled button loses the focus.
 */
export function useNamedWork() {
  const [state, setState] = useState({ busy: "", error: null });
  const isBusy = useRef(false);
  const run = useCallback(async (what, work) => {
    if (isBusy.current) return undefined;
    isBusy.current = true;
    setState({ busy: what, error: null });
    try {
      const result = await work();
      setState({ busy: "", error: null });
      return result ?? null;
    } catch (error) {
      setState({ busy: "", error });
      return undefined;
    } finally {
      isBusy.current = false;
    }
  }, []);
  return { ...state, run };
}

/** The time in seconds since the epoch, drawn again each second while `isOn`. */
export function useNow(isOn) {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = setInterval(() => setNow(Date.now() / 1000), 1000);
    return () => clearInterval(timer);
  }, [isOn]);
  return now;
}

/** A value that follows another one only after it has been quiet for a while. */
export function useSettled(value, milliseconds = 150) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return settled;
}

/** Move the focus to the pane after the element that had it has left. */
export function focusPane() {
  setTimeout(() => {
    const main = document.getElementById("main");
    const active = document.activeElement;
    // A person who went on to the log or the navigation stays there.
    if (active === document.body || main?.contains(active)) main?.focus();
  }, 0);
}

/** Buttons for the pages of a long list. */
export function Pager({ label, start, count, total, onStart }) {
  if (total <= count) return null;
  const last = Math.min(start + count, total);
  const onNext = () => last < total && onStart(start + count);
  return html`<div class="bar" role="group" aria-label=${label}>
    <${Button}
      aria-disabled=${start === 0 ? "true" : undefined}
      onClick=${() => onStart(Math.max(0, start - count))}
    >
      Previous
    <//>
    <span>${start + 1} to ${last} of ${total}</span>
    <${Button} aria-disabled=${last >= total ? "true" : undefined} onClick=${onNext}>Next<//>
  </div>`;
}

/** A button that asks for a second press before it does something that cannot be undone. */
export function TwoPress({ children, again, onClick, busy }) {
  const [isArmed, setArmed] = useState(false);
  const press = () => {
    setArmed(!isArmed);
    if (isArmed) onClick();
  };
  return html`<span class="two-press" onBlurCapture=${() => setArmed(false)}>
    <${Button} kind="danger" busy=${busy} onClick=${press}>
      ${isArmed ? again : children}
    <//>
  </span>`;
}

/** A requirement: its id as a link to the clause, who must keep it, its text, how to mend it. */
export function Clause({ item }) {
  const id = item.id ?? item.requirement;
  return html`<div>
    <p>
      ${item.url ? html`<${SafeLink} href=${item.url}>${id}<//>` : html`<code>${id}</code>`}
      ${" "}<span class="quiet">
        ${[item.level, item.party, item.source].filter(Boolean).join(", ")}
      </span>
    </p>
    ${item.clause && html`<p class="clause"><${Text} lines>${item.clause}<//></p>`}
    ${item.mend && html`<p class="mend"><b>To mend:</b> <${Text} lines>${item.mend}<//></p>`}
  </div>`;
}

/** The node under a path of names and positions in a parsed JSON text, or null. */
export function nodeAt(node, ...path) {
  let found = node;
  for (const step of path) {
    if (found?.kind === "object") {
      found = found.members.findLast(([name]) => name === step)?.[1];
    } else {
      found = found?.kind === "array" ? found.items[step] : null;
    }
  }
  return found ?? null;
}

/** The items of a node: those of a list, or the node alone. */
export function itemsOf(node) {
  if (node === null) return [];
  return node.kind === "array" ? node.items : [node];
}

/** A string, number, boolean or null as text; "" for what is absent or has parts. */
export function scalarAt(node, ...path) {
  const found = nodeAt(node, ...path);
  if (found === null || found.kind === "object" || found.kind === "array") return "";
  return found.value ?? found.text ?? found.kind;
}

/** Hand a text to the person as a file. */
export function saveText(name, text, type = "text/plain") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
