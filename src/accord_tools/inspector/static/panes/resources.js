// Resources and templates: choose, fill in variables, read, subscribe.
import { html, useEffect, useRef, useState } from "../preact.js";
import { call } from "../api.js";
import { useFirstField } from "../first_field.js";
import { useAction } from "../store.js";
import { JsonView } from "../json_view.js";
import { Button, Copy, Empty, ErrorNote, Field, Fold, Panel, Sign, Tabs, Text, formatTime, useWork } from "../ui.js";
import { Chooser, EntryList } from "./chooser.js";
import { CallView, RecentCalls, RunBar } from "./call_view.js";
import { About } from "./tools.js";
import { ArgumentEditor } from "../form/editor.js";
import { useDraft } from "./drafts.js";

// In the address, templates have a mark before their name; no URI begins like this.
const MARK = "templates/";

function Subscription({ target, uri }) {
  const { data } = useAction("subscriptions.get", target, "subscriptions");
  const found = data?.subscribed.find((each) => each.uri === uri);
  const [set, isBusy, error] = useWork((on) => call("subscriptions.set", { target, uri, on }));
  if (!data?.can_subscribe) return null;
  return html`<${Button} onClick=${() => set(!found)} busy=${isBusy} aria-pressed=${found ? "true" : "false"}>
      ${found ? "Unsubscribe" : "Subscribe"}
    <//>
    ${found?.updates > 0 &&
    html`<${Sign} severity="info" word=${`updated ${found.updates} times, last at ${formatTime(found.last_at)}`} />`}
    <${ErrorNote} error=${error} />`;
}

/**
 * Read a URI, in the foot of its card; the result is below. `resolve` finds the URI out when it is
 * read: what was typed a moment ago counts, even if the URI on the page is still the one before.
 */
function Reader({ target, uri, place = uri, resolve }) {
  const [shownCall, setShownCall] = useDraft(target, "resources", place, "call", null);
  const [read, isBusy, error] = useWork(async () => {
    const wanted = resolve ? await resolve() : uri;
    if (!wanted) throw new Error("Fill in a URI first.");
    setShownCall((await call("calls.read", { target, uri: wanted })).id);
  });
  const isAgain = shownCall !== null;
  return html`<${RunBar} target=${target} call=${shownCall}>
      <${ErrorNote} error=${error} />
      <${Button} kind="primary" onClick=${read} busy=${isBusy} data-run=${isAgain ? "again" : ""} title="Ctrl+Enter">
        ${isAgain ? "Read again" : "Read"}
      <//>
      ${uri && html`<${Subscription} target=${target} uri=${uri} />`}
    <//>
    <${CallView} target=${target} id=${shownCall} />
    <${RecentCalls} target=${target} kind="resource" name=${uri} chosen=${shownCall} onChoose=${setShownCall} />`;
}

function Resource({ target, uri }) {
  const { data, error } = useAction("catalog.entry", target, "catalog", { kind: "resources", name: uri });
  const box = useRef(null);
  useFirstField(target, "resources", uri, box);
  // A link or a template may lead to what is not listed; it can be read all the same.
  return html`<div ref=${box}>
    <${Panel} title=${html`<${Text}>${data?.title || uri}<//>`} actions=${html`<${Copy} text=${uri} label="Copy the URI" />`}>
      <p><code><${Text}>${uri}<//></code></p>
      ${data && html`<${About} entry=${{ ...data, title: "" }} />`}
      ${error && html`<p class="quiet">This URI is not in the list of resources.</p>`}
      ${data && html`<${Fold} title="Raw definition"><${JsonView} text=${data.raw} /><//>`}
    <//>
    <${Reader} key=${uri} target=${target} uri=${uri} />
  </div>`;
}

/** The URI that a template and its variables make; Python expands it. */
async function expand(target, name, text) {
  return (await call("forms.expand", { target, name, text })).uri;
}

function useExpanded(target, name, text) {
  const [state, setState] = useState({ uri: "", error: null });
  useEffect(() => {
    let isCurrent = true;
    const timer = setTimeout(() => {
      expand(target, name, text).then(
        (uri) => isCurrent && setState({ uri, error: null }),
        (error) => isCurrent && setState({ uri: "", error }),
      );
    }, 100);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [target, name, text]);
  return state;
}

function Template({ target, template }) {
  const params = { kind: "templates", name: template };
  const { data, error } = useAction("catalog.entry", target, "catalog", params);
  const [text, setText] = useDraft(target, "templates", template, "text", "{}");
  const expanded = useExpanded(target, template, text);
  if (!data) return error ? html`<${ErrorNote} error=${error} />` : html`<${Empty}>Loading.<//>`;
  return html`<div>
    <${Panel} title=${html`<${Text}>${data.title || template}<//>`}>
      <p><code><${Text}>${template}<//></code></p>
      <${About} entry=${{ ...data, title: "" }} />
      <${ArgumentEditor}
        target=${target}
        kind="templates"
        name=${template}
        model=${data.form}
        completes=${data.completes}
        text=${text}
        onText=${setText}
      />
      <${Field} label="URI">
        <input type="text" readonly class="mono" value=${expanded.uri} />
      <//>
      <${ErrorNote} error=${expanded.error} />
      <${Fold} title="Raw definition"><${JsonView} text=${data.raw} /><//>
    <//>
    <${Reader}
      target=${target}
      uri=${expanded.uri}
      place=${MARK + template}
      resolve=${() => expand(target, template, text)}
    />
  </div>`;
}

/** Any URI can be read, listed or not. */
function OtherUri({ target }) {
  const [uri, setUri] = useDraft(target, "resources", "", "other", "");
  return html`<div>
    <${Panel} title="Read any URI">
      <${Field} label="URI">
        <input type="text" class="mono" spellcheck=${false} value=${uri} onInput=${(event) => setUri(event.currentTarget.value)} />
      <//>
    <//>
    <${Reader} target=${target} uri=${uri.trim()} place="" />
  </div>`;
}

export function Pane({ target, name }) {
  const isTemplate = name.startsWith(MARK);
  const template = isTemplate ? name.slice(MARK.length) : "";
  const [tab, setTab] = useState(isTemplate ? "templates" : "resources");
  useEffect(() => {
    if (name) setTab(isTemplate ? "templates" : "resources");
  }, [name]);
  const resources = html`<${EntryList} target=${target} kind="resources" pane="resources" chosen=${name} />`;
  const templates = html`<${EntryList}
    target=${target}
    kind="templates"
    pane="resources"
    chosen=${template}
    placeOf=${(each) => MARK + each}
  />`;
  const tabs = [
    { id: "resources", title: "Resources", body: resources },
    { id: "templates", title: "Templates", body: templates },
  ];
  const list = html`<${Tabs} label="Kind" tabs=${tabs} chosen=${tab} onChoose=${setTab} />`;
  return html`<${Chooser} target=${target} pane="resources" list=${list} hasChosen=${Boolean(name)}>
    ${!name && html`<${OtherUri} target=${target} />`}
    ${isTemplate && html`<${Template} key=${name} target=${target} template=${template} />`}
    ${name && !isTemplate && html`<${Resource} key=${name} target=${target} uri=${name} />`}
  <//>`;
}
