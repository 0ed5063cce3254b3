// Tasks of the server: their states, results and cancellation.
import { html, useState } from "../preact.js";
import { call } from "../api.js";
import { useAction } from "../store.js";
import {
  Button,
  Empty,
  ErrorNote,
  Panel,
  Text,
  announce,
  formatSeconds,
  formatTime,
} from "../ui.js";
import { CallView } from "./call_view.js";
import { useNamedWork } from "./pane_parts.js";

const ENDED = new Set(["completed", "failed", "cancelled"]);

function TaskRow({ task, work, act }) {
  const isEnded = ENDED.has(task.status);
  const label = (what) => `${what} of task ${task.id}`;
  return html`<tr>
    <th scope="row" class="mono"><${Text}>${task.id}<//></th>
    <td>
      <div class="actions">
        <${Button}
          kind="plain small"
          title=${label("State")}
          onClick=${() => act("state", task.id)}
        >
          Ask state
        <//>
        <${Button}
          kind="plain small"
          title=${label("Result")}
          onClick=${() => act("result", task.id)}
        >
          Result
        <//>
        <${Button}
          kind="danger small"
          title=${label("Cancellation")}
          aria-disabled=${isEnded ? "true" : undefined}
          onClick=${() => !isEnded && act("cancel", task.id)}
        >
          Cancel
        <//>
      </div>
    </td>
    <td><${Text}>${task.tool ?? ""}<//></td>
    <td>
      <${Text}>${task.status}<//>
      ${task.message && html`<br /><span class="quiet"><${Text}>${task.message}<//></span>`}
    </td>
    <td>${task.updated_at ? formatTime(task.updated_at) : formatTime(task.at)}</td>
    <td>${formatSeconds(task.poll)}</td>
    <td>${formatSeconds(task.ttl)}</td>
  </tr>`;
}

function TaskTable({ target, tasks }) {
  const [shown, setShown] = useState(null);
  const work = useNamedWork();
  const act = (what, id) =>
    work.run(what, async () => {
      if (what === "state") await call("tasks.refresh", { target, id });
      if (what === "cancel") await call("tasks.cancel", { target, id });
      if (what === "result") setShown((await call("tasks.result", { target, id })).id);
      announce(what === "cancel" ? "The task is cancelled." : "Asked the server.");
    });
  const all = html`<${Button}
    onClick=${() => work.run("all", () => call("tasks.refresh", { target }))}
  >
    Ask the state of all
  <//>`;
  return html`
    <${Panel} title="Tasks of the server" actions=${all}>
    <${ErrorNote} error=${work.error} />
    ${tasks.length === 0 &&
    html`<${Empty}>No tasks yet. Run a tool as a task: the tool's pane offers it where the tool allows it.<//>`}
    ${tasks.length > 0 &&
    html`<div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Task</th>
            <th scope="col">Ask</th>
            <th scope="col">Tool</th>
            <th scope="col">Status</th>
            <th scope="col">Updated</th>
            <th scope="col">Poll every</th>
            <th scope="col">Kept for</th>
          </tr>
        </thead>
        <tbody>
          ${tasks.map((task) => html`<${TaskRow} key=${task.id} task=${task} work=${work} act=${act} />`)}
        </tbody>
      </table>
    </div>`}
    <//>
    ${shown !== null && html`<${CallView} key=${shown} target=${target} id=${shown} />`}
  `;
}

export function Pane({ target }) {
  const { data, error } = useAction("tasks.list", target, "tasks");
  return html`<div class="pane" data-pane="tasks">
    <${ErrorNote} error=${error} />
    ${data && !data.is_supported && html`<${Empty}><${Text}>${data.reason}<//><//>`}
    ${data?.is_supported && html`<${TaskTable} target=${target} tasks=${data.tasks} />`}
  </div>`;
}
