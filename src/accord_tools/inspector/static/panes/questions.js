// The questions of the server that wait for a person: all of them in their pane, those of a call
// also where its result will be.
import { html, useEffect, useRef, useState } from "../preact.js";
import { call } from "../api.js";
import { useAction } from "../store.js";
import {
  Button,
  Empty,
  ErrorNote,
  Facts,
  Field,
  Panel,
  SafeLink,
  Text,
  announce,
  formatTime,
} from "../ui.js";
import { addressOf } from "../route.js";
import { ArgumentEditor, findErrors } from "../form/editor.js";
import { useDraft } from "./drafts.js";
import { SamplingAnswer, SamplingRequest } from "./sampling.js";
import { KeepAnswer, StandingAnswers } from "./standing_answers.js";
import { TITLES } from "./question_notice.js";
import { focusPane, useNow, useNamedWork } from "./pane_parts.js";

const PANES = { tool: "tools", resource: "resources", prompt: "prompts" };

/** Sends one answer, or keeps it for later questions too; `done` runs after the server has it. */
function useAnswer(target, question, done) {
  const work = useNamedWork();
  const [isKept, setKept] = useState(false);
  const answer = (action, more = {}) =>
    work.run(action, async () => {
      const given = { id: question.id, action, always: isKept, ...more };
      await call("questions.answer", { target, ...given });
      announce("Answered.");
      done();
    });
  return { ...work, answer, isKept, setKept };
}

function TimeLeft({ expires }) {
  const now = useNow(expires !== null && expires !== undefined);
  if (expires === null || expires === undefined) return null;
  const left = Math.max(0, Math.round(expires - now));
  const shown = left >= 60 ? `${Math.floor(left / 60)} min ${left % 60} s` : `${left} s`;
  return html`<span class="quiet">${left > 0 ? `${shown} left` : "The time is over."}</span>`;
}

function Elicitation({ target, question, work }) {
  const [text, setText] = useDraft(target, "question", question.id, "text", "{}");
  const [tries, setTries] = useState(0);
  const [isWrong, setWrong] = useState(false);
  const accept = async () => {
    setTries(tries + 1);
    const found = await findErrors(target, "question", question.id, text);
    setWrong(found.length > 0);
    if (found.length === 0) await work.answer("accept", { content: text });
  };
  return html`
    <${ArgumentEditor}
      target=${target}
      kind="question"
      name=${question.id}
      model=${question.form}
      text=${text}
      tries=${tries}
      onText=${setText}
      onErrors=${(found) => setWrong(isWrong && found.length > 0)}
    />
    ${isWrong && html`<p class="note is-warn">Nothing is sent: the answer does not fit the form.</p>`}
    <${KeepAnswer} isKept=${work.isKept} onKeep=${work.setKept} isForm />
    <${Choices} work=${work} onAccept=${accept} accept="Accept and send" />
  `;
}

/** The three answers of an elicitation. */
function Choices({ work, onAccept = () => work.answer("accept"), accept }) {
  const busy = work.busy;
  return html`<div class="actions">
    <${Button} kind="primary" busy=${busy === "accept"} title="Ctrl+Enter" data-accept="" onClick=${onAccept}>
      ${accept}
    <//>
    <${Button} onClick=${() => work.answer("decline")}>Decline<//>
    <${Button} onClick=${() => work.answer("cancel")}>Cancel<//>
  </div>`;
}

