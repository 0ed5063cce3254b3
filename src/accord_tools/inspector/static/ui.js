// The pieces that all panes are built from. Every text of a server goes through Text or shown.
import {
  cloneElement,
  html,
  isValidElement,
  toChildArray,
  useEffect,
  useId,
  useRef,
  useState,
} from "./preact.js";
import { plural, runs, shown, webAddress } from "./text.js";

export { Split } from "./split.js";
export { formatCount, formatDate, formatSeconds, formatSize, formatTime, plural } from "./text.js";

const LONGEST = 10_000;
const PAGE = 50_000;
const COPIED = 1500;

function textOf(children) {
  return toChildArray(children)
    .map((child) => (isValidElement(child) ? "" : String(child)))
    .join("");
}

function drawRuns(text, how) {
  return runs(text, how).map(([part, isEscaped]) =>
    isEscaped
      ? html`<span class="escaped" title="a character that is not visible">${part}</span>`
      : part,
  );
}

/** A text of a server: isolated, and with hidden characters made visible. */
export function Text({ children, lines = false }) {
  const whole = textOf(children);
  const cut = whole.length > LONGEST;
  return html`<bdi class=${lines ? "lines" : undefined}>
    ${drawRuns(cut ? whole.slice(0, LONGEST) : whole, { lines })}${cut &&
    html`<span class="quiet"> … ${plural(whole.length - LONGEST, "character")} more</span>`}
  </bdi>`;
}

/** A long text of a server in a block, drawn part by part. */
export function LongText({ children, label }) {
  const whole = textOf(children);
  const [length, setLength] = useState(PAGE);
  return html`<div>
    <pre class="long" tabindex="0" role="group" aria-label=${label ?? "Text"}><bdi>${drawRuns(
      whole.slice(0, length),
      { lines: true },
    )}</bdi></pre>
    ${whole.length > length &&
    html`<${Button} onClick=${() => setLength(length + PAGE * 4)}>
      Show more (${plural(whole.length - length, "character")} left)
    <//>`}
  </div>`;
}

/** A link that leads to a web page; any other address is plain text. */
export function SafeLink({ href, children }) {
  const address = webAddress(href);
  const body = children ?? html`<${Text}>${String(href ?? "")}<//>`;
  if (address === null) return html`<span>${body}</span>`;
  return html`<a href=${address} target="_blank" rel="noopener noreferrer">${body}</a>`;
}

/** A button; `busy` keeps it in place and says so. */
export function Button({ onClick, kind = "plain", disabled, title, busy, children, ...rest }) {
  return html`<button
    type="button"
    class=${kind}
    disabled=${disabled}
    title=${title}
    aria-busy=${busy ? "true" : undefined}
    onClick=${busy ? undefined : onClick}
    ...${rest}
  >
    ${children}${busy && html`<span class="busy" aria-hidden="true"> …</span>`}
  </button>`;
}

/**
 * A labelled control. The child is one control, or a function that gets the attributes which bind
 * the control to its label: { id, "aria-describedby", "aria-invalid" }.
 */
export function Field({ label, hint, error, children, wide, inline }) {
  const id = useId();
  const described = [hint && id + "-hint", error && id + "-error"].filter(Boolean).join(" ");
  const bound = {
    id,
    "aria-describedby": described || undefined,
    "aria-invalid": error ? "true" : undefined,
  };
  const child = Array.isArray(children) ? children.find(Boolean) : children;
  const control = typeof child === "function" ? child(bound) : cloneElement(child, bound);
  const kind = "field" + (wide ? " wide" : "") + (inline ? " inline" : "");
  return html`<div class=${kind}>
    <label for=${id}>${label}</label>
    ${control}
    ${hint && html`<p class="hint" id=${id + "-hint"}>${hint}</p>`}
    ${error && html`<p class="error" id=${id + "-error"}>${error}</p>`}
  </div>`;
}

/** A box to tick, with its label. */
export function Check({ checked, onChange, children, disabled, title }) {
  return html`<label class="check" title=${title}>
    <input
      type="checkbox"
      checked=${checked}
      disabled=${disabled}
      onChange=${(event) => onChange(event.currentTarget.checked)}
    />
    <span>${children}</span>
  </label>`;
}

