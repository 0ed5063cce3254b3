// The arguments of a tool or a prompt, or the variables of a template, as TEXT.
import { html } from "../preact.js";
import { Field } from "../ui.js";

export function Arguments({ text, onText }) {
  return html`<${Field} label="Arguments (JSON)">
    <textarea spellcheck=${false} value=${text} onInput=${(event) => onText(event.currentTarget.value)}></textarea>
  <//>`;
}
