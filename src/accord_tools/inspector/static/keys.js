// Keys of the whole page, and the dialog that lists them.
import { html, useEffect, useRef, useState } from "./preact.js";
import { focusFirstField } from "./first_field.js";
import { go, lastName } from "./route.js";
import { remember, remembered } from "./theme.js";
import { PANES } from "./shell/navigation.js";
import { Button, Check } from "./ui.js";

const KEY = "accord-keys";
const CHORD = 1500;

/** Whether single letters are keys of the page. */
export function hasLetters() {
  return remembered(KEY, "on") === "on";
}

function isTyping(element) {
  return Boolean(element?.closest?.("input, textarea, select, [contenteditable]"));
}

/**
 * An element that can have the focus.
 * @param {string} selector
 * @param {ParentNode | null | undefined} [within]
 * @returns {HTMLInputElement | null}
 */
export function findElement(selector, within = document) {
  return within?.querySelector(selector) ?? null;
}

/** The filter nearest to where the focus is: of the log, else of the pane. */
function focusFilter() {
  const inLog = document.activeElement?.closest?.(".log");
  const found =
    findElement("[data-filter]", inLog ?? document.getElementById("main")) ??
    findElement("[data-filter]");
  found?.focus();
  found?.select();
}

/** Run what the pane is about; the focus may be anywhere in the pane. */
function runPane(event) {
  const main = document.getElementById("main");
  const isInPane = event.target === document.body || main?.contains(event.target);
  if (!isInPane || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  findElement("[data-run]:not(:disabled)", main)?.click();
}

/** Listen to the keys of the page while it is shown. */
export function useKeys(doing) {
  const current = useRef(doing);
  current.current = doing;
  useEffect(() => {
    let chord = 0;
    const onKeyDown = (event) => {
      const { target, onPalette, onHelp, onLog } = current.current;
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        onPalette();
        return;
      }
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        if (!event.defaultPrevented) runPane(event);
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (!hasLetters() || isTyping(event.target) || document.querySelector("dialog[open]")) return;
      if (Date.now() - chord < CHORD) {
        chord = 0;
        if (event.key === "l") {
          event.preventDefault();
          onLog(true);
          setTimeout(() => findElement(".log [role=grid]")?.focus(), 50);
          return;
        }
        const pane = PANES.find((each) => each.key === event.key);
        if (pane) {
          event.preventDefault();
          visit(target, pane.id);
          return;
        }
      }
      if (event.key === "g") chord = Date.now();
      else if (event.key === "/") {
        event.preventDefault();
        focusFilter();
      } else if (event.key === "?") {
        event.preventDefault();
        onHelp();
      } else if (event.key === "r") {
        findElement("#main [data-run=again]:not(:disabled)")?.click();
      }
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
}

/** A dialog of the browser, which keeps the focus inside and gives it back. */
export function Dialog({ title, onClose, children, kind = "" }) {
  const box = useRef(null);
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    box.current.showModal();
    return () => before?.focus();
  }, []);
  return html`<dialog
    ref=${box}
    class=${kind}
    aria-label=${title}
    onClose=${onClose}
    onClick=${(event) => event.target === box.current && onClose()}
  >
    ${children}
  </dialog>`;
}

const KEYS = [
  ["Ctrl+K", "go to a pane, a tool or an action"],
  ["/", "filter the list of the pane, or the log if the focus is there"],
  ["Ctrl+Enter", "run the tool, read the resource, get the prompt"],
  ["r", "run again"],
  ["g l", "the log"],
  ["j k ↓ ↑", "rows of the log; Home and End go to its ends"],
  ["Enter Escape", "open and close a message of the log"],
  ["+ - ← →", "zoom and move the timeline, if the focus is there"],
  ["?", "these keys"],
];

/** The list of keys. */
export function KeysHelp({ onClose }) {
  const [isOn, setOn] = useState(hasLetters);
  const onChange = (value) => {
    remember(KEY, value ? "on" : "off");
    setOn(value);
  };
  const panes = PANES.map((pane) => [`g ${pane.key}`, pane.title]);
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <h2>Keys</h2>
    <${Check} checked=${isOn} onChange=${onChange}>Single letters are keys<//>
    <div class="columns">
      ${[KEYS, panes].map(
        (group) => html`<dl class="keys">
          ${group.map(([key, what]) => html`<div>
            <dt>${key.split(" ").map((each) => html`<kbd>${each}</kbd> `)}</dt>
            <dd>${what}</dd>
          </div>`)}
        </dl>`,
      )}
    </div>
    <${Button} onClick=${onClose} kind="primary">Close<//>
  <//>`;
}

/** Go to a pane and put the focus there. */
export function visit(target, pane) {
  go(target, pane, lastName(target, pane));
  setTimeout(() => document.getElementById("main")?.focus(), 50);
}

/** Go to an entry and put the focus into its form. */
export function visitEntry(target, pane, name) {
  go(target, pane, name);
  // The dialog that was just closed gives the focus back first.
  setTimeout(() => {
    document.getElementById("main")?.focus();
    focusFirstField(target, pane, name);
  }, 50);
}
