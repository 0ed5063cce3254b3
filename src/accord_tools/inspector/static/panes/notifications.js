// What the server says by itself: log messages, changed lists, updated resources.
import { html, useState } from "../preact.js";
import { call } from "../api.js";
import { useAction } from "../store.js";
import { showInLog } from "../log/focus.js";
import { Button, Check, Empty, ErrorNote, Field, Panel, Sign, Text, formatTime, useWork } from "../ui.js";

const SHOWN = 200;
const KINDS = ["tools", "resources", "templates", "prompts"];
const NOISE = /^notifications\/(progress|initialized)$/;

function Level({ target }) {
  const { data } = useAction("subscriptions.get", target, "subscriptions");
  const [set, , error] = useWork((level) => call("subscriptions.level", { target, level }));
  if (!data) return null;
  if (!data.can_log) return html`<p class="quiet">The server does not send log messages.</p>`;
  return html`<div>
    <${Field} label="Log level" hint="The server sends messages of this level and above.">
      <select value=${data.log_level ?? ""} onChange=${(event) => event.currentTarget.value && set(event.currentTarget.value)}>
        ${!data.log_level && html`<option value="">not set (the server chooses)</option>`}
        ${data.levels.map((level) => html`<option value=${level}>${level}</option>`)}
      </select>
    <//>
    <${ErrorNote} error=${error} />
  </div>`;
}

function Changes({ target, kind }) {
  const params = { kind, text: "", start: 0, count: 0 };
  const { data } = useAction("catalog.list", target, "catalog", params);
  if (!data?.changes?.length) return null;
  return html`<li>
    <b>${kind}</b>
    <ul>${data.changes.map((each) => html`<li><${Text}>${each}<//></li>`)}</ul>
  </li>`;
}

function Subscribed({ target }) {
  const { data } = useAction("subscriptions.get", target, "subscriptions");
  const [drop, , error] = useWork((uri) => call("subscriptions.set", { target, uri, on: false }));
  if (!data?.subscribed.length) {
    return html`<${Empty}>
      ${data?.can_subscribe ? "Subscribe to a resource in the pane Resources." : "The server has no subscriptions."}
    <//>`;
  }
  return html`<div class="scroll">
    <${ErrorNote} error=${error} />
    <table>
      <thead><tr><th>resource</th><th>updates</th><th>last</th><th><span class="unseen">action</span></th></tr></thead>
      <tbody>
        ${data.subscribed.map(
          (each) => html`<tr key=${each.uri}>
            <td><${Text}>${each.uri}<//></td>
            <td>${each.updates}</td>
            <td>${formatTime(each.last_at)}</td>
            <td><${Button} kind="plain small" onClick=${() => drop(each.uri)}>Unsubscribe<//></td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** The newest notifications of the server, from the log. */
function Rows({ target }) {
  const [withNoise, setNoise] = useState(false);
  const params = {
    start: -1,
    count: SHOWN,
    filter: { sender: "server", kinds: ["notification"], with_http: false, with_stderr: false },
  };
  const { data, error } = useAction("log.rows", target, "log", params);
  const rows = (data?.rows ?? []).filter((row) => withNoise || !NOISE.test(row.method ?? ""));
  return html`<${Panel}
    title="Notifications of the server"
    actions=${html`<${Check} checked=${withNoise} onChange=${setNoise}>progress too<//>`}
  >
    <${ErrorNote} error=${error} />
    ${rows.length === 0
      ? html`<${Empty}>None yet.<//>`
      : html`<div class="scroll">
          <table>
            <thead><tr><th>no.</th><th>time</th><th>notification</th><th>what it says</th></tr></thead>
            <tbody>
              ${[...rows].reverse().map(
                (row) => html`<tr key=${row.n}>
                  <td><${Button} kind="plain small" title="Show it in the log" onClick=${() => showInLog({ row: row.n })}>${row.n}<//></td>
                  <td>${formatTime(row.at)}</td>
                  <td><${Text}>${(row.method ?? "").replace(/^notifications\//, "")}<//></td>
                  <td>
                    <${Text}>${row.brief}<//> ${row.severity && html`<${Sign} severity=${row.severity} />`}
                  </td>
                </tr>`,
              )}
            </tbody>
          </table>
        </div>`}
    ${data?.total > SHOWN && html`<p class="quiet">The newest ${SHOWN} of ${data.total}; the log has all.</p>`}
  <//>`;
}

export function Pane({ target }) {
  const { data } = useAction("session.get", target, "session");
  const isLive = data?.kind === "live";
  return html`<div>
    ${isLive &&
    html`<${Panel} title="Log level"><${Level} target=${target} /><//>
      <${Panel} title="Subscribed resources"><${Subscribed} target=${target} /><//>
      <${Panel} title="Last changes of lists">
        <ul>${KINDS.map((kind) => html`<${Changes} key=${kind} target=${target} kind=${kind} />`)}</ul>
        <p class="quiet">What the last change of each list brought; empty while nothing changed.</p>
      <//>`}
    <${Rows} target=${target} />
  </div>`;
}
