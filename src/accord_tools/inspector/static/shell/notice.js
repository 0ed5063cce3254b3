// What a person has to know in every pane: the connection is gone, or the server was restarted.
import { html } from "../preact.js";
import { useAction } from "../store.js";
import { addressOf } from "../route.js";
import { clip } from "../text.js";
import { Sign, Text } from "../ui.js";

const LONGEST = 300;

/** A line above a pane; the overview says the same at length. */
export function SessionNotice({ target }) {
  const { data } = useAction("session.get", target, "session");
  if (!data) return null;
  const isGone = data.state === "failed" || data.state === "closed";
  const said = isGone ? data.error?.message : data.note;
  if (!isGone && !said) return null;
  return html`<p class=${isGone ? "note is-fail" : "note is-info"}>
    ${isGone && html`<${Sign} severity="fail" word="not connected" /> `}
    <${Text}>${clip(said ?? "", LONGEST)}<//>
    ${isGone && html` <a href=${addressOf(target, "overview")}>What to do</a>`}
  </p>`;
}

/** A line above every pane while the connection waits for a person who has to sign in. */
export function SignInNotice({ target }) {
  const { data } = useAction("questions.list", target, "questions");
  if (!(data?.questions ?? []).some((each) => each.kind === "sign-in")) return null;
  return html`<p class="note is-warn">
    The server asks you to sign in; the connection waits for it.${" "}
    <a href=${addressOf(target, "questions")}>Sign in</a>
  </p>`;
}
