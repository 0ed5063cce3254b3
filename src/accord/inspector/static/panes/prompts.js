// Prompts: choose one, fill in its arguments, get its messages.
import { html, useState } from "../preact.js";
import { call } from "../api.js";
import { useAction } from "../store.js";
import { JsonView } from "../json_view.js";
import { Button, Empty, ErrorNote, Fold, Panel, Text, plural, useWork } from "../ui.js";
import { Chooser, EntryList } from "./chooser.js";
import { CallView, RecentCalls } from "./call_view.js";
import { About } from "./tools.js";
import { ArgumentEditor, findErrors } from "../form/editor.js";
import { useDraft } from "./drafts.js";

function Prompt({ target, name }) {
  const { data, error } = useAction("surface.entry", target, "surface", { kind: "prompts", name });
  const [text, setText] = useDraft(target, "prompts", name, "text", "{}");
  const [shownCall, setShownCall] = useDraft(target, "prompts", name, "call", null);
  const [errors, setErrors] = useState([]);
  const [isAsked, setAsked] = useState(false);
  const [get, isBusy, problem] = useWork(async () => {
    const wrong = isAsked ? [] : await findErrors(target, "prompts", name, text);
    setErrors(wrong);
    if (wrong.length > 0) {
      setAsked(true);
      return;
    }
    setAsked(false);
    setShownCall((await call("calls.prompt", { target, name, arguments: text || "{}" })).id);
  });
  const onKeyDown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      get();
    }
  };
  if (!data) return error ? html`<${ErrorNote} error=${error} />` : html`<${Empty}>Loading.<//>`;
  const again = shownCall === null ? "Get" : "Get again";
  return html`<${Panel} title=${html`<${Text}>${data.name}<//>`}>
      <${About} entry=${data} />
      <div onKeyDown=${onKeyDown} role="group" aria-label="Get the prompt">
        <${ArgumentEditor}
          target=${target}
          kind="prompts"
          name=${name}
          model=${data.form}
          completes=${data.completes}
          text=${text}
          onText=${setText}
          onErrors=${setErrors}
        />
        <div class="bar">
          <${Button} kind="primary" onClick=${get} busy=${isBusy} data-again="" title="Ctrl+Enter">
            ${isAsked ? "Send anyway" : again}
          <//>
          ${errors.length > 0 && html`<span class="error">${plural(errors.length, "error")} in the arguments</span>`}
        </div>
      </div>
      <${ErrorNote} error=${problem} />
      <${Fold} title="Definition as it came"><${JsonView} text=${data.raw} /><//>
    <//>
    <${CallView} target=${target} id=${shownCall} />
    <${RecentCalls} target=${target} kind="prompt" name=${name} chosen=${shownCall} onChoose=${setShownCall} />`;
}

export function Pane({ target, name }) {
  const list = html`<${EntryList} target=${target} kind="prompts" pane="prompts" chosen=${name} />`;
  return html`<${Chooser} target=${target} pane="prompts" list=${list} hasChosen=${Boolean(name)}>
    ${name
      ? html`<${Prompt} key=${name} target=${target} name=${name} />`
      : html`<${Empty}>Choose a prompt.<//>`}
  <//>`;
}
