// The page: header, navigation, the chosen pane, and the log beside it.
import { html, render, useEffect, useErrorBoundary, useState } from "./preact.js";
import { takeKey } from "./api.js";
import { followFeed, useAction, useFeed, useRefused } from "./store.js";
import { go, useRoute } from "./route.js";
import { applyTheme, remember, remembered } from "./theme.js";
import { clip, shown } from "./text.js";
import { Button, Empty, ErrorNote, NARROW, Split, useMedia } from "./ui.js";
import { Header } from "./shell/header.js";
import { Navigation, PANES, panesOf, useCounts } from "./shell/navigation.js";
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
// Set once a person has opened or closed the log.
const LOG_KEY = "accord-log";
const loaded = new Map();

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

/** The pane and the log, side by side where there is room, else the log as a drawer below. */
function Workspace({ target, kind, pane, name, isLogOpen, onLog }) {
  const isWide = useMedia(WIDE);
  const chosen = PANES.find((each) => each.id === pane);
  const isOffered = panesOf(kind).includes(chosen);
  const body = html`<main id="main" tabindex="-1">
    <h1>${chosen?.title ?? "Nothing here"}</h1>
    ${kind === "live" && pane !== "overview" && html`<${SessionNotice} target=${target} />`}
    ${kind === "live" && pane !== "questions" && html`<${SignInNotice} target=${target} />`}
    ${isOffered
      ? html`<${PaneHost} key=${`${target} ${pane}`} target=${target} pane=${pane} name=${name} />`
      : html`<${Empty}>
          ${chosen ? "This pane needs a connection of its own to a server." : "There is no such pane."}
        <//>`}
  </main>`;
  const log = isLogOpen && html`<${LogView} target=${target} canClear=${kind === "live"} onClose=${() => onLog(false)} />`;
  return html`<div class="workspace">
    <${Split}
      name=${isWide ? "log-beside" : "log-below"}
      label="Size of the pane and the log"
      isStacked=${!isWide}
      initial=${isWide ? 62 : 55}
      isAlone=${!isLogOpen}
    >
      ${body}${log}
    <//>
  </div>`;
}

/**
 * Whether the log is open. A recording and watched traffic are their messages; the log of a
 * connection opens at the first breach, unless a person has opened or closed it before.
 */
function useLog(target) {
  const [chosen, setChosen] = useState(() => remembered(LOG_KEY, ""));
  const isNarrow = useMedia(NARROW);
  const isWanted = target && (target.kind === "live" ? target.fail > 0 : !isNarrow);
  const setOpen = (isOpen) => {
    remember(LOG_KEY, isOpen ? "yes" : "no");
    setChosen(isOpen ? "yes" : "no");
  };
  return { isLogOpen: chosen === "" ? Boolean(isWanted) : chosen === "yes", onLog: setOpen };
}

/** The pane that is shown where the address names none: what one can use, or what is wrong. */
function firstPane(target, lacks) {
  const isUsable = target?.kind === "live" && target.state !== "failed";
  return isUsable && !lacks.includes("tools") ? "tools" : "overview";
}

function App() {
  const route = useRoute();
  const isConnected = useFeed();
  const isRefused = useRefused();
  const { data, error } = useAction("app.state", WHOLE_PAGE, "app");
  const [dialog, setDialog] = useState(null);
  const targets = data?.targets ?? [];
  const count = targets.length;
  const index = targets[route.target] ? route.target : 0;
  const { isLogOpen, onLog } = useLog(targets[index]);
  const offered = useCounts(count > 0 ? index : WHOLE_PAGE);
  const pane = route.pane || firstPane(targets[index], offered.lacks);
  useKeys({ target: index, onPalette: () => setDialog("palette"), onHelp: () => setDialog("keys"), onLog });
  useEffect(() => onWish(() => onLog(true)), []);
  useEffect(() => {
    if (!count || route.target < count) return undefined;
    // A recording that was just opened is in the list a moment later.
    const timer = setTimeout(() => go(0, route.pane, "", { replace: true }), SETTLING);
    return () => clearTimeout(timer);
  }, [count, route.target]);
  useEffect(() => {
    const title = PANES.find((each) => each.id === pane)?.title;
    document.title = [title, shown(clip(targets[index]?.title, 80)), "accord inspect"]
      .filter(Boolean)
      .join(" - ");
  }, [pane, index, count]);
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
          <${Navigation} target=${index} pane=${pane} kind=${targets[index].kind} offered=${offered} />
          <${Workspace}
            key=${index}
            target=${index}
            kind=${targets[index].kind}
            pane=${pane}
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
