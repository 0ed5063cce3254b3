// A call while it runs and when it has ended; shared by tools, resources and prompts.
import { html, useEffect, useRef, useState } from "../preact.js";
import { call } from "../api.js";
import { useAction } from "../store.js";
import { showInLog } from "../log/focus.js";
import { Outcome, Result } from "../result.js";
import { shown } from "../text.js";
import {
  Button,
  Empty,
  ErrorNote,
  Facts,
  Fold,
  Panel,
  Progress,
  Text,
  announce,
  formatSeconds,
  formatSize,
  formatTime,
  plural,
  useWork,
} from "../ui.js";
import { ExportMenu } from "./exports.js";
import { CallQuestions } from "./questions.js";

const RECENT = 10;

/** The calls of this session, newest first. */
export function useCalls(target) {
  return useAction("calls.list", target, "calls").data?.calls ?? [];
}

/** A call in full; asked for again only when its line in the list of calls changes. */
export function useCall(target, id, reveal = false) {
  const line = useCalls(target).find((each) => each.id === id);
  const [state, setState] = useState({ data: null, error: null });
  const facts = line && JSON.stringify([line.state, line.is_error, line.size, line.fail, line.warn]);
  useEffect(() => {
    if (id === null || id === undefined) return undefined;
    let isCurrent = true;
    call("calls.get", { target, id, reveal }).then(
      (data) => isCurrent && setState({ data, error: null }),
      (error) => isCurrent && setState({ data: null, error }),
    );
    return () => (isCurrent = false);
  }, [target, id, facts, reveal]);
  const data = state.data?.id === id ? { ...state.data, ...line } : null;
  return { data, error: state.error };
}

function Running({ target, current }) {
  const [cancel, isBusy, error] = useWork(() => call("calls.cancel", { target, id: current.id }));
  const { progress } = current;
  return html`<div>
    <${CallQuestions} target=${target} call=${current.id} />
    <${Progress} label="Progress" value=${progress?.value} total=${progress?.total} />
    <p aria-live="off">
      ${progress
        ? html`${progress.value}${progress.total != null && ` of ${progress.total}`}
            ${" "}<${Text}>${progress.message ?? ""}<//>`
        : "Waiting for the answer."}
    </p>
    <${Button} kind="danger" onClick=${cancel} busy=${isBusy}>Cancel<//>
    <${ErrorNote} error=${error} />
  </div>`;
}

function announceEnd(data) {
  const word = data.state === "done" && data.is_error ? "the tool reports an error" : data.state;
  announce(`${shown(data.name)}: ${word} after ${formatSeconds(data.seconds)}`);
}

/**
 * What runs an entry, below its card: always in view, also while a long form or a long result is.
 * It says how the last call ended, and leads to its result.
 */
export function RunBar({ target, call: id, children, innerRef }) {
  const line = useCalls(target).find((each) => each.id === id);
  return html`<div class="run-bar" role="group" aria-label="Run" ref=${innerRef}>
    ${children}
    ${line &&
    html`<span class="run-outcome">
      <${Outcome} call=${line} />
      <span class="quiet"> ${[formatSeconds(line.seconds), formatSize(line.size)].filter(Boolean).join(", ")}</span>
    </span>`}
  </div>`;
}

/** Bring a call that was just chosen or made into view; one that was shown before stays where it is. */
function useInView(id, facts) {
  const box = useRef(null);
  const first = useRef(id);
  useEffect(() => {
    if (id !== first.current) box.current?.scrollIntoView({ block: "nearest" });
  }, [id, facts]);
  return box;
}

/** The chosen call: progress and cancel while it runs, then what it brought. */
export function CallView({ target, id }) {
  const [reveal, setReveal] = useState(false);
  const { data, error } = useCall(target, id, reveal);
  const before = useRef(null);
  const box = useInView(id, data?.state);
  useEffect(() => {
    if (!data) return;
    if (before.current === `${id} running` && data.state !== "running") announceEnd(data);
    before.current = `${id} ${data.state}`;
  }, [id, data?.state]);
  if (id === null || id === undefined) return null;
  if (error) return html`<${ErrorNote} error=${error} />`;
  if (!data) return html`<${Empty}>Loading.<//>`;
  const actions = html`<${Button} kind="plain small" onClick=${() => showInLog({ filter: { call: id } })}>
    Messages of this call
  <//>`;
  return html`<div class="call" ref=${box}><${Panel} title="Result" actions=${actions}>
    ${data.rule_answers > 0 &&
    html`<p class="quiet">A standing answer was given to ${plural(data.rule_answers, "question")}.</p>`}
    ${data.is_late && html`<p class="note is-warn">The answer came after the call was given up.</p>`}
    ${data.state === "running"
      ? html`<${Running} target=${target} current=${data} />`
      : html`<${Result} key=${id} call=${data} />`}
    ${data.state !== "running" &&
    (data.is_masked || reveal) &&
    html`<p>
      <${Button} kind="plain small" aria-pressed=${reveal ? "true" : "false"} onClick=${() => setReveal(!reveal)}>
        ${reveal ? "Mask values again" : "Show masked values"}
      <//>
    </p>`}
    ${data.progress_seen?.length > 0 &&
    html`<${Fold} title=${`Progress reports (${data.progress_seen.length})`}>
      <ol>
        ${data.progress_seen.map(
          (each) => html`<li>
            ${each.value}${each.total != null && ` of ${each.total}`} <${Text}>${each.message ?? ""}<//>
          </li>`,
        )}
      </ol>
    <//>`}
    ${data.state !== "running" && html`<${ExportMenu} key=${`export ${id}`} target=${target} call=${id} />`}
  <//></div>`;
}

/** Earlier calls of the same thing. */
export function RecentCalls({ target, kind, name, chosen, onChoose }) {
  const calls = useCalls(target).filter((each) => each.kind === kind && each.name === name);
  if (calls.length === 0) return null;
  return html`<${Panel} title="Calls in this session" level=${3}>
    <div class="scroll">
      <table>
        <thead>
          <tr><th>time</th><th>outcome</th><th>took</th><th>size</th></tr>
        </thead>
        <tbody>
          ${calls.slice(0, RECENT).map(
            (each) => html`<tr key=${each.id} aria-current=${each.id === chosen ? "true" : undefined}>
              <td>
                <${Button} kind="plain small" onClick=${() => onChoose(each.id)} aria-pressed=${each.id === chosen ? "true" : "false"}>
                  ${formatTime(each.at)}
                <//>
              </td>
              <td><${Outcome} call=${each} /></td>
              <td>${formatSeconds(each.seconds)}</td>
              <td>${formatSize(each.size)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  <//>`;
}

/** The spread of the times of several calls. */
export function Spread({ target, ids }) {
  const { data } = useAction("calls.spread", target, "calls", { ids });
  if (!data) return null;
  const facts = [
    ["calls", `${data.count} of ${ids.length}`],
    ["shortest", formatSeconds(data.min)],
    ["median", formatSeconds(data.median)],
    ["90 %", formatSeconds(data.p90)],
    ["longest", formatSeconds(data.max)],
    ["errors", String(data.errors)],
  ];
  return html`<${Panel} title="Time of the calls" level=${3}><${Facts} facts=${facts} /><//>`;
}
