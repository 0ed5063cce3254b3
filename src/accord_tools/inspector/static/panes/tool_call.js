// The form of a tool, and the ways to call it.
import { html, useEffect, useRef, useState } from "../preact.js";
import { call } from "../api.js";
import { Button, Check, ErrorNote, Field, Fold, Panel, Text, focusIfLost, plural, useWork } from "../ui.js";
import { ArgumentEditor, findErrors } from "../form/editor.js";
import { RunBar } from "./call_view.js";
import { useDraft } from "./drafts.js";

const MOST_TIMES = 100;

/** The options of a call that are seldom needed. */
function Options({ entry, options, onOptions }) {
  const set = (name) => (event) => onOptions({ ...options, [name]: event.currentTarget.value });
  return html`<${Fold} title="Options: _meta, timeout, repeat" open=${Boolean(options.meta)}>
    <${Field} label="_meta (JSON object)" hint="Sent with the call, beside the arguments.">
      <textarea rows="3" spellcheck=${false} value=${options.meta} onInput=${set("meta")}></textarea>
    <//>
    <div class="bar is-form">
      <${Field} label="Timeout (seconds)" inline>
        <input type="text" inputmode="decimal" size="8" value=${options.timeout} onInput=${set("timeout")} />
      <//>
      <${Field} label="Run this many times" inline>
        <input type="number" min="1" max=${MOST_TIMES} value=${options.times} onInput=${set("times")} />
      <//>
      ${entry.task !== "forbidden" &&
      html`<${Check}
        checked=${options.asTask || entry.task === "required"}
        disabled=${entry.task === "required"}
        onChange=${(value) => onOptions({ ...options, asTask: value })}
      >
        as a task
      <//>`}
    </div>
  <//>`;
}

function paramsOf(target, entry, text, options) {
  const params = { target, name: entry.name, arguments: text || "{}" };
  if (options.meta.trim()) params.meta = options.meta;
  if (options.timeout.trim()) {
    const seconds = Number(options.timeout);
    if (!(seconds > 0)) throw new Error("The timeout must be a number of seconds above 0.");
    params.timeout = seconds;
  }
  const times = Number(options.times);
  if (!Number.isInteger(times) || times < 1 || times > MOST_TIMES) {
    throw new Error(`A tool can be run 1 to ${MOST_TIMES} times.`);
  }
  if (times > 1) params.times = times;
  if (options.asTask || entry.task === "required") params.as_task = true;
  return params;
}

/** A question before the call goes out, in place of the run button; the focus goes to it. */
function Ask({ question, yes, onYes, onNo, isBusy }) {
  const box = useRef(null);
  useEffect(() => {
    // A person who went on to the log or the navigation stays there.
    const active = document.activeElement;
    const isHere = active === document.body || active?.closest("#main");
    if (isHere) box.current?.querySelector("button")?.focus();
  }, []);
  return html`<div class="note is-warn" role="group" aria-label="Confirm the call" ref=${box}>
    <p><span class="sign is-warn"><span aria-hidden="true">! </span></span><${Text}>${question}<//></p>
    <div class="actions">
      <${Button} kind="danger" onClick=${onYes} busy=${isBusy}>${yes}<//>
      <${Button} onClick=${onNo}>Do not call<//>
    </div>
  </div>`;
}

const OPTIONS = { meta: "", timeout: "", times: "1", asTask: false };

/** The card of a tool: what it says, its form, what else belongs to it, and below them Run. */
export function ToolCall({ target, entry, about, shownCall, onCalled, children }) {
  const [text, setText] = useDraft(target, "tools", entry.name, "text", "{}");
  const [options, setOptions] = useDraft(target, "tools", entry.name, "options", OPTIONS);
  const [errors, setErrors] = useState([]);
  const [tries, setTries] = useState(0);
  // What has to be agreed to before the call goes out: "errors", or the reason of the server.
  const [asking, setAsking] = useState(null);
  const button = useRef(null);
  const focusRun = () => focusIfLost(() => button.current?.querySelector("[data-run]"));
  const [run, isBusy, problem] = useWork(async ({ isAnyway = false, confirmed = false } = {}) => {
    setTries((count) => count + 1);
    const wrong = isAnyway ? [] : await findErrors(target, "tools", entry.name, text);
    setErrors(wrong);
    if (wrong.length > 0) {
      setAsking({ isErrors: true });
      return;
    }
    const params = paramsOf(target, entry, text, options);
    if (confirmed) params.confirmed = true;
    const answer = await call("calls.tool", params);
    if (answer.confirm) {
      setAsking({ reason: answer.confirm, isAnyway });
      return;
    }
    // The button that was pressed is about to leave the page.
    if (asking) focusRun();
    setAsking(null);
    onCalled(answer.ids ?? [answer.id]);
  });
  const cancel = () => {
    setAsking(null);
    focusRun();
  };
  const many = Number(options.times) > 1 ? ` ${options.times} times` : "";
  const isAgain = shownCall !== null;
  return html`<${Panel} title=${html`<${Text}>${entry.name}<//>`}>
      ${about}
      <${ArgumentEditor}
        target=${target}
        kind="tools"
        name=${entry.name}
        model=${entry.form}
        text=${text}
        tries=${tries}
        onText=${setText}
        onErrors=${setErrors}
      />
      <${Options} entry=${entry} options=${options} onOptions=${setOptions} />
      ${children}
    <//>
    <${RunBar} target=${target} call=${shownCall} innerRef=${button}>
      ${asking?.isErrors &&
      errors.length > 0 &&
      html`<${Ask}
        question=${`The arguments do not fit the schema (${plural(errors.length, "error")}).`}
        yes="Send anyway"
        onYes=${() => run({ isAnyway: true })}
        onNo=${cancel}
        isBusy=${isBusy}
      />`}
      ${asking?.reason &&
      html`<${Ask}
        key="reason"
        question=${asking.reason}
        yes="Call it"
        onYes=${() => run({ isAnyway: true, confirmed: true })}
        onNo=${cancel}
        isBusy=${isBusy}
      />`}
      <${ErrorNote} error=${problem} />
      <${Button} kind="primary" onClick=${() => run()} busy=${isBusy} title="Ctrl+Enter" data-run=${isAgain ? "again" : ""}>
        ${isAgain ? "Run again" : "Run"}${many}
      <//>
    <//>`;
}