/** Tabs as the authoring practices describe: arrows move, Home and End go to the ends. */
export function Tabs({ label, tabs, chosen, onChoose }) {
  const id = useId();
  const list = useRef(null);
  const [own, setOwn] = useState(tabs[0]?.id);
  const current = tabs.find((tab) => tab.id === (chosen ?? own)) ?? tabs[0];
  const choose = (tab) => {
    setOwn(tab.id);
    onChoose?.(tab.id);
  };
  const onKeyDown = (event) => {
    const at = tabs.indexOf(current);
    const last = tabs.length - 1;
    const next = {
      ArrowRight: at === last ? 0 : at + 1,
      ArrowLeft: at === 0 ? last : at - 1,
      Home: 0,
      End: last,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    choose(tabs[next]);
    list.current.children[next].focus();
  };
  if (!current) return null;
  const body = typeof current.body === "function" ? current.body() : current.body;
  return html`<div class="tabs">
    <div role="tablist" aria-label=${label} ref=${list} onKeyDown=${onKeyDown}>
      ${tabs.map(
        (tab) =>
          html`<button
            type="button"
            role="tab"
            key=${tab.id}
            id=${`${id}-${tab.id}`}
            aria-selected=${tab === current ? "true" : "false"}
            aria-controls=${tab === current ? id + "-panel" : undefined}
            tabindex=${tab === current ? 0 : -1}
            onClick=${() => choose(tab)}
          >
            ${tab.title}
          </button>`,
      )}
    </div>
    <div role="tabpanel" id=${id + "-panel"} aria-labelledby=${`${id}-${current.id}`} tabindex="0">
      ${body}
    </div>
  </div>`;
}

/** A part of a pane with a heading. */
export function Panel({ title, level = 2, actions, children, kind = "" }) {
  const id = useId();
  const Heading = "h" + level;
  return html`<section class=${"panel " + kind} aria-labelledby=${id}>
    <div class="panel-head">
      <${Heading} id=${id}>${title}<//>
      ${actions && html`<div class="actions">${actions}</div>`}
    </div>
    ${children}
  </section>`;
}

/** What a place says that has nothing to show. */
export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

/** An error: an ApiError, or { message }, or a text. */
export function ErrorNote({ error }) {
  if (!error) return null;
  const message = typeof error === "string" ? error : (error.message ?? "Something went wrong.");
  return html`<p class="note is-fail" role="alert">
    <${Sign} severity="fail" /> <${Text} lines>${message}<//>
  </p>`;
}

const SIGNS = {
  fail: ["✗", "fail"],
  warn: ["!", "warning"],
  pass: ["✓", "pass"],
  info: ["i", "note"],
  running: ["…", "running"],
  untried: ["–", "not tried"],
};

/** A verdict as a sign and a word; never by colour alone. `short` hides the word from sight. */
export function Sign({ severity, short = false, count, word }) {
  const [sign, name] = SIGNS[severity] ?? ["", severity];
  if (!severity) return null;
  const said = (count == null ? "" : count + " ") + (word ?? name);
  return html`<span class=${"sign is-" + severity}>
    <span aria-hidden="true">${sign}</span>${count != null && short ? ` ${count}` : ""}
    <span class=${short ? "unseen" : ""}> ${said}</span>
  </span>`;
}

/** A button that copies a text. */
export function Copy({ text, label = "Copy", title }) {
  const [isDone, setDone] = useState(false);
  useEffect(() => {
    if (!isDone) return undefined;
    const timer = setTimeout(() => setDone(false), COPIED);
    return () => clearTimeout(timer);
  }, [isDone]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      setDone(true);
      announce("Copied.");
    } catch {
      announce("The browser does not let this page copy.");
    }
  };
  return html`<button type="button" class="plain small" title=${title} onClick=${copy}>
    ${isDone ? "Copied" : label}
  </button>`;
}

/** Names and values; a value that is missing is left out. */
export function Facts({ facts }) {
  const known = facts.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return html`<dl class="facts">
    ${known.map(
      ([name, value]) => html`<div key=${name}>
        <dt>${name}</dt>
        <dd>${value}</dd>
      </div>`,
    )}
  </dl>`;
}

/** A part that opens and closes; its body is drawn only while it is open. */
export function Fold({ title, children, open = false }) {
  const [isOpen, setOpen] = useState(open);
  return html`<details
    class="fold"
    open=${isOpen}
    onToggle=${(event) => setOpen(event.currentTarget.open)}
  >
    <summary>${title}</summary>
    ${isOpen && html`<div class="fold-body">${children}</div>`}
  </details>`;
}

/** The share of something, or that it goes on. */
export function Progress({ value, total, label }) {
  const share = total > 0 ? Math.min(1, value / total) : null;
  return html`<progress aria-label=${label} max="1" value=${share ?? undefined}></progress>`;
}

/** A screen as narrow as that of a phone; the style sheet has the same width. */
export const NARROW = "(max-width: 640px)";

/** Whether a media query fits. */
export function useMedia(query) {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const follow = () => setMatches(list.matches);
    list.addEventListener("change", follow);
    return () => list.removeEventListener("change", follow);
  }, [query]);
  return matches;
}

let region = null;

/** Say something to screen readers, politely. */
export function announce(text) {
  region ??= document.getElementById("live");
  if (!region) return;
  // The same text twice is said twice only if the region changes.
  region.textContent = "";
  setTimeout(() => (region.textContent = shown(text)), 50);
}

const REMOVED = 30;

/** Give the focus to an element after the one that had it has left; a person who went on stays. */
export function focusIfLost(find) {
  setTimeout(() => document.activeElement === document.body && find()?.focus(), REMOVED);
}

/** Run something that may fail; returns [run, isBusy, error, setError]. */
export function useWork(work) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const run = async (...given) => {
    setBusy(true);
    setError(null);
    try {
      return await work(...given);
    } catch (problem) {
      setError(problem);
      return undefined;
    } finally {
      setBusy(false);
    }
  };
  return [run, isBusy, error, setError];
}
