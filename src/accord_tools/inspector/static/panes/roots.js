// The roots that the server may ask for: an editable table; saving notifies the server.
import { html, useEffect, useRef, useState } from "../preact.js";
import { call } from "../api.js";
import { useAction } from "../store.js";
import { Button, Empty, ErrorNote, Panel, announce } from "../ui.js";
import { useNamedWork } from "./pane_parts.js";

const SCHEME = "file://";

/** What is wrong with the URI of a root, or "". */
function faultOf(uri, all) {
  if (uri.trim() === "") return "A root needs a URI.";
  if (!uri.startsWith(SCHEME)) return "A root begins with file://, such as file:///home/me/project.";
  if (/\s/.test(uri)) return "A URI has no spaces; write %20.";
  if (all.filter((each) => each.uri === uri).length > 1) return "This URI is in the list twice.";
  return "";
}

function sameRoots(left, right) {
  const plain = (roots) => JSON.stringify(roots.map((each) => [each.uri, each.name ?? ""]));
  return plain(left) === plain(right);
}

function RootRow({ index, root, fault, onChange, onRemove }) {
  const bind = (key) => ({
    value: root[key] ?? "",
    onInput: (event) => onChange({ ...root, [key]: event.target.value }),
  });
  const errorId = `root-error-${index}`;
  return html`<tr>
    <td>
      <input
        type="text"
        class="wide mono"
        id=${`root-uri-${index}`}
        spellcheck="false"
        aria-label=${`URI of root ${index + 1}`}
        aria-invalid=${fault ? "true" : undefined}
        aria-describedby=${fault ? errorId : undefined}
        ...${bind("uri")}
      />
      ${fault && html`<p class="error" id=${errorId}>${fault}</p>`}
    </td>
    <td>
      <input type="text" class="wide" aria-label=${`Name of root ${index + 1}`} ...${bind("name")} />
    </td>
    <td>
      <${Button} onClick=${onRemove} title=${`Remove root ${index + 1}`}>Remove<//>
    </td>
  </tr>`;
}

/** The rows on the page; they follow the server until the person changes one. */
function useDraft(saved) {
  const [draft, setDraft] = useState(null);
  const base = useRef(null);
  useEffect(() => {
    if (saved === null) return;
    setDraft((before) => (before === null || sameRoots(before, base.current) ? saved : before));
    base.current = saved;
  }, [saved]);
  return [draft, setDraft];
}

function Editor({ target, saved }) {
  const [draft, setDraft] = useDraft(saved);
  const [shows, setShows] = useState(false);
  const work = useNamedWork();
  const add = useRef(null);
  if (draft === null) return null;
  const faults = draft.map((each) => faultOf(each.uri, draft));
  const isChanged = !sameRoots(draft, saved);
  const replace = (index, root) => setDraft(draft.map((each, at) => (at === index ? root : each)));
  const remove = (index) => {
    setDraft(draft.filter((_, at) => at !== index));
    add.current?.querySelector("button")?.focus();
  };
  const undo = () => {
    setDraft(saved);
    setShows(false);
    add.current?.querySelector("button")?.focus();
  };
  const append = () => {
    setDraft([...draft, { uri: SCHEME + "/", name: "" }]);
    setTimeout(() => document.getElementById(`root-uri-${draft.length}`)?.focus(), 0);
  };
  const save = async (event) => {
    event.preventDefault();
    setShows(true);
    const wrong = faults.findIndex(Boolean);
    if (wrong >= 0) {
      document.getElementById(`root-uri-${wrong}`)?.focus();
      return;
    }
    const roots = draft.map(({ uri, name }) => (name ? { uri, name } : { uri }));
    const done = await work.run("save", () => call("roots.set", { target, roots }));
    if (done !== undefined) {
      setShows(false);
      announce("The roots are saved and the server is notified.");
    }
  };
  return html`<form onSubmit=${save}>
    ${draft.length === 0 && html`<${Empty}>No roots. The server gets an empty list if it asks.<//>`}
    ${draft.length > 0 &&
    html`<div class="scroll">
      <table>
        <thead>
          <tr><th scope="col">URI</th><th scope="col">Name (optional)</th><th scope="col">Change</th></tr>
        </thead>
        <tbody>
          ${draft.map(
            (root, index) => html`<${RootRow}
              key=${index}
              index=${index}
              root=${root}
              fault=${shows ? faults[index] : ""}
              onChange=${(next) => replace(index, next)}
              onRemove=${() => remove(index)}
            />`,
          )}
        </tbody>
      </table>
    </div>`}
    <${ErrorNote} error=${work.error} />
    <div class="actions" ref=${add}>
      <${Button} onClick=${append}>Add a root<//>
      <${Button} type="submit" kind="primary" busy=${work.busy === "save"}>
        Save and notify the server
      <//>
      ${isChanged && html`<${Button} onClick=${undo}>Undo changes<//>`}
    </div>
  </form>`;
}

export function Pane({ target }) {
  const { data, error } = useAction("roots.get", target, "roots");
  return html`<div class="pane" data-pane="roots">
    <p class="quiet">
      Folders and files that this client offers to the server. They are names only: saving them gives
      the server no access.
    </p>
    <${ErrorNote} error=${error} />
    ${data && !data.is_declared &&
    html`<p>This connection has not declared roots, so the server will not ask for them.</p>`}
    ${data &&
    html`<${Panel} title="Declared roots"><${Editor} target=${target} saved=${data.roots} /><//>`}
  </div>`;
}
