// The server at a glance: who it is, what it can do, what it breaks, and how it is connected.
import { html } from "../preact.js";
import { useAction } from "../store.js";
import { addressOf } from "../route.js";
import { showInLog } from "../log/focus.js";
import { shown } from "../text.js";
import {
  Button,
  Empty,
  ErrorNote,
  Facts,
  Fold,
  LongText,
  Panel,
  SafeLink,
  Sign,
  Text,
  formatCount,
  formatDate,
  formatSeconds,
  plural,
} from "../ui.js";
import { Capabilities } from "./capabilities.js";
import { ConnectionSettings } from "./connection.js";
import { Lint, Revisions } from "./catalog_facts.js";

const BREACHES = 30;

/** Why there is no connection, and what to do. */
function Failure({ error, kind }) {
  if (!error) return null;
  return html`<div class="note is-fail">
    <p><${Sign} severity="fail" word=${kind === "trace" ? "not read" : "no connection"} /></p>
    <p><${Text} lines>${error.message}<//></p>
    ${error.advice && html`<p class="mend"><b>What to do: </b><${Text} lines>${error.advice}<//></p>`}
    ${error.stderr?.length > 0 &&
    html`<p>The last lines of its standard error:</p>
      <${LongText} label="Standard error">${error.stderr.join("\n")}<//>`}
  </div>`;
}

function Server({ session }) {
  const { server } = session;
  const command = session.command && html`<code><${Text}>${session.command.join(" ")}<//></code>`;
  const facts = [
    ["name", server && html`<${Text}>${server.title ?? server.name}<//>`],
    ["version", server?.version && html`<${Text}>${server.version}<//>`],
    ["site", server?.websiteUrl && html`<${SafeLink} href=${server.websiteUrl} />`],
    ["revision", session.revision && shown(session.revision)],
    ["transport", session.transport],
    ["command", command],
    ["folder", session.cwd && html`<code><${Text}>${session.cwd}<//></code>`],
    ["variables", session.env?.length ? html`<${Text}>${session.env.join(", ")}<//>` : ""],
    ["address", session.url && html`<code><${Text}>${session.url}<//></code>`],
    ["headers", session.headers?.length ? html`<${Text}>${session.headers.join(", ")}<//>` : ""],
    ["started", session.at && formatDate(session.at)],
    ["time to start", formatSeconds(session.started_seconds)],
    ["unanswered requests", session.unanswered ? String(session.unanswered) : ""],
    ["restarts when its code changes", session.reloads ? "yes" : ""],
  ];
  return html`<${Panel} title="Server">
    <${Facts} facts=${facts} />
    ${session.note && html`<p class="note is-info"><${Text} lines>${session.note}<//></p>`}
    ${session.instructions &&
    html`<${Fold} title="Instructions for models" open><${LongText} label="Instructions">${session.instructions}<//><//>`}
  <//>`;
}

function Breach({ breach }) {
  return html`<details class=${"breach is-" + breach.severity}>
    <summary>
      <${Sign} severity=${breach.severity} /> <code>${breach.requirement}</code>
      <span class="quiet"> ${breach.level}, ${breach.party}, ${breach.count === 1 ? "once" : `${formatCount(breach.count)} times`}: </span>
      <${Text}>${breach.why}<//>
    </summary>
    <p class="clause"><${Text}>${breach.clause}<//></p>
    ${breach.mend && html`<p class="mend"><b>To mend: </b><${Text}>${breach.mend}<//></p>`}
    <p>
      ${breach.url && html`<${SafeLink} href=${breach.url}>The clause<//> `}
      <${Button} kind="plain small" onClick=${() => showInLog({ filter: { requirement: breach.requirement } })}>
        Its messages
      <//>
      ${breach.first != null &&
      html` <${Button} kind="plain small" onClick=${() => showInLog({ row: breach.first })}>First: ${breach.first}<//>`}
    </p>
  </details>`;
}

/** What the traffic so far says about the rules of the protocol. */
function Verdicts({ target }) {
  const { data, error } = useAction("log.summary", target, "log");
  if (!data) return html`<${ErrorNote} error=${error} />`;
  const { counters, clauses, breaches } = data;
  const facts = [
    ["messages", formatCount(counters.messages)],
    ["recorded in", data.record],
  ];
  return html`<${Panel} title="Rules of the protocol">
    <p>
      <${Sign}
        severity=${clauses.broken ? "fail" : "pass"}
        word=${`${plural(clauses.held, "rule")} kept, ${formatCount(clauses.broken)} broken`}
      />
      ${" "}<span class="quiet">(${formatCount(clauses.untried)} not tested yet)</span>
    </p>
    <${Facts} facts=${facts} />
    ${breaches.length === 0
      ? html`<p class="quiet">No message broke a rule so far.</p>`
      : breaches.slice(0, BREACHES).map((each) => html`<${Breach} key=${each.requirement} breach=${each} />`)}
    ${breaches.length > BREACHES && html`<p class="quiet">And ${breaches.length - BREACHES} more; see Exports.</p>`}
  <//>`;
}

function StderrTail({ target }) {
  const filter = { kinds: ["stderr"], with_http: false, with_stderr: true };
  const { data } = useAction("log.rows", target, "log", { start: -1, count: 20, filter });
  if (!data?.rows.length) return null;
  return html`<${Panel} title="Standard error (last lines)">
    <${LongText} label="Standard error">${data.rows.map((row) => row.brief).join("\n")}<//>
  <//>`;
}

export function Pane({ target }) {
  const { data: session, error } = useAction("session.get", target, "session");
  if (!session) return error ? html`<${ErrorNote} error=${error} />` : html`<${Empty}>Loading.<//>`;
  const isLive = session.kind === "live";
  return html`<div>
    <${Failure} error=${session.error} kind=${session.kind} />
    ${session.sign_in &&
    html`<p class="note is-warn">
      The server wants a token:${" "}
      <a href=${addressOf(target, "authorization")}>Authorization</a> obtains one step by step.
    </p>`}
    <${Server} session=${session} />
    ${isLive && html`<${ConnectionSettings} target=${target} session=${session} />`}
    <${Verdicts} target=${target} />
    <${Capabilities} session=${session} />
    ${isLive && html`<${Lint} target=${target} />`}
    <${Revisions} target=${target} isLive=${isLive} />
    <${StderrTail} target=${target} />
  </div>`;
}
