// A sampling request as a person reads it, and the ways to answer it.
import { html, useState } from "../preact.js";
import { Button, Facts, Field, Fold, Tabs, Text } from "../ui.js";
import { JsonView } from "../json_view.js";
import { ContentBlock } from "../result.js";
import { parseJson, printJson } from "../json_text.js";
import { useDraft } from "./drafts.js";
import { KeepAnswer } from "./standing_answers.js";
import { itemsOf, nodeAt, scalarAt } from "./pane_parts.js";

const STOP_REASONS = ["endTurn", "stopSequence", "maxTokens", "toolUse"];
const NUMBERS = [
  ["Most tokens", "maxTokens"],
  ["Temperature", "temperature"],
  ["Context", "includeContext"],
];
const PRIORITIES = [
  ["Cost", "costPriority"],
  ["Speed", "speedPriority"],
  ["Intelligence", "intelligencePriority"],
];

function parsed(text) {
  try {
    return parseJson(text);
  } catch {
    return null;
  }
}

function Message({ node }) {
  return html`<li class="message">
    <strong><${Text}>${scalarAt(node, "role")}<//></strong>
    ${itemsOf(nodeAt(node, "content")).map(
      (block, index) => html`<${ContentBlock} key=${index} node=${block} />`,
    )}
  </li>`;
}

function Tools({ nodes }) {
  if (nodes.length === 0) return null;
  return html`<${Fold} title=${`Tools that the model may use (${nodes.length})`}>
    <ul>
      ${nodes.map(
        (node, index) => html`<li key=${index}>
          <code><${Text}>${scalarAt(node, "name")}<//></code>${" "}
          <${Text}>${scalarAt(node, "description")}<//>
          <${JsonView} text=${printJson(nodeAt(node, "inputSchema") ?? node, 2)} />
        </li>`,
      )}
    </ul>
  <//>`;
}

/** What the server asks the model. */
export function SamplingRequest({ text }) {
  const root = parsed(text);
  if (root === null) return html`<pre><${Text}>${text}<//></pre>`;
  const wanted = nodeAt(root, "modelPreferences");
  const hints = itemsOf(nodeAt(wanted, "hints")).map((each) => scalarAt(each, "name"));
  const stops = itemsOf(nodeAt(root, "stopSequences")).map((each) => JSON.stringify(scalarAt(each)));
  return html`
    <${Facts}
      facts=${[
        ["System prompt", scalarAt(root, "systemPrompt")],
        ["Models", hints.filter(Boolean).join(", ")],
        ...PRIORITIES.map(([name, key]) => [`${name} (0 to 1)`, scalarAt(wanted, key)]),
        ...NUMBERS.map(([name, key]) => [name, scalarAt(root, key)]),
        ["Stop sequences", stops.join(", ")],
        ["Tool choice", scalarAt(root, "toolChoice", "mode")],
      ].map(([name, value]) => [name, value && html`<${Text} lines>${value}<//>`])}
    />
    <h3>Messages</h3>
    <ol class="messages">
      ${itemsOf(nodeAt(root, "messages")).map(
        (node, index) => html`<${Message} key=${index} node=${node} />`,
      )}
    </ol>
    <${Tools} nodes=${itemsOf(nodeAt(root, "tools"))} />
    <${Fold} title="The whole request"><${JsonView} text=${text} /><//>
  `;
}

function TextAnswer({ draft, change }) {
  const bind = (key) => ({
    value: draft[key],
    onInput: (event) => change({ [key]: event.target.value }),
  });
  return html`<div>
    <${Field} label="Text of the model">
      <textarea rows="4" ...${bind("text")}></textarea>
    <//>
    <div class="bar">
      <${Field} label="Name of the model"><input type="text" ...${bind("model")} /><//>
      <${Field} label="Stop reason">
        <input type="text" list="stop-reasons" ...${bind("stop_reason")} />
      <//>
    </div>
    <datalist id="stop-reasons">
      ${STOP_REASONS.map((each) => html`<option key=${each} value=${each}></option>`)}
    </datalist>
  </div>`;
}

function wholeResult(draft) {
  const result = {
    role: "assistant",
    content: { type: "text", text: draft.text },
    model: draft.model,
    stopReason: draft.stop_reason,
  };
  return JSON.stringify(result, null, 2);
}

/** Fields for the answer to a sampling request. */
export function SamplingAnswer({ target, question, work }) {
  const [draft, setDraft] = useDraft(target, "question", question.id, "answer", {
    text: "",
    model: question.model_hint || "a-person",
    stop_reason: "endTurn",
    result: null,
  });
  const [way, setWay] = useState("text");
  const [error, setError] = useState(null);
  const change = (more) => setDraft({ ...draft, ...more });
  const result = draft.result ?? wholeResult(draft);
  const send = () => {
    setError(null);
    if (way === "text") {
      const { text, model, stop_reason } = draft;
      work.answer("accept", { text, model, stop_reason });
      return;
    }
    try {
      parseJson(result);
      work.answer("accept", { result });
    } catch (problem) {
      setError(`line ${problem.line}, column ${problem.column}: ${problem.message}`);
    }
  };
  const tabs = [
    { id: "text", title: "Text", body: html`<${TextAnswer} draft=${draft} change=${change} />` },
    {
      id: "result",
      title: "Whole result",
      body: html`<${Field} label="Result as JSON" error=${error}>
        <textarea
          class="mono"
          rows="10"
          spellcheck="false"
          value=${result}
          onInput=${(event) => change({ result: event.target.value })}
        ></textarea>
      <//>`,
    },
  ];
  return html`
    <h3>Your answer</h3>
    <${Tabs} label="How to answer" tabs=${tabs} chosen=${way} onChoose=${setWay} />
    <${KeepAnswer} isKept=${work.isKept} onKeep=${work.setKept} />
    <div class="actions">
      <${Button} kind="primary" title="Ctrl+Enter" data-accept="" busy=${work.busy === "accept"} onClick=${send}>
        Send the answer
      <//>
      <${Button} onClick=${() => work.answer("decline")}>Decline<//>
    </div>
  `;
}
