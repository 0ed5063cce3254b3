// The arguments of a call: as a form and as JSON, two views of one text, validated by Python.
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../preact.js";
import { call } from "../api.js";
import { parseJson, printJson } from "../json_text.js";
import { Button, ErrorNote, Field, Tabs, Text, announce, useWork } from "../ui.js";
import { shown } from "../text.js";
import { idOf, initialText } from "./model.js";
import { Form, focusPlace } from "./form.js";

const WAIT = 150;
const MOST_LISTED = 20;
// The mark of the whole as JSON; no id of a place is like this.
const EVERYTHING = "*";
// Which of the kinds of calls in the history fills in the same form.
const HISTORY = { tools: "tool", prompts: "prompt" };
const COMPLETED = { prompts: "prompt", templates: "template" };

/** Ask Python what is wrong with a text: errors with their places, or the fault of its syntax. */
async function validate(target, kind, name, text) {
  const said = await call("forms.validate", { target, kind, name, text: text.trim() || "{}" });
  return { errors: said.errors, syntax: said.syntax ?? null, problem: null };
}

function listOf({ errors, syntax }) {
  if (!syntax) return errors;
  const message = `line ${syntax.line}, column ${syntax.column}: ${syntax.message}`;
  return [{ pointer: "", message }];
}

/**
 * The errors of a text as it is now. Before a text is sent: those that the editor reported may be
 * older than the last key.
 */
export async function findErrors(target, kind, name, text) {
  return listOf(await validate(target, kind, name, text));
}

/** The errors of a text, found by Python shortly after the last change. */
function useErrors(target, kind, name, text, onErrors) {
  const [found, setFound] = useState({ errors: [], syntax: null, problem: null });
  const report = useRef(onErrors);
  report.current = onErrors;
  useEffect(() => {
    let isCurrent = true;
    const timer = setTimeout(async () => {
      let next = { errors: [], syntax: null, problem: null };
      try {
        next = await validate(target, kind, name, text);
      } catch (problem) {
        next.problem = problem;
      }
      if (!isCurrent) return;
      setFound(next);
      report.current?.(listOf(next));
    }, WAIT);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [target, kind, name, text]);
  return found;
}

/** Errors with their places; each leads to its field, or to the nearest that is drawn. */
function ErrorList({ errors, nameOf, onGo }) {
  if (errors.length === 0) return null;
  return html`<div class="form-errors" role="group" aria-label="Errors">
    <ul>
      ${errors.slice(0, MOST_LISTED).map(
        ({ pointer, message }, index) => html`<li key=${index}>
          <button type="button" class="form-link" onClick=${() => onGo(pointer)}>
            <${Text}>${nameOf(pointer)}<//>
          </button>
          ${" "}<span class="error"><${Text}>${message}<//></span>
        </li>`,
      )}
    </ul>
    ${errors.length > MOST_LISTED && html`<p class="hint">${errors.length - MOST_LISTED} more</p>`}
  </div>`;
}

/** The place of an error in words. */
function wordsOf(pointer) {
  const parts = pointer.split("/").slice(1);
  return parts.map((each) => each.replaceAll("~1", "/").replaceAll("~0", "~")).join(" › ");
}

/**
 * Which errors are shown. A person is told about a place once the focus has left it, and about all
 * places once it was tried to send the whole; both are forgotten when the form is filled in anew.
 */
function useShown(errors, tries) {
  const [left, setLeft] = useState(new Set());
  const [forgotten, setForgotten] = useState(0);
  const isAll = tries > forgotten || left.has(EVERYTHING);
  const isLeft = (pointer) => {
    if (isAll || left.has(idOf(pointer))) return true;
    const around = pointer.slice(0, pointer.lastIndexOf("/"));
    return around !== "" && isLeft(around);
  };
  const onLeave = (event) => {
    const found = [];
    for (let each = event.target.closest("[data-place]"); each; ) {
      if (each.contains(event.relatedTarget)) break;
      found.push(each.dataset.place);
      each = each.parentElement.closest("[data-place]");
    }
    if (found.some((each) => !left.has(each))) setLeft(new Set([...left, ...found]));
  };
  const forget = () => {
    setLeft(new Set());
    setForgotten(tries);
  };
  return { shown: errors.filter(({ pointer }) => isLeft(pointer)), isAll, onLeave, forget };
}

/** The errors among some that no field shows, such as those inside a field that is JSON. */
function useUnplaced(errors, prefix) {
  const [unplaced, setUnplaced] = useState([]);
  useLayoutEffect(() => {
    const found = errors.filter(({ pointer }) => !document.getElementById(prefix + idOf(pointer)));
    if (JSON.stringify(found) !== JSON.stringify(unplaced)) setUnplaced(found);
  });
  return unplaced;
}

function Raw({ text, onText, syntax, id }) {
  const error = syntax && `Line ${syntax.line}, column ${syntax.column}: ${syntax.message}`;
  return html`<${Field} label="JSON" error=${error && html`<${Text}>${error}<//>`}>
    ${(bound) =>
      html`<textarea
        ...${bound}
        data-raw=${id}
        data-place=${EVERYTHING}
        class="form-raw"
        rows=${Math.min(30, Math.max(6, text.split("\n").length + 1))}
        spellcheck=${false}
        value=${text}
        onInput=${(event) => onText(event.currentTarget.value)}
      ></textarea>`}
  <//>`;
}

function canFormat(text) {
  try {
    return printJson(parseJson(text), 2) !== text;
  } catch {
    return false;
  }
}

/** Buttons that fill in the whole: an example, what was used last, nothing. */
function Fill({ target, kind, name, model, text, errors, onFill }) {
  const [before, setBefore] = useState(null);
  // Where no example could be made.
  const [faults, setFaults] = useState([]);
  const put = (next, said) => {
    setFaults([]);
    setBefore(text);
    onFill(next);
    announce(said);
  };
  const [example, isMaking, exampleError] = useWork(async () => {
    const made = await call("forms.example", { target, kind, name });
    put(made.text, "Filled in an example.");
    setFaults(made.errors);
  });
  const [last, isAsking, lastError] = useWork(async () => {
    const found = await call("history.last", { target, kind: HISTORY[kind], name });
    if (found.arguments == null) announce("This was not called before.");
    else put(found.arguments, "Filled in what was used last.");
    return found.arguments;
  });
  const [isUnused, setUnused] = useState(false);
  const left = faults.filter((each) => errors.some(({ pointer }) => pointer === each.pointer));
  return html`<div class="form-state">
      <${Button} class="plain small" busy=${isMaking} onClick=${example}>Example<//>
      ${HISTORY[kind] &&
      html`<${Button} class="plain small" busy=${isAsking} onClick=${async () => setUnused((await last()) === null)}>Last used<//>`}
      <${Button} class="plain small" onClick=${() => put(initialText(model) || "{}", "Cleared.")}>Clear<//>
      ${canFormat(text) &&
      html`<${Button} class="plain small" onClick=${() => put(printJson(parseJson(text), 2), "Formatted.")}>Format<//>`}
      ${before !== null &&
      html`<${Button} class="plain small" onClick=${() => {
        // Pressed again, it brings back what it took away.
        put(before, "Undone.");
      }}>Undo<//>`}
      ${isUnused && html`<span class="quiet">not called before</span>`}
    </div>
    ${left.length > 0 &&
    html`<div class="note is-warn">
      <p>No example could be made for:</p>
      <ul>
        ${left.map(
          ({ pointer, message }) => html`<li><b><${Text}>${wordsOf(pointer) || "the whole"}<//></b> <${Text}>${message}<//></li>`,
        )}
      </ul>
    </div>`}
    <${ErrorNote} error=${exampleError ?? lastError} />`;
}

