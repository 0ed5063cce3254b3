// The page: header, navigation, the chosen pane, and the log beside it.
import { html, render, useEffect, useErrorBoundary, useRef, useState } from "./preact.js";
import { takeKey } from "./api.js";
import { followFeed, useAction, useFeed, useRefused } from "./store.js";
import { FIRST_PANE, go, useRoute } from "./route.js";
import { applyTheme, remember, remembered } from "./theme.js";
import { clip, shown } from "./text.js";
import { Button, Empty, ErrorNote, Split } from "./ui.js";
import { Header } from "./shell/header.js";
import { Navigation, PANES, panesOf } from "./shell/navigation.js";
import { Guide, NoKey } from "./shell/guide.js";
import { SessionNotice, SignInNotice } from "./shell/notice.js";
import { KeysHelp, useKeys } from "./keys.js";
import { Palette } from "./palette.js";
import { onWish } from "./log/focus.js";
import { LogView } from "./log/view.js";

// The target of actions that need no server.
const WHOLE_PAGE = -1;
const SETTLING = 2000;
const WIDE = "(min-width: 1100px)";
const NARROW = "(max-width: 640px)";
const loaded = new Map();

function useMedia(query) {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const follow = () => setMatches(list.matches);
    list.addEventListener("change", follow);
    return () => list.removeEventListener("change", follow);
  }, [query]);
  return matches;
}

/** A pane, loaded when it is first shown. */
function PaneHost({ target, pane, name }) {
  const [, redraw] = useState(0);
  const [problem, forget] = useErrorBoundary();
  useEffect(() => {
    if (loaded.has(pane)) return;
    import(`./panes/${pane}.js`)
      .then((module) => loaded.set(pane, module.Pane))
      .catch(() => loaded.set(pane, MissingPane))
      .finally(() => redraw((count) => count + 1));
  }, [pane]);
  if (problem) {
    return html`<div>
      <${ErrorNote} error=${{ message: `This pane failed: ${problem.message}` }} />
      <${Button} onClick=${forget}>Try again<//>
    </div>`;
  }
  const Pane = loaded.get(pane);
  return Pane ? html`<${Pane} target=${target} name=${name} />` : html`<${Empty}>Loading.<//>`;
}

function MissingPane() {
  return html`<${ErrorNote} error="This pane could not be loaded." />`;
}

/** The pane and the log, side by side where there is room. */
function Workspace({ target, kind, pane, name, isLogOpen, onLog }) {
  const isWide = useMedia(WIDE);
  const isNarrow = useMedia(NARROW);
  const chosen = PANES.find((each) => each.id === pane);
  const isOffered = panesOf(kind).includes(chosen);
  const shownPlace = useRef(`${pane} ${name}`);
  useEffect(() => {
    // On a small screen the log would hide the pane that was just chosen.
    if (isNarrow && isLogOpen && shownPlace.current !== `${pane} ${name}`) onLog(false);
    shownPlace.current = `${pane} ${name}`;
  }, [pane, name]);
  const body = html`<main id="main" tabindex="-1">
    <h1>${chosen?.title ?? "Nothing here"}</h1>
    ${kind === "live" && pane !== FIRST_PANE && html`<${SessionNotice} target=${target} />`}
    ${kind === "live" && pane !== "questions" && html`<${SignInNotice} target=${target} />`}
    ${isOffered
      ? html`<${PaneHost} key=${`${target} ${pane}`} target=${target} pane=${pane} name=${name} />`
      : html`<${Empty}>
          ${chosen ? "This pane needs a connection of its own to a server." : "There is no such pane."}
        <//>`}
  </main>`;
  const log = isLogOpen && html`<${LogView} target=${target} canClear=${kind === "live"} onClose=${() => onLog(false)} />`;
  // On a small screen the log takes the place of the pane; the pane keeps what was typed.
  const only = !isLogOpen ? "first" : isNarrow ? "second" : null;
  return html`<div class="workspace">
    <${Split}
      name=${isWide ? "log-beside" : "log-below"}
      label="Size of the pane and the log"
      isStacked=${!isWide}
      initial=${isWide ? 56 : 60}
      only=${only}
    >
      ${body}${log}
    <//>
  </div>`;
}

function App() {
  const route = useRoute();
  const isConnected = useFeed();
  const isRefused = useRefused();
  const { data, error } = useAction("app.state", -1, "app");
  const [isLogOpen, setLogOpen] = useState(
    () => !matchMedia(NARROW).matches && remembered("accord-log", "yes") === "yes",
  );
  const [dialog, setDialog] = useState(null);
  const targets = data?.targets ?? [];
  const count = targets.length;
  const index = targets[route.target] ? route.target : 0;
  const onLog = (isOpen) => {
    if (!matchMedia(NARROW).matches) remember("accord-log", isOpen ? "yes" : "no");
    setLogOpen(isOpen);
  };
  useKeys({ target: index, onPalette: () => setDialog("palette"), onHelp: () => setDialog("keys"), onLog });
  useEffect(() => onWish(() => onLog(true)), []);
  useEffect(() => {
    if (!count || route.target < count) return undefined;
    // A recording that was just opened is in the list a moment later.
    const timer = setTimeout(() => go(0, route.pane, "", { replace: true }), SETTLING);
    return () => clearTimeout(timer);
  }, [count, route.target]);
  useEffect(() => {
    const pane = PANES.find((each) => each.id === route.pane)?.title;
    document.title = [pane, shown(clip(targets[index]?.title, 80)), "accord inspect"]
      .filter(Boolean)
      .join(" - ");
  }, [route.pane, index, count]);
  if (isRefused || error?.status === 401) return html`<${NoKey} isWrong=${true} />`;
  if (!data) {
    return html`<div class="loading">
      ${error ? html`<${ErrorNote} error=${error} />` : html`<p>Loading.</p>`}
    </div>`;
  }
  return html`<div class="page">
    <a class="skip" href="#main" onClick=${skip}>Skip to the pane</a>
    <${Header}
      state=${data}
      target=${index}
      isConnected=${isConnected}
      isLogOpen=${isLogOpen}
      onLog=${onLog}
      onDialog=${setDialog}
    />
    ${count === 0
      ? html`<${Guide}><${PaneHost} target=${WHOLE_PAGE} pane="open_trace" /><//>`
      : html`<div class="body">
          <${Navigation} target=${index} pane=${route.pane} kind=${targets[index].kind} />
          <${Workspace}
            key=${index}
            target=${index}
            kind=${targets[index].kind}
            pane=${route.pane}
            name=${route.name}
            isLogOpen=${isLogOpen}
            onLog=${onLog}
          />
        </div>`}
    ${dialog === "palette" &&
    html`<${Palette} target=${index} targets=${targets} onClose=${() => setDialog(null)} onLog=${onLog} />`}
    ${dialog === "keys" && html`<${KeysHelp} onClose=${() => setDialog(null)} />`}
  </div>`;
}

function skip(event) {
  // The address belongs to the route.
  event.preventDefault();
  document.getElementById("main")?.focus();
}

applyTheme();
const root = document.getElementById("app");
root.textContent = "";
if (takeKey()) {
  followFeed();
  render(html`<${App} />`, root);
} else {
  render(html`<${NoKey} />`, root);
}
