// The results of a check: the summary, filters, and one page of rows at a time.
import { html, useMemo, useState } from "../preact.js";
import { Copy, Empty, Facts, Field, Fold, Sign, Text, formatCount } from "../ui.js";
import { Clause, Pager } from "./pane_parts.js";

const PAGE = 100;
const ALL = "";
const SEVERITIES = { fail: "fail", warn: "warn", pass: "pass" };

/** What a verdict means for the sign beside it. */
function severityOf(verdict) {
  return SEVERITIES[verdict] ?? "untried";
}

function distinct(results, key) {
  return [...new Set(results.map((each) => each[key]).filter(Boolean))].sort();
}

function matches(result, { verdict, level, text }) {
  if (verdict !== ALL && result.verdict !== verdict) return false;
  if (level !== ALL && result.level !== level) return false;
  if (text === "") return true;
  const whole = [result.id, result.message, result.clause].join("\n").toLowerCase();
  return whole.includes(text.toLowerCase());
}

function Choice({ label, value, values, onChange }) {
  return html`<${Field} label=${label}>
    <select value=${value} onChange=${(event) => onChange(event.target.value)}>
      <option value="">All</option>
      ${values.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
    </select>
  <//>`;
}

function ByRevision({ verdicts }) {
  const pairs = Object.entries(verdicts ?? {});
  if (pairs.length < 2) return null;
  return html`<${Facts}
    facts=${pairs.map(([revision, verdict]) => [
      revision,
      html`<${Sign} severity=${severityOf(verdict)} word=${verdict} />`,
    ])}
  />`;
}

function CheckResult({ result }) {
  const [isOpen, setOpen] = useState(false);
  return html`<li>
    <details open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <${Sign} severity=${severityOf(result.verdict)} word=${result.verdict} />${" "}
        <code>${result.id}</code>${" "}<span class="quiet">${result.level}</span>${" "}
        <${Text}>${result.message}<//>
      </summary>
      ${isOpen &&
      html`<div class="fold-body">
        <${Clause} item=${result} />
        <${ByRevision} verdicts=${result.by_revision} />
        ${result.repeat &&
        html`<p>
          See it again: <code><${Text}>${result.repeat}<//></code> <${Copy} text=${result.repeat} />
        </p>`}
        ${result.evidence?.length > 0 &&
        html`<h3>Evidence</h3>
          ${result.evidence.map((each, index) => html`<pre class="long" key=${index}><${Text} lines>${each}<//></pre>`)}`}
      </div>`}
    </details>
  </li>`;
}

/** Tools that the check left alone, each with the reason. */
function NotCalled({ tools }) {
  const pairs = Object.entries(tools ?? {});
  if (pairs.length === 0) return null;
  return html`<${Fold} title=${`Tools that were not called (${pairs.length})`}>
    <ul>
      ${pairs.map(
        ([name, why]) => html`<li key=${name}><code><${Text}>${name}<//></code> <${Text}>${why}<//></li>`,
      )}
    </ul>
  <//>`;
}

function Summary({ report }) {
  return html`
    <p><strong><${Text}>${report.summary}<//></strong></p>
    <${Facts}
      facts=${[
        ["Score", report.score === null || report.score === undefined ? "" : String(report.score)],
        ["Revisions", (report.revisions ?? []).join(", ")],
        ...Object.entries(report.counts ?? {}).map(([name, count]) => [name, formatCount(count)]),
      ]}
    />
    ${(report.notes ?? []).map((each, index) => html`<p key=${index}><${Text}>${each}<//></p>`)}
    <${NotCalled} tools=${report.not_called} />
  `;
}

/** The report of a check with filters. */
export function CheckResults({ report }) {
  const [filter, setFilter] = useState({ verdict: ALL, level: ALL, text: "" });
  const [start, setStart] = useState(0);
  const change = (more) => {
    setFilter({ ...filter, ...more });
    setStart(0);
  };
  const results = report.results;
  const found = useMemo(() => results.filter((each) => matches(each, filter)), [results, filter]);
  return html`
    <${Summary} report=${report} />
    <div class="bar" role="search" aria-label="Results">
      <${Choice}
        label="Verdict"
        value=${filter.verdict}
        values=${distinct(results, "verdict")}
        onChange=${(verdict) => change({ verdict })}
      />
      <${Choice}
        label="Level"
        value=${filter.level}
        values=${distinct(results, "level")}
        onChange=${(level) => change({ level })}
      />
      <${Field} label="Text">
        <input
          type="search"
          data-filter
          value=${filter.text}
          onInput=${(event) => change({ text: event.target.value })}
        />
      <//>
    </div>
    <p class="quiet" role="status">${formatCount(found.length)} of ${formatCount(results.length)}</p>
    ${found.length === 0 && html`<${Empty}>No result matches.<//>`}
    <ol class="plain-list rows">
      ${found
        .slice(start, start + PAGE)
        .map((each) => html`<${CheckResult} key=${each.id} result=${each} />`)}
    </ol>
    <${Pager}
      label="Pages of results"
      start=${start}
      count=${PAGE}
      total=${found.length}
      onStart=${setStart}
    />
  `;
}
