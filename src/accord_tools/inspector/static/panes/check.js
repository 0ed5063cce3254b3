// The full check of the server: what to check, how far it is, and what it found.
import { html, useEffect, useState } from "../preact.js";
import { call, download } from "../api.js";
import { useAction } from "../store.js";
import {
  Button,
  Check,
  Empty,
  ErrorNote,
  Field,
  Panel,
  Progress,
  Text,
  announce,
} from "../ui.js";
import { CheckResults } from "./check_results.js";
import { useNamedWork } from "./pane_parts.js";

const FORMATS = [
  ["html", "HTML page"],
  ["json", "JSON"],
  ["junit", "JUnit"],
  ["sarif", "SARIF"],
  ["text", "Text"],
];

function Revisions({ all, chosen, onChange }) {
  const toggle = (revision, isOn) =>
    onChange(all.filter((each) => (each === revision ? isOn : chosen.includes(each))));
  return html`<fieldset>
    <legend>Revisions</legend>
    <p class="quiet">None chosen checks every revision that the server speaks.</p>
    <div class="choices">
      ${all.map(
        (each) => html`<${Check}
          key=${each}
          checked=${chosen.includes(each)}
          onChange=${(isOn) => toggle(each, isOn)}
        >
          ${each}
        <//>`,
      )}
    </div>
  </fieldset>`;
}

function Start({ target, revisions, isRunning }) {
  const [chosen, setChosen] = useState([]);
  const [only, setOnly] = useState("");
  const [callsTools, setCallsTools] = useState(false);
  const work = useNamedWork();
  const start = (event) => {
    event.preventDefault();
    if (isRunning) return;
    const asked = { target, revisions: chosen, calls_tools: callsTools };
    if (only.trim()) asked.only = only.trim();
    work.run("start", () => call("check.start", asked));
  };
  const stop = () => work.run("stop", () => call("check.stop", { target }));
  return html`<${Panel} title="What to check">
    <form onSubmit=${start}>
      <${Revisions} all=${revisions} chosen=${chosen} onChange=${setChosen} />
      <${Field}
        label="Only these requirements"
        hint="Ids or their beginnings, with spaces between them; empty checks all."
      >
        <input
          type="text"
          class="mono"
          spellcheck="false"
          value=${only}
          onInput=${(event) => setOnly(event.target.value)}
        />
      <//>
      <${Check} checked=${callsTools} onChange=${setCallsTools}>
        Call tools that may change things, too
      <//>
      <div class="actions">
        ${isRunning
          ? html`<${Button} type="button" busy=${work.busy === "stop"} onClick=${stop}>Stop the check<//>`
          : html`<${Button} type="submit" kind="primary" busy=${work.busy === "start"}>
              Start the check
            <//>`}
      </div>
      <${ErrorNote} error=${work.error} />
    </form>
  <//>`;
}

function Running({ check }) {
  const percent = Math.round((check.share ?? 0) * 100);
  return html`<${Panel} title="Progress">
    <${Progress} label="Progress of the check" value=${check.share ?? 0} total=${1} />
    <p>
      ${percent} %${check.revision && html`, revision ${check.revision}`}
      ${check.scenario && html`: <${Text}>${check.scenario}<//>`}
    </p>
  <//>`;
}

function Downloads({ target }) {
  const work = useNamedWork();
  return html`<div class="actions" role="group" aria-label="Download the report">
    ${FORMATS.map(
      ([format, title]) => html`<${Button}
        key=${format}
        busy=${work.busy === format}
        onClick=${() => work.run(format, () => download("check.download", { target, format }))}
      >
        ${title}
      <//>`,
    )}
    <${ErrorNote} error=${work.error} />
  </div>`;
}

/** Says aloud that the check has ended. */
function useEnd(state) {
  const [before, setBefore] = useState(state);
  useEffect(() => {
    if (before === "running" && state && state !== "running") announce(`The check is ${state}.`);
    setBefore(state);
  }, [state]);
}

export function Pane({ target }) {
  const { data: check, error } = useAction("check.get", target, "check");
  const { data: session } = useAction("session.get", target, "session");
  const state = check?.state;
  useEnd(state);
  return html`<div class="pane" data-pane="check">
    <p class="quiet">
      Tries every requirement of the specification that concerns a server, on connections of its own.
    </p>
    <${ErrorNote} error=${error} />
    ${check &&
    html`
      <${Start}
        target=${target}
        revisions=${session?.revisions ?? []}
        isRunning=${state === "running"}
      />
      ${state === "running" && html`<${Running} check=${check} />`}
      ${state === "stopped" && html`<p role="status">The check was stopped.</p>`}
      <${ErrorNote} error=${check.error} />
      ${state === "idle" && html`<${Empty}>No check has run yet.<//>`}
      ${check.report &&
      html`<${Panel} title="Report" actions=${html`<${Downloads} target=${target} />`}>
        <${CheckResults} report=${check.report} />
      <//>`}
    `}
  </div>`;
}
