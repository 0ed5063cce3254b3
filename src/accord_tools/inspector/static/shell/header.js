// The line at the top: which server, how it is connected, and the settings of the page.
import { html, useEffect, useRef, useState } from "../preact.js";
import { setTheme, theme, THEMES } from "../theme.js";
import { go, place } from "../route.js";
import { clip, shown } from "../text.js";
import { Button, NARROW, Sign, Text, announce, useMedia } from "../ui.js";

const STATES = {
  connecting: ["running", "connecting"],
  ready: ["pass", "connected"],
  failed: ["fail", "not connected"],
  closed: ["warn", "closed"],
  reading: ["info", "reading"],
};
// Where the words of a connection of the page would be wrong.
const KINDS = {
  trace: {
    reading: ["info", "recording, being read"],
    ready: ["info", "recording"],
    failed: ["fail", "recording, not read to its end"],
  },
  watch: {
    connecting: ["running", "watching, no client so far"],
    ready: ["pass", "watching"],
    failed: ["fail", "watching failed"],
    closed: ["warn", "watching has ended"],
  },
};

const LONGEST = 80;

/** The state of a connection as a sign and a word. */
export function StateSign({ state, kind }) {
  const [severity, word] = KINDS[kind]?.[state] ?? STATES[state] ?? ["info", state];
  return html`<${Sign} severity=${severity} word=${word} />`;
}

function ThemeSelect() {
  const [chosen, setChosen] = useState(theme);
  return html`<label class="compact">
    <span class="unseen">Theme</span>
    <select
      value=${chosen}
      title="Theme"
      onChange=${(event) => {
        setTheme(event.currentTarget.value);
        setChosen(theme());
      }}
    >
      ${THEMES.map((name) => html`<option value=${name}>${name} theme</option>`)}
    </select>
  </label>`;
}

/** What the server calls itself, or how it was named here while it says nothing; a file has a name. */
function nameOf(target) {
  const isFile = target.kind === "trace";
  return clip((!isFile && target.name) || target.title, LONGEST);
}

function TargetSelect({ targets, target }) {
  const current = targets[target];
  if (targets.length < 2) {
    return html`<span class="target" title=${shown(current.title)}><${Text}>${nameOf(current)}<//></span>`;
  }
  return html`<label class="compact">
    <span class="unseen">Server</span>
    <select
      value=${String(target)}
      title="Server"
      onChange=${(event) => go(Number(event.currentTarget.value), place().pane)}
    >
      ${targets.map((each, index) => {
        const faults = each.fail ? ` (${each.fail} failed)` : "";
        // Two servers may have one name.
        const isKnown = targets.some((other) => other !== each && nameOf(other) === nameOf(each));
        const said = isKnown ? `${nameOf(each)}, ${each.title}` : nameOf(each);
        return html`<option value=${String(index)}>${shown(said)}${faults}</option>`;
      })}
    </select>
  </label>`;
}

/** What a person seldom needs, in a menu of a narrow screen. */
function Menu({ children }) {
  const onLeave = ({ currentTarget, relatedTarget }) => {
    if (!currentTarget.contains(relatedTarget)) currentTarget.open = false;
  };
  return html`<details class="menu" onFocusOut=${onLeave}>
    <summary>Menu</summary>
    <div>${children}</div>
  </details>`;
}

export function Header({ state, target, isConnected, isLogOpen, onLog, onDialog }) {
  const current = state.targets[target];
  const isNarrow = useMedia(NARROW);
  const before = useRef(current?.state);
  useEffect(() => {
    if (current && before.current !== current.state) {
      announce(`${shown(nameOf(current))}: ${STATES[current.state]?.[1] ?? current.state}`);
    }
    before.current = current?.state;
  }, [current?.state]);
  const product = html`<span class="product">accord inspect</span>`;
  const wire = [current?.revision, current?.transport].filter(Boolean).map(shown).join(", ");
  const facts = wire && html`<span class="quiet">${wire}</span>`;
  const settings = html`<${ThemeSelect} />
    <${Button} onClick=${() => onDialog("keys")} title="Keys (?)" aria-label="Keys">${isNarrow ? "Keys" : "?"}<//>`;
  return html`<header>
    ${!isNarrow && product}
    ${current &&
    html`<${TargetSelect} targets=${state.targets} target=${target} />
      ${isConnected
        ? html`<${StateSign} state=${current.state} kind=${current.kind} />`
        : html`<${Sign} severity="warn" word="waiting for accord inspect" />`}
      ${!isNarrow && facts}
      ${current.fail > 0 && html`<${Sign} severity="fail" count=${current.fail} word="failed" />`}
      ${current.warn > 0 && html`<${Sign} severity="warn" count=${current.warn} word="warned" />`}`}
    <span class="push">
      <${Button} onClick=${() => onDialog("palette")} title="Go to a pane or a tool (Ctrl+K)">
        Go to<span class="wide-only"> …</span>
      <//>
      ${current &&
      html`<${Button} onClick=${() => onLog(!isLogOpen)} aria-pressed=${isLogOpen ? "true" : "false"}>
        Log
      <//>`}
      ${isNarrow ? html`<${Menu}>${product} ${facts} ${settings}<//>` : settings}
    </span>
  </header>`;
}
