// Raw messages: text goes out as typed, on a connection of its own, and the answers are judged.
import { html, useEffect, useState } from "../preact.js";
import { call } from "../api.js";
import { useAction } from "../store.js";
import { Button, Check, ErrorNote, Field, Panel, Text, announce } from "../ui.js";
import { shown } from "../text.js";
import { RawHeaders } from "./raw_headers.js";
import { Conversation } from "./conversation.js";
import { useNamedWork } from "./pane_parts.js";

const METHODS = ["POST", "GET", "DELETE"];
const STATES = {
  closed: "Not open.",
  opening: "Opening.",
  open: "Open.",
  ended: "Ended.",
};

function Opening({ target, raw, revisions }) {
  const [handshake, setHandshake] = useState(true);
  const [revision, setRevision] = useState("");
  const work = useNamedWork();
  const isOpen = raw.state === "open" || raw.state === "opening";
  const open = () =>
    work.run("open", () =>
      call("raw.open", { target, handshake, ...(revision ? { revision } : {}) }),
    );
  const close = () => work.run("close", () => call("raw.close", { target }));
  return html`<${Panel} title="Connection">
    <p role="status">
      ${STATES[raw.state] ?? raw.state}
      ${raw.reason && html`${" "}<${Text}>${raw.reason}<//>`}
      ${isOpen &&
      html`${" "}<span class="quiet">
        ${raw.revision && `Revision ${raw.revision}. `}Messages are ${raw.conversation} in the log.
      </span>`}
    </p>
    ${!isOpen &&
    html`<div class="bar">
      <${Field} label="Revision">
        <select value=${revision} onChange=${(event) => setRevision(event.target.value)}>
          <option value="">As the main connection</option>
          ${revisions.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
        </select>
      <//>
      <${Check} checked=${handshake} onChange=${setHandshake}>
        Open with the handshake of the revision
      <//>
    </div>`}
    <div class="actions">
      ${isOpen
        ? html`<${Button} busy=${work.busy === "close"} onClick=${close}>Close the connection<//>`
        : html`<${Button} kind="primary" busy=${work.busy === "open"} onClick=${open}>
            Open a connection
          <//>`}
    </div>
    <${ErrorNote} error=${work.error} />
  <//>`;
}

/** The message that is written, kept for the tab so that another pane does not lose it. */
function useDraft(target) {
  const key = `accord-raw-${target}`;
  const [draft, setDraft] = useState(() => {
    try {
      return JSON.parse(sessionStorage.getItem(key)) ?? {};
    } catch {
      return {};
    }
  });
  useEffect(() => {
    try {
      sessionStorage.setItem(key, JSON.stringify(draft));
    } catch {
      // A message that is too long for the storage is not kept.
    }
  }, [draft]);
  return [draft, (more) => setDraft((before) => ({ ...before, ...more }))];
}

function Templates({ templates, chosen, onChoose }) {
  const found = templates.find((each) => each.id === chosen);
  return html`
    <${Field} label="Template" hint="Each has one fault; the text may be changed before it is sent.">
      <select
        value=${chosen ?? ""}
        onChange=${(event) => onChoose(templates.find((each) => each.id === event.target.value))}
      >
        <option value="">Your own text</option>
        ${templates.map((each) => html`<option key=${each.id} value=${each.id}>${each.title}</option>`)}
      </select>
    <//>
    ${found &&
    html`<p class="quiet">
      ${found.explains}${" "}
      ${found.requirement && html`Clause: <code>${shown(found.requirement)}</code>`}
    </p>`}
  `;
}

function Message({ target, raw, transport }) {
  const [draft, change] = useDraft(target);
  const work = useNamedWork();
  const text = draft.text ?? "";
  const headers = draft.headers ?? [];
  const method = draft.http_method ?? "POST";
  const isHttp = transport === "http" || transport === "sse";
  const canSend = raw.state === "open";
  const choose = (template) =>
    change(
      template
        ? {
            template: template.id,
            text: template.text,
            headers: template.headers ?? [],
            http_method: template.http_method ?? "POST",
          }
        : { template: "" },
    );
  const send = async () => {
    if (!canSend) return;
    const named = headers.filter(([name]) => name.trim() !== "");
    const http = isHttp ? { headers: named, http_method: method } : {};
    const sent = await work.run("send", () => call("raw.send", { target, text, ...http }));
    if (sent !== undefined) announce("Sent.");
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      send();
    }
  };
  return html`<${Panel} title="Message">
    <div onKeyDown=${onKeyDown}>
      <${Templates} templates=${raw.templates} chosen=${draft.template} onChoose=${choose} />
      <${Field} label="Text" hint="Sent as typed; it need not be JSON. Ctrl+Enter sends it." wide>
        <textarea
          class="mono"
          rows="8"
          spellcheck="false"
          value=${text}
          onInput=${(event) => change({ text: event.target.value })}
        ></textarea>
      <//>
      ${isHttp &&
      html`
        <${Field} label="HTTP method">
          <select value=${method} onChange=${(event) => change({ http_method: event.target.value })}>
            ${METHODS.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
          </select>
        <//>
        <${RawHeaders} headers=${headers} onChange=${(next) => change({ headers: next })} />
      `}
      <div class="actions">
        <${Button}
          kind="primary"
          aria-disabled=${canSend ? undefined : "true"}
          busy=${work.busy === "send"}
          onClick=${send}
        >
          Send
        <//>
        ${!canSend && html`<span class="quiet">Open a connection first.</span>`}
      </div>
      <${ErrorNote} error=${work.error} />
    </div>
  <//>`;
}

export function Pane({ target }) {
  const { data: raw, error } = useAction("raw.get", target, "raw");
  const { data: session } = useAction("session.get", target, "session");
  return html`<div class="pane" data-pane="raw">
    <p class="quiet">
      No rule applies here: what you type goes to the server on a connection of its own, so the main
      one survives. Answers are judged like all others.
    </p>
    <${ErrorNote} error=${error} />
    ${raw &&
    html`
      <${Opening} target=${target} raw=${raw} revisions=${session?.revisions ?? []} />
      <${Message}
        target=${target}
        raw=${raw}
        transport=${raw.transport ?? session?.transport}
      />
      ${raw.conversation &&
      html`<${Conversation} key=${raw.conversation} target=${target} name=${raw.conversation} />`}
    `}
  </div>`;
}
