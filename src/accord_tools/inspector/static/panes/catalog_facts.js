// The catalog of the server: advice on its entries, and what it is like in each revision.
import { html } from "../preact.js";
import { call } from "../api.js";
import { useAction } from "../store.js";
import { Button, ErrorNote, Fold, Panel, Sign, Text, plural, useWork } from "../ui.js";

const SHOWN = 50;
const PLACES = 8;
const SEVERITIES = { error: "fail", fail: "fail", warning: "warn", warn: "warn" };
const STATES = { ok: "pass", refused: "info", failed: "fail" };

/** The findings that say the same about several entries, as one. */
function groupFindings(findings) {
  const groups = new Map();
  for (const each of findings) {
    const key = JSON.stringify([each.rule, each.severity, each.message]);
    const group = groups.get(key) ?? { ...each, places: [] };
    if (each.where) group.places.push(each.where);
    groups.set(key, group);
  }
  return [...groups.values()];
}

function Finding({ finding }) {
  const places = finding.places.slice(0, PLACES).join(", ");
  const more = finding.places.length - PLACES;
  return html`<li>
    <${Sign} severity=${SEVERITIES[finding.severity] ?? "info"} />
    ${" "}<b><${Text}>${places}<//>${more > 0 && ` and ${more} more`}</b>
    ${" "}<${Text}>${finding.message}<//>
    <span class="quiet"> ${finding.rule}</span>
  </li>`;
}

/** Advice on names, descriptions and schemas. */
export function Lint({ target }) {
  const { data } = useAction("catalog.lint", target, "catalog");
  if (!data?.findings.length) return null;
  const groups = groupFindings(data.findings);
  return html`<${Panel} title=${`Advice on the catalog (${data.findings.length})`}>
    <ul class="plain spaced">
      ${groups.slice(0, SHOWN).map((each, index) => html`<${Finding} key=${index} finding=${each} />`)}
    </ul>
    ${groups.length > SHOWN && html`<p class="quiet">And ${groups.length - SHOWN} more.</p>`}
  <//>`;
}

function Counts({ counts }) {
  return html`<ul class="plain">
    ${Object.entries(counts ?? {}).map(([kind, count]) => html`<li class="whole">${count} ${kind}</li>`)}
  </ul>`;
}

/** The server in each revision of the protocol, on connections of their own. */
export function Revisions({ target, isLive }) {
  const { data, error } = useAction("revisions.get", target, "revisions");
  const [run, isBusy, problem] = useWork(() => call("revisions.run", { target }));
  if (!data) return null;
  const isRunning = isBusy || data.state === "running";
  const rows = data.rows ?? [];
  if (!isLive && rows.length === 0) return null;
  const actions =
    isLive &&
    html`<${Button} onClick=${run} busy=${isRunning}>${rows.length ? "Compare again" : "Compare revisions"}<//>`;
  return html`<${Panel} title="Revisions of the protocol" actions=${actions}>
    <${ErrorNote} error=${error ?? problem} />
    ${rows.length === 0
      ? html`<p class="quiet">Connects once with each revision, and says what differs.</p>`
      : html`<div class="scroll">
          <table class="tight">
            <thead><tr><th>revision</th><th>answer</th><th>offers</th><th>differences from the newest</th></tr></thead>
            <tbody>
              ${rows.map(
                (row) => html`<tr key=${row.revision}>
                  <td>${row.revision}</td>
                  <td>
                    <${Sign} severity=${STATES[row.state] ?? "running"} word=${row.state} />
                    ${row.detail && html`<div class="quiet"><${Text}>${row.detail}<//></div>`}
                  </td>
                  <td><${Counts} counts=${row.counts} /></td>
                  <td>
                    ${row.differences?.length > 0 &&
                    html`<${Fold} title=${plural(row.differences.length, "difference")}>
                      <ul class="plain spaced">
                        ${row.differences.map((each) => html`<li><${Text} lines>${each}<//></li>`)}
                      </ul>
                    <//>`}
                  </td>
                </tr>`,
              )}
            </tbody>
          </table>
        </div>`}
  <//>`;
}
