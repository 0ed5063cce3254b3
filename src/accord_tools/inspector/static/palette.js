// The palette: type a few letters, go to a pane, a tool, a resource, a prompt, or do something.
import { html, useEffect, useId, useMemo, useRef, useState } from "./preact.js";
import { call } from "./api.js";
import { useAction } from "./store.js";
import { Dialog, visit, visitEntry } from "./keys.js";
import { setTheme } from "./theme.js";
import { panesOf } from "./shell/navigation.js";
import { shown } from "./text.js";
import { announce, Text } from "./ui.js";

const MOST = 12;
const KINDS = [
  ["tools", "tools", "tool"],
  ["resources", "resources", "resource"],
  ["prompts", "prompts", "prompt"],
];

function actionsOf(target, targets, onLog) {
  const current = targets[target];
  const found = panesOf(current?.kind).map((pane) => ({
    title: pane.title,
    what: "pane",
    run: () => visit(target, pane.id),
  }));
  targets.forEach((each, index) => {
    if (index !== target) {
      found.push({ title: each.title, what: "server", run: () => visit(index, "") });
    }
  });
  if (current?.kind === "live") {
    for (const [title, name] of [
      ["Restart the connection", "session.restart"],
      ["Disconnect", "session.disconnect"],
    ]) {
      const run = () => call(name, { target }).catch((error) => announce(error.message));
      found.push({ title, what: "action", run });
    }
  }
  found.push({ title: "Show the log", what: "action", run: () => onLog(true) });
  for (const name of ["light", "dark", "system"]) {
    found.push({ title: `Theme: ${name}`, what: "action", run: () => setTheme(name) });
  }
  return found;
}

function useEntries(target, text) {
  return KINDS.flatMap(([kind, pane, what]) => {
    const params = { kind, text, start: 0, count: MOST };
    const { data } = useAction("catalog.list", target, "catalog", params);
    return (data?.entries ?? []).map((entry) => ({
      title: entry.name,
      detail: entry.title,
      what,
      run: () => visitEntry(target, pane, entry.name),
    }));
  });
}

export function Palette({ target, targets, onClose, onLog }) {
  const id = useId();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const entries = useEntries(target, text);
  const actions = useMemo(() => actionsOf(target, targets, onLog), [target, targets]);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (each) => {
    const hay = `${each.title} ${each.detail ?? ""} ${each.what}`.toLowerCase();
    return words.every((word) => hay.includes(word));
  };
  // What begins with the text comes first.
  const rank = (each) => (each.title.toLowerCase().startsWith(words[0] ?? "") ? 0 : 1);
  const found = [...actions, ...entries]
    .filter(fits)
    .sort((one, other) => rank(one) - rank(other))
    .slice(0, MOST * 2);
  const chosen = Math.min(at, found.length - 1);
  const list = useRef(null);
  useEffect(() => list.current?.children[chosen]?.scrollIntoView({ block: "nearest" }), [chosen]);
  const run = (each) => {
    onClose();
    setTimeout(each.run, 0);
  };
  const onKeyDown = (event) => {
    if (event.key === "ArrowDown") setAt(Math.min(found.length - 1, chosen + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, chosen - 1));
    else if (event.key === "Enter" && found[chosen]) run(found[chosen]);
    else return;
    event.preventDefault();
  };
  return html`<${Dialog} title="Go to" onClose=${onClose} kind="palette">
    <input
      type="text"
      role="combobox"
      aria-expanded="true"
      aria-controls=${id}
      aria-activedescendant=${found[chosen] && `${id}-${chosen}`}
      aria-label="Go to a pane, a tool or an action"
      placeholder="pane, tool, resource, prompt, action"
      autocomplete="off"
      spellcheck=${false}
      value=${text}
      onInput=${(event) => {
        setText(event.currentTarget.value);
        setAt(0);
      }}
      onKeyDown=${onKeyDown}
    />
    <ul role="listbox" ref=${list} id=${id} aria-label="Found">
      ${found.map(
        (each, index) => html`<li
          key=${index}
          id=${`${id}-${index}`}
          role="option"
          aria-selected=${index === chosen ? "true" : "false"}
          onClick=${() => run(each)}
        >
          <span><${Text}>${each.title}<//></span>
          <span class="quiet">${each.detail ? shown(each.detail) + " · " : ""}${each.what}</span>
        </li>`,
      )}
    </ul>
    ${found.length === 0 && html`<p class="empty">Nothing has this name.</p>`}
  <//>`;
}
