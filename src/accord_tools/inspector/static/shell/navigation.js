// The panes and the way to them.
import { html, useId } from "../preact.js";
import { useAction } from "../store.js";
import { addressOf, go, lastName } from "../route.js";
import { QuestionNotice } from "../panes/question_notice.js";
import { formatCount } from "../ui.js";

/**
 * All panes in their groups; `key` is the letter after g, `live` ones need a connection of their
 * own. The log is no pane: it stands beside all of them.
 */
export const GROUPS = [
  { title: "", panes: [{ id: "overview", title: "Overview", key: "o" }] },
  {
    title: "Use",
    panes: [
      { id: "tools", title: "Tools", key: "t", live: true },
      { id: "resources", title: "Resources", key: "r", live: true },
      { id: "prompts", title: "Prompts", key: "p", live: true },
      { id: "tasks", title: "Tasks", key: "k", live: true },
      { id: "questions", title: "Questions", key: "q", live: true },
    ],
  },
  {
    title: "Look",
    panes: [
      { id: "timeline", title: "Timeline", key: "i" },
      { id: "raw", title: "Raw messages", key: "w", live: true },
      { id: "notifications", title: "Notifications", key: "n" },
    ],
  },
  { title: "Judge", panes: [{ id: "check", title: "Check", key: "c", live: true }] },
  {
    title: "Set up",
    panes: [
      { id: "roots", title: "Roots", key: "f", live: true },
      { id: "authorization", title: "Authorization", key: "a", live: true },
      { id: "history", title: "History", key: "h" },
      { id: "exports", title: "Exports", key: "e" },
    ],
  },
];
export const PANES = GROUPS.flatMap((group) => group.panes);

/** How much the server offers of each kind, and what it does not offer at all. */
export function useCounts(target) {
  const { data } = useAction("catalog.counts", target, "catalog");
  return { counts: data?.counts ?? {}, lacks: data?.lacks ?? [] };
}

/** The panes that a kind of session has. */
export function panesOf(kind) {
  return PANES.filter((pane) => kind === "live" || !pane.live);
}

function QuestionCount({ target }) {
  const { data } = useAction("questions.list", target, "questions");
  const count = data?.questions.length ?? 0;
  return count > 0 && html`<span class="badge">${count}<span class="unseen"> waiting</span></span>`;
}

function PaneLink({ target, each, chosen, count, isLacking }) {
  const isChosen = each.id === chosen;
  // From the pane itself the link leads to its list.
  const name = isChosen ? "" : lastName(target, each.id);
  return html`<li>
    <a
      href=${addressOf(target, each.id, name)}
      class=${isLacking ? "is-lacking" : undefined}
      title=${isLacking ? "The server does not offer this." : undefined}
      aria-current=${isChosen ? "page" : undefined}
    >
      ${each.title}
      ${count !== undefined && html`<span class="count">${formatCount(count)}</span>`}
      ${isLacking && html`<span class="unseen"> not offered</span>`}
      ${each.id === "questions" && html`<${QuestionCount} target=${target} />`}
    </a>
  </li>`;
}

function Group({ target, group, chosen, offered }) {
  const id = useId();
  return html`${group.title && html`<h2 id=${id}>${group.title}</h2>`}
    <ul aria-labelledby=${group.title ? id : undefined}>
      ${group.panes.map(
        (each) => html`<${PaneLink}
          key=${each.id}
          target=${target}
          each=${each}
          chosen=${chosen}
          count=${offered.counts[each.id]}
          isLacking=${offered.lacks.includes(each.id)}
        />`,
      )}
    </ul>`;
}

/** Links to the panes; a select where there is little room. */
export function Navigation({ target, pane, kind, offered }) {
  const panes = panesOf(kind);
  const groups = GROUPS.map(({ title, panes: all }) => ({
    title,
    panes: all.filter((each) => panes.includes(each)),
  })).filter((group) => group.panes.length > 0);
  const options = (each) =>
    each.map(({ id, title }) => {
      const count = offered.counts[id];
      return html`<option value=${id}>${title}${count === undefined ? "" : ` (${formatCount(count)})`}</option>`;
    });
  return html`<nav aria-label="Panes">
    ${kind === "live" && html`<${QuestionNotice} key=${target} target=${target} />`}
    <div class="nav-select">
      <label for="pane-select">Pane</label>
      <select
        id="pane-select"
        value=${pane}
        onChange=${({ currentTarget: { value } }) => go(target, value, lastName(target, value))}
      >
        ${groups.map((group) =>
          group.title
            ? html`<optgroup label=${group.title}>${options(group.panes)}</optgroup>`
            : options(group.panes),
        )}
      </select>
      ${kind === "live" && html`<${QuestionCount} target=${target} />`}
    </div>
    <div class="nav-groups">
      ${groups.map(
        (group) => html`<${Group} key=${group.title} target=${target} group=${group} chosen=${pane} offered=${offered} />`,
      )}
    </div>
  </nav>`;
}