/** Whether the model has changed since the form was opened; what was filled in stays. */
function useChanged(model) {
  const first = useRef(null);
  const text = JSON.stringify(model);
  first.current ??= text;
  return first.current !== text;
}

/**
 * Arguments, as a form and as JSON.
 * @param {object} props
 * @param {number} props.target
 * @param {"tools" | "prompts" | "templates" | "question" | "text"} props.kind
 * @param {string} props.name of the entry, or the id of the question
 * @param {any} props.model of the form
 * @param {string} props.text
 * @param {(text: string) => void} props.onText
 * @param {number} [props.tries] how often it was tried to send this
 * @param {(errors: {pointer: string, message: string}[]) => void} [props.onErrors]
 * @param {string[]} [props.completes] the arguments that the server completes
 */
export function ArgumentEditor({ target, kind, name, model, text, onText, tries = 0, onErrors, completes = [] }) {
  const prefix = "form" + useId();
  const [view, setView] = useState("form");
  const { errors, syntax, problem } = useErrors(target, kind, name, text, onErrors);
  const { shown: told, isAll, onLeave, forget } = useShown(errors, tries);
  const unplaced = useUnplaced(told, prefix);
  const hasChanged = useChanged(model);
  const wanted = useRef(null);
  // A form that was not filled in yet starts with what its required fields start with;
  // at once, so that nothing is typed before.
  useLayoutEffect(() => {
    if (text.trim() !== "" && text.trim() !== "{}") return;
    const start = initialText(model);
    if (start && start !== "{}" && start !== text) onText(start);
  }, []);
  useEffect(() => {
    if (wanted.current === null) return;
    focusPlace(prefix, wanted.current);
    wanted.current = null;
  });
  const goTo = (pointer) => {
    if (view === "json") {
      wanted.current = pointer;
      setView("form");
    } else focusPlace(prefix, pointer);
  };
  const complete = async (argument, value) => {
    const context = {};
    try {
      for (const [each, node] of parseJson(text).members ?? []) {
        if (node.kind === "string" && each !== argument) context[each] = node.value;
      }
    } catch {
      // Completion needs no context.
    }
    return call("calls.complete", { target, kind: COMPLETED[kind], name, argument, value, context });
  };
  const form = () =>
    html`<${Form} key="form" model=${model} text=${text} onText=${onText} errors=${told} idPrefix=${prefix} completes=${completes} onComplete=${COMPLETED[kind] ? complete : undefined} />`;
  const raw = () => html`<${Raw} key="raw" id=${shown(name)} text=${text} onText=${onText} syntax=${isAll && syntax} />`;
  const tabs = [
    { id: "form", title: "Form", body: form },
    { id: "json", title: "JSON", body: raw },
    { id: "both", title: "Both", body: () => html`<div class="form-both">${form()}${raw()}</div>` },
  ];
  const fill = (next) => {
    forget();
    onText(next);
  };
  const isForm = view !== "json";
  return html`<div class="form-editor" onFocusOut=${onLeave}>
    ${hasChanged && html`<p class="note is-info">The schema has changed; what is filled in was kept.</p>`}
    <${Fill} target=${target} kind=${kind} name=${name} model=${model} text=${text} errors=${errors} onFill=${fill} />
    <${Tabs} label="View of the arguments" tabs=${tabs} chosen=${view} onChoose=${setView} />
    <${ErrorNote} error=${problem} />
    <${ErrorList} errors=${isForm ? unplaced : told} nameOf=${isForm ? wordsOf : (pointer) => pointer || "/"} onGo=${goTo} />
  </div>`;
}
