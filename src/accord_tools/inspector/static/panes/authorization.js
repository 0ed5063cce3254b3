// Authorization step by step: an ordered list of steps, each with its requests, values and clauses.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../preact.js";
import { call } from "../api.js";
import { useAction } from "../store.js";
import {
  Button,
  Copy,
  Empty,
  ErrorNote,
  Field,
  Fold,
  LongText,
  Panel,
  SafeLink,
  Sign,
  Text,
  announce,
  plural,
} from "../ui.js";
import { JsonView } from "../json_view.js";
import { Clause, focusPane, useNamedWork } from "./pane_parts.js";

const SIGNS = {
  todo: ["untried", "to do"],
  running: ["running", "running"],
  done: ["pass", "done"],
  warning: ["warn", "done, with a warning"],
  failed: ["fail", "failed"],
  skipped: ["untried", "skipped"],
};
const VERDICTS = { kept: ["pass", "kept"], broken: ["fail", "broken"] };

function Values({ rows }) {
  return html`<dl class="explained">
    ${rows.map(
      ([name, value, meaning], index) => html`<div key=${index}>
        <dt><${Text}>${name}<//></dt>
        <dd class="mono"><${Text}>${value}<//></dd>
        <dd class="quiet"><${Text}>${meaning}<//></dd>
      </div>`,
    )}
  </dl>`;
}

