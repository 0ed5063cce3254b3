// Two results side by side: where they differ, by path.
import { html, useEffect, useRef } from "../preact.js";
import { useAction } from "../store.js";
import { Button, ErrorNote, Panel, Text, plural } from "../ui.js";

const CHANGES = {
  added: ["+", "added"],
  removed: ["−", "removed"],
  changed: ["≠", "changed"],
};

function Value({ text }) {
  if (text === null || text === undefined) return html`<span class="quiet">absent</span>`;
  return html`<code class="lines"><${Text} lines>${text}<//></code>`;
}

function Difference({ item }) {
  const [sign, word] = CHANGES[item.change] ?? ["", item.change];
  return html`<tr class=${`is-${item.change}`}>
    <th scope="row" class="mono"><${Text}>${item.pointer || "(the whole)"}<//></th>
    <td><span aria-hidden="true">${sign}</span> ${word}</td>
    <td><${Value} text=${item.left} /></td>
    <td><${Value} text=${item.right} /></td>
  </tr>`;
}

function Differences({ data }) {
  if (data.is_same) return html`<p role="status">The results are the same.</p>`;
  return html`
    <p role="status">${plural(data.differences.length, "difference")}.</p>
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Place</th>
            <th scope="col">Change</th>
            <th scope="col"><${Text}>${data.left.title}<//></th>
            <th scope="col"><${Text}>${data.right.title}<//></th>
          </tr>
        </thead>
        <tbody>
          ${data.differences.map((each, index) => html`<${Difference} key=${index} item=${each} />`)}
        </tbody>
      </table>
    </div>
  `;
}

/** The differences of two results; each side is { call: id } or { history: id }. */
export function Comparison({ target, left, right, onClose }) {
  const { data, error, isLoading } = useAction("compare.results", target, "calls", { left, right });
  const place = useRef(null);
  useEffect(() => place.current?.focus(), []);
  const close = onClose && html`<${Button} onClick=${onClose}>Close<//>`;
  return html`<div ref=${place} tabindex="-1" class="focus-place">
    <${Panel} title="Comparison" actions=${close}>
      <${ErrorNote} error=${error} />
      ${isLoading && html`<p class="quiet">Comparing.</p>`}
      ${data && !error && html`<${Differences} data=${data} />`}
    <//>
  </div>`;
}
