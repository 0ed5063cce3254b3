// Says aloud that a question of the server has come, wherever the person is; the focus stays.
import { html, useEffect, useRef } from "../preact.js";
import { useAction } from "../store.js";
import { addressOf } from "../route.js";
import { announce } from "../ui.js";

export const TITLES = {
  sampling: "The server asks for a message of a model",
  elicitation: "The server asks you for information",
  url: "The server asks you to open an address",
  "sign-in": "The server asks you to sign in",
};

/** Draws nothing; the shell has one of it. */
export function QuestionNotice({ target }) {
  const { data } = useAction("questions.list", target, "questions");
  const questions = data?.questions ?? null;
  const seen = useRef(new Set());
  useEffect(() => {
    const fresh = (questions ?? []).filter((each) => !seen.current.has(each.id));
    for (const each of fresh) seen.current.add(each.id);
    if (fresh.length === 1) announce(`${TITLES[fresh[0].kind] ?? "The server has a question"}.`);
    if (fresh.length > 1) announce(`The server has ${fresh.length} new questions.`);
  }, [questions]);
  return null;
}

/** A way to the questions that a running call waits for; nothing if it waits for none. */
export function WaitingQuestion({ target, call }) {
  const { data } = useAction("questions.list", target, "questions");
  if (!(data?.questions ?? []).some((each) => each.call === call)) return null;
  return html`<p class="note is-warn">
    The server asks you something before it goes on.${" "}
    <a href=${addressOf(target, "questions")}>Answer it</a>
  </p>`;
}
