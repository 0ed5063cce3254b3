// Says aloud that a question of the server has come, wherever the person is; the focus stays.
import { useEffect, useRef } from "../preact.js";
import { useAction } from "../store.js";
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
