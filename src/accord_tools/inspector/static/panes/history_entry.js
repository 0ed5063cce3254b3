// One kept call: its arguments and its response, replay, note, pin, export.
import { html, useEffect, useRef, useState } from "../preact.js";
import { call } from "../api.js";
import { useAction } from "../store.js";
import { go } from "../route.js";
import {
  Button,
  ErrorNote,
  Facts,
  Field,
  Fold,
  LongText,
  Panel,
  Text,
  announce,
  formatDate,
  formatSeconds,
} from "../ui.js";
import { JsonView } from "../json_view.js";
import { CallView } from "./call_view.js";
import { Comparison } from "./compare.js";
import { ExportMenu } from "./exports.js";
import { TwoPress, focusPane, useNamedWork } from "./pane_parts.js";

const PANES = { tool: "tools", resource: "resources", prompt: "prompts" };

/** Hand arguments to the pane of a tool, resource or prompt, which reads them when it opens. */
export function editArguments(target, entry) {
  const handed = { target, kind: entry.kind, name: entry.name, arguments: entry.arguments };
  sessionStorage.setItem("accord-arguments", JSON.stringify(handed));
  go(target, PANES[entry.kind], entry.name);
  focusPane();
}

function Note({ target, entry }) {
  const [note, setNote] = useState(entry.note ?? "");
  const work = useNamedWork();
  const save = (event) => {
    event.preventDefault();
    work.run("note", async () => {
      await call("history.note", { target, id: entry.id, note });
      announce("The note is saved.");
    });
  };
  return html`<form class="bar" onSubmit=${save}>
    <${Field} label="Note" inline>
      <input type="text" value=${note} onInput=${(event) => setNote(event.target.value)} />
    <//>
    <${Button} type="submit" busy=${work.busy === "note"}>Save the note<//>
    <${ErrorNote} error=${work.error} />
  </form>`;
}

/** A call that was sent again, and how its result differs from the kept one. */
function Again({ target, id, entry }) {
  const [compares, setCompares] = useState(false);
  return html`
    <${CallView} target=${target} id=${id} />
    <${Button} onClick=${() => setCompares(!compares)} aria-expanded=${compares ? "true" : "false"}>
      Compare with the kept result
    <//>
    ${compares &&
    html`<${Comparison} target=${target} left=${{ history: entry.id }} right=${{ call: id }} />`}
  `;
}

/** A kept text; one that was cut is no JSON any more. */
function KeptText({ text, isCut }) {
  if (!text) return html`<p>Nothing was kept.</p>`;
  if (!isCut) return html`<${JsonView} text=${text} />`;
  return html`<p class="quiet">Only the beginning was kept.</p>
    <${LongText}>${text}<//>`;
}

function Actions({ target, entry, canSend, onReplayed, onClose }) {
  const work = useNamedWork();
  const id = entry.id;
  const run = (what, name, more = {}) =>
    work.run(what, () => call(name, { target, id, ...more }));
  const replay = async () => {
    const done = await run("replay", "history.replay");
    if (done) {
      announce("Sent again.");
      onReplayed(done.id);
    }
  };
  const remove = async () => {
    if ((await run("delete", "history.delete")) !== undefined) onClose();
  };
  return html`<div class="actions">
    ${canSend &&
    html`<${Button} kind="primary" busy=${work.busy === "replay"} onClick=${replay}>Replay<//>`}
    ${canSend &&
    PANES[entry.kind] &&
    html`<${Button} onClick=${() => editArguments(target, entry)}>Edit and replay<//>`}
    <${Button}
      busy=${work.busy === "pin"}
      aria-pressed=${entry.pinned ? "true" : "false"}
      onClick=${() => run("pin", "history.pin", { on: !entry.pinned })}
    >
      Pinned
    <//>
    <${TwoPress} again="Press again to delete" busy=${work.busy === "delete"} onClick=${remove}>
      Delete
    <//>
    <${Button} onClick=${onClose}>Close<//>
    <${ErrorNote} error=${work.error} />
  </div>`;
}

function Kept({ target, entry, canSend, onClose }) {
  const [again, setAgain] = useState(null);
  return html`
    <${Facts}
      facts=${[
        ["When", formatDate(entry.at)],
        ["Outcome", html`<${Text}>${entry.outcome}<//>`],
        ["Took", formatSeconds(entry.seconds)],
        ["Revision", entry.revision],
        ["Server", html`<${Text}>${entry.target}<//>`],
      ]}
    />
    <${Actions}
      target=${target}
      entry=${entry}
      canSend=${canSend}
      onReplayed=${setAgain}
      onClose=${onClose}
    />
    <${Note} key=${entry.id} target=${target} entry=${entry} />
    ${again !== null && html`<${Again} key=${again} target=${target} id=${again} entry=${entry} />`}
    ${entry.masked?.length > 0 &&
    html`<p class="note is-info">
      Secrets are not kept: type them again before you replay. Masked:${" "}
      <code><${Text}>${entry.masked.map((each) => each || "(the whole)").join(", ")}<//></code>
    </p>`}
    <${Fold} title="Arguments" open>
      <${KeptText} text=${entry.arguments} isCut=${entry.cut?.includes("arguments")} />
    <//>
    <${Fold} title="Response" open>
      <${KeptText} text=${entry.response} isCut=${entry.cut?.includes("response")} />
    <//>
    <${ExportMenu} target=${target} history=${entry.id} />
  `;
}

/** One entry of the history; opening it moves the focus to its heading. */
export function HistoryEntry({ target, id, canSend, onClose }) {
  const asked = /^\d+$/.test(id) ? Number(id) : id;
  const { data, error } = useAction("history.get", target, "history", { id: asked });
  const place = useRef(null);
  useEffect(() => place.current?.focus(), [id]);
  return html`<div ref=${place} tabindex="-1" class="focus-place">
    <${Panel} title=${data ? html`<${Text}>${data.name}<//>` : "Kept call"} level=${2}>
      <${ErrorNote} error=${error} />
      ${data && html`<${Kept} target=${target} entry=${data} canSend=${canSend} onClose=${onClose} />`}
    <//>
  </div>`;
}
