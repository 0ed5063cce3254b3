// One message: what it says, which clauses it breaks and keeps, and what belongs to it.
import { html, useEffect, useRef, useState } from "../preact.js";
import { call } from "../api.js";
import { JsonView } from "../json_view.js";
import {
  Button,
  ErrorNote,
  Facts,
  Fold,
  LongText,
  SafeLink,
  Sign,
  Text,
  formatSeconds,
  formatSize,
  formatTime,
  plural,
} from "../ui.js";

function Numbers({ numbers, onRow, label }) {
  return html`<div class="numbers">
    ${label && html`<span class="quiet">${label}</span>`}
    ${numbers.map((n) => html`<${Button} key=${n} kind="plain small" onClick=${() => onRow(n)}>${n}<//>`)}
  </div>`;
}

/** Scroll the message to a marked place. */
function showPlace(place) {
  const marked = [...document.querySelectorAll(".log-detail [data-pointer]")];
  marked.find((each) => each.getAttribute("data-pointer") === place)?.scrollIntoView({ block: "center" });
}

function Breach({ breach, onRow, onFilter }) {
  return html`<div class=${"breach is-" + breach.severity}>
    <p>
      <${Sign} severity=${breach.severity} /> <code>${breach.requirement}</code>
      <span class="quiet"> ${breach.level}, ${breach.party}</span>
    </p>
    <p>
      <${Text}>${breach.why}<//>
      ${breach.place != null &&
      html` <${Button} kind="plain small" title="Go to this place" onClick=${() => showPlace(breach.place)}>
        at <code><${Text}>${breach.place || "/"}<//></code>
      <//>`}
    </p>
    <p class="clause"><${Text}>${breach.clause}<//></p>
    ${breach.mend && html`<p class="mend"><b>To mend: </b><${Text}>${breach.mend}<//></p>`}
    <p>
      ${breach.url && html`<${SafeLink} href=${breach.url}>The clause<//> `}
      <${Button} kind="plain small" onClick=${() => onFilter({ requirement: breach.requirement })}>
        All messages that break this
      <//>
    </p>
    ${breach.others?.length > 0 &&
    html`<${Numbers} label="Also broken by" numbers=${breach.others} onRow=${onRow} />`}
  </div>`;
}

function Kept({ kept }) {
  if (!kept?.length) return null;
  return html`<${Fold} title=${`${plural(kept.length, "clause")} kept`}>
    <ul>
      ${kept.map(
        (each) => html`<li key=${each.requirement}>
          <code>${each.requirement}</code> <span class="quiet">${each.level}, ${each.party}: </span>
          <${Text}>${each.clause}<//> ${each.url && html`<${SafeLink} href=${each.url}>clause<//>`}
        </li>`,
      )}
    </ul>
  <//>`;
}

function Http({ http }) {
  if (!http?.lines?.length) return null;
  return html`<${Fold} title=${`HTTP (${plural(http.lines.length, "line")})`}>
    <div class="scroll">
      <table>
        <tbody>
          ${http.lines.map(
            ([name, value], index) => html`<tr key=${index}>
              <th scope="row"><${Text}>${name}<//></th>
              <td class="mono"><${Text}>${value}<//></td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  <//>`;
}

/** The detail of a row; asked for again only when the row itself changes. */
function useDetail(target, row, reveal) {
  const [state, setState] = useState({ data: null, error: null });
  const facts = JSON.stringify([row.n, row.pair, row.took, row.severity, row.breaches, row.kept]);
  useEffect(() => {
    let isCurrent = true;
    call("log.detail", { target, n: row.n, reveal }).then(
      (data) => isCurrent && setState({ data, error: null }),
      (error) => isCurrent && setState((before) => ({ ...before, error })),
    );
    return () => (isCurrent = false);
  }, [target, facts, reveal]);
  return state.data?.row.n === row.n ? state : { data: null, error: state.error };
}

export function Detail({ target, row, onClose, onRow, onFilter, onRelated }) {
  const [reveal, setReveal] = useState(false);
  const { data, error } = useDetail(target, row, reveal);
  const box = useRef(null);
  useEffect(() => setReveal(false), [row.n]);
  useEffect(() => {
    if (data) onRelated([...(data.related ?? []), row.pair].filter((n) => n != null));
  }, [data, row.pair]);
  const breaches = data?.breaches ?? [];
  const places = breaches.map((each) => each.place).filter((place) => place != null);
  const facts = [
    ["time", `${formatTime(row.at)} (${row.t.toFixed(3)} s)`],
    ["from", row.from],
    ["kind", row.kind],
    ["id", row.id && html`<code><${Text}>${row.id}<//></code>`],
    ["size", formatSize(row.size)],
    ["answered after", formatSeconds(row.took)],
    ["status", row.status],
    ["conversation", row.conversation === "main" ? "" : row.conversation],
  ];
  const onKeyDown = (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      onClose();
    }
  };
  return html`<section class="log-detail" aria-label=${`Message ${row.n}`} tabindex="-1" ref=${box} onKeyDown=${onKeyDown}>
    <div class="panel-head">
      <h2>Message ${row.n}${row.method && html` <${Text}>${row.method}<//>`}</h2>
      <div class="actions">
        <${Button} kind="plain small" onClick=${() => onFilter({ related: row.n })}>Only related<//>
        <${Button} kind="plain small" onClick=${onClose} title="Close (Escape)">Close<//>
      </div>
    </div>
    <${Facts} facts=${facts} />
    <${ErrorNote} error=${error} />
    ${data &&
    html`${breaches.map((each) => html`<${Breach} key=${each.requirement + each.place} breach=${each} onRow=${onRow} onFilter=${onFilter} />`)}
      ${data.is_cut && html`<p class="note is-warn">Only the beginning of this message is kept.</p>`}
      ${data.is_json
        ? html`<${JsonView} key=${row.n} text=${data.text} marked=${places} />`
        : html`<${LongText} key=${row.n} label="Text of the message">${data.text}<//>`}
      ${(data.is_masked || reveal) &&
      html`<p>
        <${Button} kind="plain small" aria-pressed=${reveal ? "true" : "false"} onClick=${() => setReveal(!reveal)}>
          ${reveal ? "Mask values again" : "Show masked values"}
        <//>
      </p>`}
      <${Http} http=${data.http} />
      <${Kept} kept=${data.kept} />
      ${data.related?.length > 0 && html`<${Numbers} label="Related" numbers=${data.related} onRow=${onRow} />`}`}
  </section>`;
}
