// Tools: choose one, fill in its arguments, call it, look at what it brought.
import { html } from "../preact.js";
import { useAction } from "../store.js";
import { JsonView } from "../json_view.js";
import { Empty, ErrorNote, Fold, Panel, Text, formatCount } from "../ui.js";
import { Chooser, EntryList, Hints } from "./chooser.js";
import { CallView, RecentCalls, Spread } from "./call_view.js";
import { ToolCall } from "./tool_call.js";
import { useDraft } from "./drafts.js";

/** What an entry says about itself, before its form. */
export function About({ entry, extra }) {
  return html`<div>
    ${entry.title && entry.title !== entry.name && html`<p><b><${Text}>${entry.title}<//></b></p>`}
    ${entry.description && html`<p><${Text} lines>${entry.description}<//></p>`}
    <${Hints} hints=${entry.hints} />
    ${extra}
  </div>`;
}

function Schemas({ entry }) {
  return html`<${Fold} title="Definition as it came">
      <${JsonView} text=${entry.raw} />
    <//>
    ${entry.output_schema && html`<${Fold} title="Output schema"><${JsonView} text=${entry.output_schema} /><//>`}`;
}

function Tool({ target, name }) {
  const { data, error } = useAction("surface.entry", target, "surface", { kind: "tools", name });
  const [shownCall, setShownCall] = useDraft(target, "tools", name, "call", null);
  const [ids, setIds] = useDraft(target, "tools", name, "ids", []);
  if (!data) return error ? html`<${ErrorNote} error=${error} />` : html`<${Empty}>Loading.<//>`;
  const onCalled = (called) => {
    setIds(called.length > 1 ? called : []);
    setShownCall(called.at(-1));
  };
  return html`<${Panel} title=${html`<${Text}>${data.name}<//>`}>
      <${About} entry=${data} extra=${html`<p class="quiet">about ${formatCount(data.tokens)} tokens for a model</p>`} />
      <${ErrorNote} error=${error} />
      <${ToolCall} target=${target} entry=${data} hasCall=${shownCall !== null} onCalled=${onCalled} />
      <${Schemas} entry=${data} />
    <//>
    ${ids.length > 1 && html`<${Spread} target=${target} ids=${ids} />`}
    <${CallView} target=${target} id=${shownCall} />
    <${RecentCalls} target=${target} kind="tool" name=${name} chosen=${shownCall} onChoose=${setShownCall} />`;
}

export function Pane({ target, name }) {
  const list = html`<${EntryList} target=${target} kind="tools" pane="tools" chosen=${name} />`;
  return html`<${Chooser} target=${target} pane="tools" list=${list} hasChosen=${Boolean(name)}>
    ${name
      ? html`<${Tool} key=${name} target=${target} name=${name} />`
      : html`<${Empty}>Choose a tool.<//>`}
  <//>`;
}
