// A text field that offers completions: the combobox of the authoring practices.
import { html, useEffect, useId, useRef, useState } from "./preact.js";
import { shown } from "./text.js";
import { announce, formatCount } from "./ui.js";

const DELAY = 200;
const SHOWN = 100;

/**
 * Ask for completions while a person types.
 * The last question counts; an answer that comes late is dropped.
 */
function useCompletions(complete) {
  const [found, setFound] = useState(null);
  const asked = useRef(0);
  const timer = useRef(null);
  useEffect(() => () => clearTimeout(timer.current), []);
  const ask = (value, delay = DELAY) => {
    clearTimeout(timer.current);
    const number = (asked.current += 1);
    timer.current = setTimeout(async () => {
      let answer;
      try {
        answer = await complete(value);
      } catch {
        // A server that cannot complete does not keep anyone from typing.
        answer = { values: [] };
      }
      if (asked.current !== number) return;
      setFound(answer);
      if (answer.values.length > 0) announce(`${answer.values.length} completions`);
    }, delay);
  };
  const forget = () => {
    asked.current += 1;
    clearTimeout(timer.current);
    setFound(null);
  };
  return { found, ask, forget };
}

/**
 * A text field with completions.
 * @param {{value: string, onValue: (value: string) => void,
 *   complete: (value: string) => Promise<{values: string[], total?: number, has_more?: boolean}>,
 *   [attribute: string]: any}} props other attributes go to the input
 */
export function Combobox({ value, onValue, complete, ...bound }) {
  const id = useId();
  const [at, setAt] = useState(-1);
  const { found, ask, forget } = useCompletions(complete);
  const values = found?.values.slice(0, SHOWN) ?? [];
  const isOpen = values.length > 0;
  const choose = (text) => {
    onValue(text);
    forget();
    setAt(-1);
  };
  const onKeyDown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!isOpen) ask(value, 0);
      else setAt((at + (event.key === "ArrowDown" ? 1 : values.length - (at < 0 ? 0 : 1))) % values.length);
    } else if (event.key === "Enter" && isOpen && at >= 0) {
      event.preventDefault();
      choose(values[at]);
    } else if (event.key === "Escape" && isOpen) {
      event.preventDefault();
      event.stopPropagation();
      forget();
      setAt(-1);
    }
  };
  const left = (found?.total ?? 0) - values.length;
  return html`<div class="combobox">
    <input
      type="text"
      role="combobox"
      autocomplete="off"
      spellcheck=${false}
      aria-autocomplete="list"
      aria-expanded=${isOpen ? "true" : "false"}
      aria-controls=${isOpen ? `${id}-list` : undefined}
      aria-activedescendant=${isOpen && at >= 0 ? `${id}-${at}` : undefined}
      value=${value}
      ...${bound}
      onInput=${(event) => {
        onValue(event.currentTarget.value);
        setAt(-1);
        ask(event.currentTarget.value);
      }}
      onKeyDown=${onKeyDown}
      onBlur=${forget}
    />
    ${isOpen &&
    html`<ul role="listbox" id=${`${id}-list`} aria-label="Completions">
      ${values.map(
        (text, index) => html`<li
          key=${index}
          id=${`${id}-${index}`}
          role="option"
          aria-selected=${index === at ? "true" : "false"}
          onPointerDown=${(event) => {
            event.preventDefault();
            choose(text);
          }}
        >
          ${shown(text)}
        </li>`,
      )}
      ${(left > 0 || found.has_more) &&
      html`<li class="quiet" role="presentation">
        ${left > 0 ? `${formatCount(left)} more` : "more"}: type to narrow
      </li>`}
    </ul>`}
  </div>`;
}
