// Answers that stand for later questions: the box to tick, and the list with a way to end each.
import { html } from "../preact.js";
import { call } from "../api.js";
import { useAction } from "../store.js";
import { Button, Check, ErrorNote, Panel, Text, announce, plural } from "../ui.js";
import { shown } from "../text.js";
import { focusPane, useNamedWork } from "./pane_parts.js";

const KINDS = {
  sampling: "Every request for a message of a model",
  elicitation: "Every request for information with the same form",
};

/** The box beside the answers; `isForm` questions keep the answer to the same form. */
export function KeepAnswer({ isKept, onKeep, isForm }) {
  return html`<div class="bar">
    <${Check} checked=${isKept} onChange=${onKeep}>Answer like this from now on<//>
    <span class="quiet">
      ${isForm ? "For questions with the same form" : "For all such questions"}, until you end it or
      close the inspector.
    </span>
  </div>`;
}

/** The standing answers, and how often each was used. */
export function StandingAnswers({ target }) {
  const { data } = useAction("questions.rules", target, "questions");
  const work = useNamedWork();
  const rules = data?.rules ?? [];
  const end = (rule) =>
    work.run(rule.id, async () => {
      await call("questions.forget_rule", { target, id: rule.id });
      announce("The standing answer has ended.");
      focusPane();
    });
  if (rules.length === 0) return html`<${ErrorNote} error=${work.error} />`;
  return html`<${Panel} title="Standing answers">
    <ul class="plain-list">
      ${rules.map(
        (rule) => html`<li key=${rule.id} class="bar">
          <span class="grow">
            ${KINDS[rule.kind] ?? rule.kind}: <b><${Text}>${rule.summary}<//></b>
            ${" "}<span class="quiet">(${rule.id}, used ${plural(rule.uses, "time")})</span>
          </span>
          <${Button}
            kind="plain small"
            busy=${work.busy === rule.id}
            aria-label=${`End it: ${shown(rule.summary)}`}
            onClick=${() => end(rule)}
          >
            End it
          <//>
        </li>`,
      )}
    </ul>
    <${ErrorNote} error=${work.error} />
  <//>`;
}
