// The newest messages of one conversation of the log, each with its verdicts.
import { html, useState } from "../preact.js";
import { useAction } from "../store.js";
import { Empty, ErrorNote, Facts, LongText, Panel, Sign, Text, formatTime } from "../ui.js";
import { JsonView } from "../json_view.js";
import { Clause } from "./pane_parts.js";

const SHOWN = 50;
const SENDERS = { client: "→ sent", server: "← came", stderr: "stderr" };

function Detail({ target, n }) {
  const { data, error } = useAction("log.detail", target, "log", { n });
  if (!data) return html`<${ErrorNote} error=${error} />`;
  return html`
    ${data.http && html`<${Facts} facts=${data.http.lines.map(([name, value]) => [name, html`<${Text}>${value}<//>`])} />`}
    ${data.text !== "" &&
    (data.is_json
      ? html`<${JsonView} text=${data.text} marked=${data.breaches.map((each) => each.place).filter(Boolean)} />`
      : html`<${LongText} label="Message">${data.text}<//>`)}
    ${data.breaches.map(
      (each, index) => html`<div key=${index}>
        <p><${Sign} severity=${each.severity} /> <${Text}>${each.why}<//></p>
        <${Clause} item=${each} />
      </div>`,
    )}
  `;
}

function Line({ target, row }) {
  const [isOpen, setOpen] = useState(false);
  const what = row.method || row.kind;
  return html`<li>
    <details open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="quiet">${formatTime(row.at)}</span> ${SENDERS[row.from] ?? row.from}${" "}
        ${row.status && html`<span>HTTP ${row.status}</span>`}${" "}
        <strong><${Text}>${what}<//></strong>${" "}
        <${Text}>${row.brief ?? ""}<//>${" "}
        ${row.severity && html`<${Sign} severity=${row.severity} />`}
      </summary>
      ${isOpen && html`<${Detail} target=${target} n=${row.n} />`}
    </details>
  </li>`;
}

/** The messages of a conversation, the newest last. */
export function Conversation({ target, name }) {
  const filter = { conversation: name, with_http: true, with_stderr: true };
  const asked = { start: -1, count: SHOWN, filter };
  const { data, error } = useAction("log.rows", target, "log", asked);
  const left = data ? data.total - data.rows.length : 0;
  return html`<${Panel} title="Messages of this connection">
    <${ErrorNote} error=${error} />
    ${data?.rows.length === 0 && html`<${Empty}>Nothing sent yet.<//>`}
    ${left > 0 && html`<p class="quiet">${left} older messages are in the log.</p>`}
    <ol class="plain-list rows">
      ${(data?.rows ?? []).map((row) => html`<${Line} key=${row.n} target=${target} row=${row} />`)}
    </ol>
  <//>`;
}
