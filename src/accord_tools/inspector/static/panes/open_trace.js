// Opens a recorded session from a file, beside the others.
import { html, useRef } from "../preact.js";
import { call } from "../api.js";
import { go } from "../route.js";
import { ErrorNote, Field, Panel, announce, formatSize } from "../ui.js";
import { focusPane, useNamedWork } from "./pane_parts.js";

const LARGEST_TRACE = 64 * 1024 * 1024;

/** Opens a file as another session; the target may be the whole page. */
export function Pane({ target }) {
  const work = useNamedWork();
  const input = useRef(null);
  const open = (file) =>
    work.run("open", async () => {
      if (file.size > LARGEST_TRACE) {
        throw new Error(
          `${file.name} has ${formatSize(file.size)}; the page takes ${formatSize(LARGEST_TRACE)}. ` +
            `Open it with: accord inspect --trace FILE`,
        );
      }
      const answer = await call("trace.open", { target, name: file.name, text: await file.text() });
      announce("The trace is open.");
      go(answer.target, "overview");
      focusPane();
    });
  const onChange = (event) => {
    const file = event.target.files[0];
    if (file) open(file);
    input.current.value = "";
  };
  return html`<${Panel} title="Open a trace">
    <p class="quiet">A recorded session opens beside the others, read-only. Nothing is launched.</p>
    <${Field} label="Trace file">
      ${(bound) => html`<input type="file" ref=${input} onChange=${onChange} ...${bound} />`}
    <//>
    ${work.busy && html`<p role="status">Reading.</p>`}
    <${ErrorNote} error=${work.error} />
  <//>`;
}