function Address({ question }) {
  return html`
    <${Facts}
      facts=${[
        ["Host", html`<${Text}>${question.host}<//>`],
        ["Whole address", html`<${Text}>${question.url}<//>`],
      ]}
    />
    <p>
      Check the host before you open it: the server chose this address.${" "}
      <${SafeLink} href=${question.url}>Open the address<//>
    </p>
  `;
}

function UrlQuestion({ question, work }) {
  return html`
    <${Address} question=${question} />
    <p class="quiet">Accept says that you agree to open it, not that you have finished there.</p>
    <${Choices} work=${work} accept="Accept" />
  `;
}

function SignIn({ question, work }) {
  const [pasted, setPasted] = useState("");
  const send = (event) => {
    event.preventDefault();
    work.answer("accept", { redirected: pasted.trim() });
  };
  return html`
    <${Address} question=${question} />
    <p>
      After the sign-in your browser returns here by itself. If it runs on another machine, it ends
      at an address that it cannot open: paste that address here.
    </p>
    <form onSubmit=${send}>
      <${Field} label="Address that the browser ended at">
        <input
          type="text"
          inputmode="url"
          autocomplete="off"
          spellcheck="false"
          value=${pasted}
          onInput=${(event) => setPasted(event.target.value)}
        />
      <//>
      <div class="actions">
        <${Button} type="submit" kind="primary" data-accept="" busy=${work.busy === "accept"}>
          Use this address
        <//>
        <${Button} onClick=${() => work.answer("cancel")}>
          Cancel the sign-in
        <//>
      </div>
    </form>
  `;
}

/** The call that a question belongs to, as a way to its pane. */
function CallLink({ target, calls, id }) {
  const found = calls.find((each) => each.id === id);
  if (!found || !PANES[found.kind]) return html`<span>call ${id}</span>`;
  return html`<a href=${addressOf(target, PANES[found.kind], found.name)}>
    the call of <${Text}>${found.name}<//>
  </a>`;
}

function onAcceptKey(event) {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  event.currentTarget.querySelector("[data-accept]")?.click();
}

function Question({ target, question, calls = [], level = 2, onAnswered }) {
  const work = useAnswer(target, question, onAnswered);
  const kind = question.kind;
  return html`<div onKeyDown=${onAcceptKey}>
    <${Panel} title=${TITLES[kind] ?? kind} level=${level}>
      <p class="quiet">
        Asked at ${formatTime(question.at)}${" "}<${TimeLeft} expires=${question.expires_at} />
        ${question.call && level === 2 && html`${" "}during <${CallLink} target=${target} calls=${calls} id=${question.call} />`}
      </p>
      ${question.message &&
      kind !== "sampling" &&
      html`<p><${Text} lines>${question.message}<//></p>`}
      ${kind === "sampling" &&
      html`<${SamplingRequest} text=${question.params} />
        <${SamplingAnswer} target=${target} question=${question} work=${work} />`}
      ${kind === "elicitation" &&
      html`<${Elicitation} target=${target} question=${question} work=${work} />`}
      ${kind === "url" && html`<${UrlQuestion} question=${question} work=${work} />`}
      ${kind === "sign-in" && html`<${SignIn} question=${question} work=${work} />`}
      <${ErrorNote} error=${work.error} />
    <//>
  </div>`;
}

// What has the focus while a person waits.
const IDLE = "#main, [data-run]";
const FIELDS = ":is(input, select, textarea):not([type=checkbox], [type=file])";

function focusedField() {
  const element = /** @type {HTMLInputElement} */ (document.activeElement);
  return { element, value: element.value };
}

/** The questions that a running call waits for, answered where its result will be. */
export function CallQuestions({ target, call: id }) {
  const { data } = useAction("questions.list", target, "questions");
  const own = (data?.questions ?? []).filter((each) => each.call === id);
  const box = useRef(null);
  const [before] = useState(focusedField);
  useEffect(() => {
    if (own.length === 0) return;
    box.current.scrollIntoView({ block: "nearest" });
    const { element, value } = focusedField();
    const isUnmoved = element === before.element && value === before.value;
    // A person who went on, or types something else meanwhile, is not interrupted.
    if (element === document.body || (element.closest("#main") && (isUnmoved || element.matches(IDLE)))) {
      (box.current.querySelector(FIELDS) ?? box.current.querySelector("a[href], button"))?.focus();
    }
  }, [own[0]?.id]);
  return html`<div ref=${box}>
    ${own.map(
      (each) => html`<${Question} key=${each.id} target=${target} question=${each} level=${3} onAnswered=${focusPane} />`,
    )}
  </div>`;
}

export function Pane({ target }) {
  const { data, error, isLoading } = useAction("questions.list", target, "questions");
  const calls = useAction("calls.list", target, "calls").data?.calls ?? [];
  const [answered, setAnswered] = useState(null);
  const questions = data?.questions ?? null;
  return html`<div class="pane" data-pane="questions">
    <${ErrorNote} error=${error} />
    <${StandingAnswers} target=${target} />
    ${isLoading && html`<p class="quiet">Loading.</p>`}
    ${questions?.length === 0 &&
    html`<${Empty}>
      No question waits. When the server asks for a message of a model (sampling), for information
      (elicitation) or for a sign-in, the question appears here and waits for you.
    <//>`}
    ${answered &&
    html`<p class="note is-info">
      Answered. See <${CallLink} target=${target} calls=${calls} id=${answered} />.
    </p>`}
    <ol class="plain-list">
      ${(questions ?? []).map(
        (each) => html`<li key=${each.id}>
          <${Question}
            target=${target}
            question=${each}
            calls=${calls}
            onAnswered=${() => {
              setAnswered(each.call);
              focusPane();
            }}
          />
        </li>`,
      )}
    </ol>
  </div>`;
}
