// The settings of the connection. A command or an address cannot be changed here.
import { html, useState } from "../preact.js";
import { call } from "../api.js";
import { Button, ErrorNote, Field, Panel, announce, useWork } from "../ui.js";

function Headers({ headers, onHeaders }) {
  const change = (index, part, value) =>
    onHeaders(headers.map((each, at) => (at === index ? Object.assign([...each], { [part]: value }) : each)));
  return html`<fieldset>
    <legend>Headers for this connection</legend>
    ${headers.map(
      ([name, value], index) => html`<div class="bar" key=${index}>
        <input type="text" aria-label=${`Name of header ${index + 1}`} placeholder="name" value=${name} spellcheck=${false} onInput=${(event) => change(index, 0, event.currentTarget.value)} />
        <input class="grow" type="text" aria-label=${`Value of header ${index + 1}`} placeholder="value" value=${value} spellcheck=${false} autocomplete="off" onInput=${(event) => change(index, 1, event.currentTarget.value)} />
        <${Button} kind="plain small" onClick=${() => onHeaders(headers.filter((_, at) => at !== index))} aria-label=${`Remove header ${index + 1}`}>Remove<//>
      </div>`,
    )}
    <${Button} kind="plain small" onClick=${() => onHeaders([...headers, ["", ""]])}>Add a header<//>
  </fieldset>`;
}

export function ConnectionSettings({ target, session }) {
  const [revision, setRevision] = useState(null);
  const [timeout, setTimeout] = useState(null);
  const [headers, setHeaders] = useState([]);
  const [connect, isBusy, error] = useWork(async () => {
    const params = { target };
    const chosen = revision ?? session.chosen ?? "";
    if (chosen) params.revision = chosen;
    const seconds = Number(timeout ?? session.timeout);
    if (!(seconds > 0)) throw new Error("The timeout must be a number of seconds above 0.");
    params.timeout = seconds;
    const named = headers.filter(([name]) => name.trim());
    if (named.length > 0) params.headers = named.map(([name, value]) => [name.trim(), value]);
    await call("session.connect", params);
    announce("Connecting.");
  });
  const [act, isActing, problem] = useWork((name) => call(name, { target }));
  const isOpen = session.state === "ready" || session.state === "connecting";
  const actions = html`
    <${Button} onClick=${() => act("session.restart")} busy=${isActing}>Restart<//>
    <${Button} onClick=${() => isOpen && act("session.disconnect")} aria-disabled=${isOpen ? undefined : "true"}>Disconnect<//>
  `;
  return html`<${Panel} title="Connection" actions=${actions}>
    <div class="bar is-form">
      <${Field} label="Revision" inline>
        <select value=${revision ?? session.chosen ?? ""} onChange=${(event) => setRevision(event.currentTarget.value)}>
          <option value="">negotiate</option>
          ${session.revisions.map((each) => html`<option value=${each}>${each}</option>`)}
        </select>
      <//>
      <${Field} label="Timeout (seconds)" inline>
        <input type="text" inputmode="decimal" size="8" value=${timeout ?? String(session.timeout)} onInput=${(event) => setTimeout(event.currentTarget.value)} />
      <//>
      <${Button} kind=${isOpen ? "plain" : "primary"} onClick=${connect} busy=${isBusy}>${isOpen ? "Connect again" : "Connect"}<//>
    </div>
    ${session.url && html`<${Headers} headers=${headers} onHeaders=${setHeaders} />`}
    <${ErrorNote} error=${error ?? problem} />
  <//>`;
}