function Exchanges({ exchanges }) {
  return exchanges.map(
    (each, index) => html`<div class="block" key=${index}>
      <h3>Request${exchanges.length > 1 ? ` ${index + 1}` : ""}</h3>
      <${LongText} label=${`Request ${index + 1}`}>${each.request}<//>
      ${each.response &&
      html`<h3>Answer</h3>
        <${LongText} label=${`Answer ${index + 1}`}>${each.response}<//>`}
    </div>`,
  );
}

function Clauses({ clauses }) {
  return html`<h3>What the specification says</h3>
  <ul class="plain-list rows">
    ${clauses.map((each) => {
      const [severity, word] = VERDICTS[each.verdict] ?? [];
      const isWarning = severity === "fail" && !each.level.startsWith("MUST");
      return html`<li key=${each.requirement}>
        ${severity && html`<${Sign} severity=${isWarning ? "warn" : severity} word=${word} />`}
        <${Clause}
          item=${{ ...each, clause: each.text, mend: each.verdict === "broken" ? each.mend : "" }}
        />
      </li>`;
    })}
  </ul>`;
}

/** A step: its sign and what came at once, the rest on demand; a failed step is open. */
function Step({ step, isNext, isBusy, canRedo, onRedo }) {
  const [severity, word] = SIGNS[step.state];
  const hasMore = step.exchanges.length + step.explains.length + step.clauses.length > 0;
  const broken = step.clauses.filter((each) => each.verdict === "broken").length;
  return html`<li class="panel" aria-current=${isNext ? "step" : undefined} id=${`step-${step.id}`}>
    <div class="panel-head">
      <h2>${step.title}</h2>
      <${Sign} severity=${severity} word=${word} />
      <div class="actions push">
        ${canRedo &&
        html`<${Button} disabled=${isBusy} onClick=${onRedo} title=${`Redo from: ${step.title}`}>
          Redo from here
        <//>`}
      </div>
    </div>
    ${step.came && html`<p><${Text} lines>${step.came}<//></p>`}
    ${step.change &&
    html`<p class=${`note ${step.state === "failed" ? "is-fail" : "is-warn"}`}>
      <b>To change:</b> <${Text} lines>${step.change}<//>
    </p>`}
    ${hasMore &&
    html`<${Fold}
      key=${step.state === "failed" ? "failed" : "other"}
      title=${`Details${broken ? `, ${plural(broken, "clause")} broken` : ""}`}
      open=${step.state === "failed"}
    >
      ${step.asked && html`<p><span class="quiet">Asked:</span> <${Text}>${step.asked}<//></p>`}
      ${step.explains.length > 0 && html`<${Values} rows=${step.explains} />`}
      <${Exchanges} exchanges=${step.exchanges} />
      ${step.clauses.length > 0 && html`<${Clauses} clauses=${step.clauses} />`}
    <//>`}
  </li>`;
}

/** Whether what had the focus was removed or disabled. */
function isFocusLost() {
  const found = document.activeElement;
  return !found || found === document.body || found.matches(":disabled");
}

/** The link to sign in, and a field for the URL that the browser ended up at. */
function SignIn({ target, data }) {
  const [url, setUrl] = useState("");
  const work = useNamedWork();
  const place = useRef(null);
  useLayoutEffect(() => {
    // The button that led here can no longer be pressed.
    if (isFocusLost() || document.activeElement.closest(".bar")) {
      place.current?.querySelector("a")?.focus();
    }
  }, []);
  const send = async (event) => {
    event.preventDefault();
    const done = await work.run("paste", () => call("authorization.redirected", { target, url }));
    if (done !== undefined) {
      setUrl("");
      focusPane();
    }
  };
  return html`<${Panel} title="Sign in" kind="is-current">
    <p ref=${place}>
      <${SafeLink} href=${data.sign_in_url}>Open the sign-in page in a new tab<//>${" "}
      <${Copy} text=${data.sign_in_url} label="Copy the URL" />
    </p>
    <p class="quiet">
      The browser then comes back to <code>${data.redirect_uri}</code> on the machine that runs accord.
    </p>
    <${Fold} title="The browser is on another machine">
      <form onSubmit=${send}>
        <${Field}
          label="The URL that the browser ended up at"
          hint="Its page cannot be reached there; copy the whole address."
          error=${work.error?.field === "url" ? work.error.message : ""}
        >
          <input
            type="text"
            class="wide mono"
            autocomplete="off"
            spellcheck="false"
            value=${url}
            onInput=${(event) => setUrl(event.target.value)}
          />
        <//>
        ${work.error?.field !== "url" && html`<${ErrorNote} error=${work.error} />`}
        <${Button} type="submit" disabled=${!url.trim()} busy=${work.busy === "paste"}>Go on<//>
      </form>
    <//>
  <//>`;
}

function Scopes({ target, data }) {
  const current = data.scopes.join(" ");
  const [draft, setDraft] = useState(null);
  const work = useNamedWork();
  const save = async (scopes) => {
    const done = await work.run("scopes", () => call("authorization.scopes", { target, scopes }));
    if (done !== undefined) {
      setDraft(null);
      announce("The scopes are changed; the steps from there on are to do.");
    }
  };
  const onSubmit = (event) => {
    event.preventDefault();
    save((draft ?? current).split(/\s+/).filter(Boolean));
  };
  return html`<form onSubmit=${onSubmit}>
    <${Field}
      label="Scopes"
      hint=${`Separated by spaces. Now: ${data.scopes_from}.`}
      error=${work.error?.message ?? ""}
    >
      <input
        type="text"
        class="wide mono"
        autocomplete="off"
        spellcheck="false"
        value=${draft ?? current}
        onInput=${(event) => setDraft(event.target.value)}
      />
    <//>
    <div class="actions">
      <${Button} type="submit" disabled=${draft === null} busy=${work.busy === "scopes"}>
        Ask for these scopes
      <//>
      <${Button} onClick=${() => save([])}>Let the client choose<//>
    </div>
  </form>`;
}

function TokenFacts({ token }) {
  return html`<div>
    <p><${Text}>${token.description}<//></p>
    ${token.faults.map(
      (each) => html`<p class="note is-warn" key=${each}>
        <${Sign} severity="warn" /> <${Text}>${each}<//>
      </p>`,
    )}
    ${token.claims &&
    html`<p class="quiet">The claims as they are written; nothing is verified here.</p>
      <${JsonView} text=${token.claims} />
      ${token.header && html`<h3>Header</h3><${JsonView} text=${token.header} />`}`}
  </div>`;
}

/** Decodes a JWT that the person pastes. It is sent to accord on this machine and not kept. */
function Decoder({ target }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState(null);
  const work = useNamedWork();
  const decode = async (event) => {
    event.preventDefault();
    const said = await work.run("decode", () =>
      call("authorization.decode", { target, token: text }),
    );
    setFound(said ?? null);
    if (said) announce(said.description);
  };
  return html`<${Fold} title="Decode a token">
    <form onSubmit=${decode}>
      <${Field}
        label="Token"
        hint="Read on this machine, sent nowhere else and not kept. Nothing is verified."
        error=${work.error?.message ?? ""}
      >
        <input
          type="password"
          class="wide mono"
          autocomplete="off"
          value=${text}
          onInput=${(event) => setText(event.target.value)}
        />
      <//>
      <${Button} type="submit" disabled=${!text.trim()} busy=${work.busy === "decode"}>Decode<//>
    </form>
    ${found && html`<${TokenFacts} token=${found} />`}
  <//>`;
}

function Token({ target, data, work }) {
  const forget = async () => {
    const said = await work.run("forget", () => call("authorization.forget", { target }));
    if (said) announce(said.had_token ? "The tokens are forgotten." : "There was no token.");
  };
  return html`<${Panel}
    title="Token"
    actions=${html`
      <${ConnectButton} target=${target} data=${data} work=${work} />
      <${Button} kind="danger" busy=${work.busy === "forget"} onClick=${forget}>
        Forget tokens
      <//>
    `}
  >
    ${data.connected_token && html`<p><${Sign} severity="pass" word="The session uses a token of this pane." /></p>`}
    ${data.token ? html`<${TokenFacts} token=${data.token} />` : html`<${Empty}>No token yet.<//>`}
    <${Decoder} target=${target} />
  <//>`;
}

/** Say to screen readers what the last step brought. */
function useAnnouncements(data) {
  const before = useRef(null);
  useEffect(() => {
    if (!data?.steps) return;
    const states = Object.fromEntries(data.steps.map((each) => [each.id, each.state]));
    if (before.current) {
      const ended = data.steps.filter(
        (each) => before.current[each.id] !== each.state && !["todo", "running"].includes(each.state),
      );
      const last = ended.at(-1);
      const said = last ? `${last.title}: ${SIGNS[last.state][1]}. ${last.came}. ` : "";
      const waits = data.state === "waiting" ? "Waiting for you to sign in." : "";
      if (said || waits) announce(said + waits);
      if (last && isFocusLost()) focusPane();
    }
    before.current = states;
  }, [data]);
}

/** Uses the token for the connection of the session. */
function ConnectButton({ target, data, work, kind = "plain" }) {
  const connect = async () => {
    const done = await work.run("connect", () => call("authorization.connect", { target }));
    if (done !== undefined) announce("The session connects again, with this token.");
  };
  return html`<${Button} kind=${kind} disabled=${!data.token} busy=${work.busy === "connect"} onClick=${connect}>
    Connect with this token
  <//>`;
}

function nextLabel(data, next) {
  if (data.state === "waiting") return "Waiting for you to sign in";
  const running = data.steps.find((each) => each.state === "running");
  if (running) return `Running: ${running.title}`;
  if (!next) return "All steps are made";
  return `${next.state === "failed" ? "Try again" : "Next"}: ${next.title}`;
}

function Walk({ target, data }) {
  const work = useNamedWork();
  const isBusy = data.state === "running";
  const isWaiting = data.state === "waiting";
  const next = data.steps.find((each) => each.id === data.next);
  const run = (name, params = {}) => work.run(name, () => call(name, { target, ...params }));
  return html`<div>
    ${!data.applies && html`<p class="note is-info">${data.reason}</p>`}
    <div class="bar">
      <${Button}
        kind="primary"
        disabled=${!next || isWaiting}
        busy=${isBusy}
        onClick=${() => run("authorization.next")}
      >
        ${nextLabel(data, next)}
      <//>
      <${Button}
        disabled=${!next || isWaiting}
        busy=${isBusy}
        onClick=${() => run("authorization.run")}
      >
        Run all
      <//>
      <${Button}
        disabled=${data.steps[0].state === "todo"}
        onClick=${() => run("authorization.restart", { step: data.steps[0].id })}
      >
        Start over
      <//>
      ${!next && data.token && !data.connected_token &&
      html`<${ConnectButton} target=${target} data=${data} work=${work} kind="primary" />`}
    </div>
    <${ErrorNote} error=${work.error} />
    ${isWaiting && data.sign_in_url && html`<${SignIn} target=${target} data=${data} />`}
    <ol class="steps">
      ${data.steps.map(
        (step) => html`<${Step}
          key=${step.id}
          step=${step}
          isNext=${step.id === data.next}
          isBusy=${isBusy}
          canRedo=${!["todo", "running"].includes(step.state) || (isWaiting && step.state === "running")}
          onRedo=${() => run("authorization.restart", { step: step.id })}
        />`,
      )}
    </ol>
    <${Panel} title="Scopes"><${Scopes} target=${target} data=${data} /><//>
    <${Token} target=${target} data=${data} work=${work} />
  </div>`;
}

export function Pane({ target }) {
  const { data, error } = useAction("authorization.get", target, "authorization");
  useAnnouncements(data);
  return html`<div class="pane">
    <p class="quiet">
      What a client does to obtain a token, one step at a time. accord makes the requests; tokens,
      codes and secrets stay in accord and are masked here.
    </p>
    <${ErrorNote} error=${error} />
    ${data && data.steps.length === 0 && html`<${Empty}>${data.reason}<//>`}
    ${data && data.steps.length > 0 && html`<${Walk} target=${target} data=${data} />`}
  </div>`;
}
