// The panes and the way to them.
import { html } from "../preact.js";
import { useAction } from "../store.js";
import { addressOf, go } from "../route.js";
import { QuestionNotice } from "../panes/question_notice.js";

/** All panes; `key` is the letter after g, `live` ones need a connection of their own. */
export const PANES = [
  { id: "overview", title: "Overview", key: "o" },
  { id: "tools", title: "Tools", key: "t", live: true },
  { id: "resources", title: "Resources", key: "r", live: true },
  { id: "prompts", title: "Prompts", key: "p", live: true },
  { id: "tasks", title: "Tasks", key: "k", live: true },
  { id: "questions", title: "Questions", key: "q", live: true },
  { id: "roots", title: "Roots", key: "f", live: true },
  { id: "notifications", title: "Notifications", key: "n" },
  { id: "timeline", title: "Timeline", key: "i" },
  { id: "raw", title: "Raw messages", key: "w", live: true },
  { id: "check", title: "Check", key: "c", live: true },
  { id: "authorization", title: "Authorization", key: "a", live: true },
  { id: "history", title: "History", key: "h" },
  { id: "exports", title: "Exports", key: "e" },
];

/** The panes that a kind of session has. */
export function panesOf(kind) {
  return PANES.filter((pane) => kind === "live" || !pane.live);
}

function QuestionCount({ target }) {
  const { data } = useAction("questions.list", target, "questions");
  const count = data?.questions.length ?? 0;
  return count > 0 && html`<span class="badge">${count}<span class="unseen"> waiting</span></span>`;
}

/** Links to the panes; a select where there is little room. */
export function Navigation({ target, pane, kind }) {
  const panes = panesOf(kind);
  return html`<nav aria-label="Panes">
    ${kind === "live" && html`<${QuestionNotice} key=${target} target=${target} />`}
    <div class="nav-select">
      <label for="pane-select">Pane</label>
      <select
        id="pane-select"
        value=${pane}
        onChange=${(event) => go(target, event.currentTarget.value)}
      >
        ${panes.map((each) => html`<option value=${each.id}>${each.title}</option>`)}
      </select>
      ${kind === "live" && html`<${QuestionCount} target=${target} />`}
    </div>
    <ul>
      ${panes.map(
        (each) => html`<li key=${each.id}>
          <a
            href=${addressOf(target, each.id)}
            aria-current=${each.id === pane ? "page" : undefined}
          >
            ${each.title}
            ${each.id === "questions" && html`<${QuestionCount} target=${target} />`}
          </a>
        </li>`,
      )}
    </ul>
  </nav>`;
}
