// Prompts: choose one, fill in its arguments, get its messages.
import { html, useRef, useState } from "../preact.js";
import { call } from "../api.js";
import { useFirstField } from "../first_field.js";
import { useAction } from "../store.js";
import { JsonView } from "../json_view.js";
import { Button, Empty, ErrorNote, Fold, Panel, Text, useWork } from "../ui.js";
import { Chooser, EntryList } from "./chooser.js";
import { CallView, RecentCalls, RunBar } from "./call_view.js";
import { About } from "./tools.js";
import { ArgumentEditor, findErrors } from "../form/editor.js";
import { useDraft } from "./drafts.js";

function Prompt({ target, name }) {
  const { data, error } = useAction("catalog.entry", target, "catalog", { kind: "prompts", name });
  if (!data) return error ? html`<${ErrorNote} error=${error} />` : html`<${Empty}>Loading.<//>`;
  return html`<${LoadedPrompt} target=${target} name=${name} entry=${data} />`;
}

function LoadedPrompt({ target, name, entry }) {
  const [text, setText] = useDraft(target, "prompts", name, "text", "{}");
  const [shownCall, setShownCall] = useDraft(target, "prompts", name, "call", null);
  const [tries, setTries] = useState(0);
  const [isAsked, setAsked] = useState(false);
  const box = useRef(null);
  useFirstField(target, "prompts", name, box);
  const [get, isBusy, problem] = useWork(async () => {
    setTries(tries + 1);
    const wrong = isAsked ? [] : await findErrors(target, "prompts", name, text);
    setAsked(wrong.length > 0);
    if (wrong.length > 0) return;
    setShownCall((await call("calls.prompt", { target, name, arguments: text || "{}" })).id);
  });
  const isAgain = shownCall !== null;
  return html`<div ref=${box}>
    <${Panel} title=${html`<${Text}>${entry.name}<//>`}>
      <${About} entry=${entry} />
      <${ArgumentEditor}
        target=${target}
        kind="prompts"
        name=${name}
        model=${entry.form}
        completes=${entry.completes}
        text=${text}
        tries=${tries}
        onText=${setText}
        onErrors=${(found) => setAsked(isAsked && found.length > 0)}
      />
      <${Fold} title="Raw definition"><${JsonView} text=${entry.raw} /><//>
    <//>
    <${RunBar} target=${target} call=${shownCall}>
      ${isAsked && html`<p class="note is-warn">The arguments do not fit.</p>`}
      <${ErrorNote} error=${problem} />
      <${Button} kind="primary" onClick=${get} busy=${isBusy} data-run=${isAgain ? "again" : ""} title="Ctrl+Enter">
        ${isAsked ? "Send anyway" : isAgain ? "Get again" : "Get"}
      <//>
    <//>
    <${CallView} target=${target} id=${shownCall} />
    <${RecentCalls} target=${target} kind="prompt" name=${name} chosen=${shownCall} onChoose=${setShownCall} />
  </div>`;
}

export function Pane({ target, name }) {
  const list = html`<${EntryList} target=${target} kind="prompts" pane="prompts" chosen=${name} />`;
  return html`<${Chooser} target=${target} pane="prompts" list=${list} hasChosen=${Boolean(name)}>
    ${name
      ? html`<${Prompt} key=${name} target=${target} name=${name} />`
      : html`<${Empty}>Choose a prompt from the list to fill in its arguments and see its messages.<//>`}
  <//>`;
}
