// Tools: choose one, fill in its arguments, call it, look at what it brought.
import { html, useEffect, useRef } from "../preact.js";
import { focusFirstField, useFirstField } from "../first_field.js";
import { go } from "../route.js";
import { useAction } from "../store.js";
import { JsonView } from "../json_view.js";
import { Empty, ErrorNote, Fold, Text, formatCount } from "../ui.js";
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
  return html`<${Fold} title="Raw definition">
      <${JsonView} text=${entry.raw} />
    <//>
    ${entry.output_schema && html`<${Fold} title="Output schema"><${JsonView} text=${entry.output_schema} /><//>`}`;
}

function Tool({ target, name }) {
  const { data, error } = useAction("catalog.entry", target, "catalog", { kind: "tools", name });
  if (!data) return error ? html`<${ErrorNote} error=${error} />` : html`<${Empty}>Loading.<//>`;
  return html`<${LoadedTool} target=${target} name=${name} entry=${data} error=${error} />`;
}

function LoadedTool({ target, name, entry, error }) {
  const [shownCall, setShownCall] = useDraft(target, "tools", name, "call", null);
  const [ids, setIds] = useDraft(target, "tools", name, "ids", []);
  const box = useRef(null);
  useFirstField(target, "tools", name, box);
  const onCalled = (called) => {
    setIds(called.length > 1 ? called : []);
    setShownCall(called.at(-1));
  };
  const about = html`<${About} entry=${entry} extra=${html`<p class="quiet">about ${formatCount(entry.tokens)} tokens for a model</p>`} />
    <${ErrorNote} error=${error} />`;
  return html`<div ref=${box}>
    <${ToolCall} target=${target} entry=${entry} about=${about} shownCall=${shownCall} onCalled=${onCalled}>
      <${Schemas} entry=${entry} />
    <//>
    ${ids.length > 1 && html`<${Spread} target=${target} ids=${ids} />`}
    <${CallView} target=${target} id=${shownCall} />
    <${RecentCalls} target=${target} kind="tool" name=${name} chosen=${shownCall} onChoose=${setShownCall} />
  </div>`;
}

// Servers whose only tool was chosen: a person who goes back to the list stays there.
const opened = new Set();

/** What one can do here; the only tool is chosen at once. */
function NoTool({ target }) {
  const params = { kind: "tools", text: "", start: 0, count: 1 };
  const { data } = useAction("catalog.list", target, "catalog", params);
  const only = data?.state === "ready" && data.total === 1 ? data.entries[0].name : "";
  useEffect(() => {
    if (!only || opened.has(target)) return;
    opened.add(target);
    go(target, "tools", only, { replace: true });
    const active = document.activeElement;
    // A person who is somewhere else stays there.
    if (active === document.body || active?.id === "main") focusFirstField(target, "tools", only);
  }, [only]);
  if (!data?.total) return null;
  return html`<${Empty}>
    Choose a tool to fill in its arguments and run it, or press <kbd>Ctrl+K</kbd> and type its name.
  <//>`;
}

export function Pane({ target, name }) {
  const list = html`<${EntryList} target=${target} kind="tools" pane="tools" chosen=${name} />`;
  return html`<${Chooser} target=${target} pane="tools" list=${list} hasChosen=${Boolean(name)}>
    ${name
      ? html`<${Tool} key=${name} target=${target} name=${name} />`
      : html`<${NoTool} target=${target} />`}
  <//>`;
}
