// What leaves the page: a call as a command or a test, the catalog, the session, the breaches.
import { html, useEffect, useState } from "../preact.js";
import { call, download } from "../api.js";
import { useAction } from "../store.js";
import { Button, Copy, ErrorNote, Field, Fold, LongText, Panel, Tabs, Text } from "../ui.js";
import { Pane as OpenTrace } from "./open_trace.js";
import { saveText, useNamedWork } from "./pane_parts.js";

const ENDINGS = {
  toml: "toml",
  python: "py",
  json: "json",
  bash: "sh",
  sh: "sh",
  shell: "sh",
  yaml: "yaml",
  markdown: "md",
};
const CATALOGS = [
  ["lock", "Lock file"],
  ["markdown", "Markdown list"],
];
const SESSIONS = [
  ["trace", "Trace"],
  ["json", "JSON"],
  ["har", "HAR (HTTP)"],
  ["text", "Text"],
  ["report", "Report (HTML)"],
];

/** A text to take along: shown, copied, saved. */
function Exported({ name, text, note }) {
  return html`
    ${note && html`<p class="quiet"><${Text} lines>${note}<//></p>`}
    <${LongText} label=${name}>${text}<//>
    <div class="actions">
      <${Copy} text=${text} />
      <${Button} onClick=${() => saveText(name, text)}>Save as ${name}<//>
    </div>
  `;
}

/** The forms of one call; asked for when the menu is opened. */
function CallForms({ target, side }) {
  const [forms, setForms] = useState(null);
  const work = useNamedWork();
  const key = JSON.stringify(side);
  useEffect(() => {
    let isWanted = true;
    work.run("ask", async () => {
      const answer = await call("export.call", { target, ...side });
      if (isWanted) setForms(answer.forms);
    });
    return () => (isWanted = false);
  }, [target, key]);
  const tabs = (forms ?? []).map((form) => ({
    id: form.id,
    title: form.title,
    body: html`<${Exported}
      key=${form.id}
      name=${`call.${ENDINGS[form.language] ?? "txt"}`}
      text=${form.text}
      note=${form.note}
    />`,
  }));
  return html`
    <${ErrorNote} error=${work.error} />
    ${tabs.length > 0 && html`<${Tabs} label="Forms of this call" tabs=${tabs} />`}
  `;
}

/** A part that opens to the forms of a call: { call: id } of this session, or { history: id }. */
export function ExportMenu({ target, call: callId, history: historyId }) {
  const side = historyId === undefined ? { call: callId } : { history: historyId };
  return html`<${Fold} title="Export this call">
    <${CallForms} key=${JSON.stringify(side)} target=${target} side=${side} />
  <//>`;
}

function HostEntry({ target }) {
  const { data, error } = useAction("export.hosts", target, "session");
  const [host, setHost] = useState("");
  const [entry, setEntry] = useState(null);
  const work = useNamedWork();
  const choose = (chosen) => {
    setHost(chosen);
    setEntry(null);
    if (chosen === "") return;
    work.run("host", async () => setEntry(await call("export.host", { target, host: chosen })));
  };
  return html`<${Panel} title="Entry for a host">
    <p class="quiet">How a host application is told about this server.</p>
    <${ErrorNote} error=${error} />
    <${Field} label="Host">
      <select value=${host} onChange=${(event) => choose(event.target.value)}>
        <option value="">Choose a host</option>
        ${(data?.hosts ?? []).map((each) => html`<option key=${each.id} value=${each.id}>${each.title}</option>`)}
      </select>
    <//>
    <${ErrorNote} error=${work.error} />
    ${entry &&
    html`
      ${entry.place && html`<p>Place: <code><${Text}>${entry.place}<//></code></p>`}
      ${(entry.remarks ?? []).map((each, index) => html`<p key=${index}><${Text}>${each}<//></p>`)}
      <${LongText} label="Entry">${entry.text}<//>
      <div class="actions"><${Copy} text=${entry.text} /></div>
    `}
  <//>`;
}

function Files({ target, title, explains, name, formats }) {
  const work = useNamedWork();
  return html`<${Panel} title=${title}>
    <p class="quiet">${explains}</p>
    <div class="actions">
      ${formats.map(
        ([format, label]) => html`<${Button}
          key=${format}
          busy=${work.busy === format}
          onClick=${() => work.run(format, () => download(name, { target, format }))}
        >
          ${label}
        <//>`,
      )}
    </div>
    <${ErrorNote} error=${work.error} />
  <//>`;
}

function Breaches({ target }) {
  const [text, setText] = useState(null);
  const work = useNamedWork();
  const ask = () =>
    work.run("ask", async () => setText((await call("export.breaches", { target })).text));
  return html`<${Panel} title="Breaches">
    <p class="quiet">A text for an issue: each broken clause, the evidence, how to see it again.</p>
    <div class="actions">
      <${Button} busy=${work.busy === "ask"} onClick=${ask}>
        ${text === null ? "Write the text" : "Write it again"}
      <//>
    </div>
    <${ErrorNote} error=${work.error} />
    ${text !== null && html`<${Exported} name="breaches.md" text=${text} />`}
  <//>`;
}

export function Pane({ target }) {
  const { data: session } = useAction("session.get", target, "session");
  const isLive = session?.kind === "live";
  return html`<div class="pane" data-pane="exports">
    <p class="quiet">Values that are masked in the log are masked in every export, too.</p>
    ${isLive && html`<${HostEntry} target=${target} />`}
    ${isLive &&
    html`<${Files}
      target=${target}
      title="Catalog"
      explains="Tools, resources and prompts: as a lock file for accord lock, or as a list to read."
      name="export.catalog"
      formats=${CATALOGS}
    />`}
    <${Files}
      target=${target}
      title="Session"
      explains="All kept messages. A trace has those of the main connection, without raw ones; accord inspect --trace opens it again, and the report judges it like accord check trace."
      name="export.session"
      formats=${SESSIONS}
    />
    <${Breaches} target=${target} />
    <${OpenTrace} target=${target} />
  </div>`;
}
