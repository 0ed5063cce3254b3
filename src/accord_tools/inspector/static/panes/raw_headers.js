// The headers of a raw HTTP message: added or replaced by a value, or taken away.
import { html } from "../preact.js";
import { Button } from "../ui.js";

function HeaderRow({ index, header, onChange, onRemove }) {
  const [name, value] = header;
  const isTakenAway = value === null;
  return html`<tr>
    <td>
      <input
        type="text"
        class="wide mono"
        id=${`raw-header-${index}`}
        spellcheck="false"
        aria-label=${`Name of header ${index + 1}`}
        value=${name}
        onInput=${(event) => onChange([event.target.value, value])}
      />
    </td>
    <td>
      <input
        type="text"
        class="wide mono"
        spellcheck="false"
        aria-label=${`Value of header ${index + 1}`}
        disabled=${isTakenAway}
        value=${value ?? ""}
        onInput=${(event) => onChange([name, event.target.value])}
      />
    </td>
    <td>
      <input
        type="checkbox"
        aria-label=${`Leave out header ${index + 1}`}
        checked=${isTakenAway}
        onChange=${(event) => onChange([name, event.target.checked ? null : ""])}
      />
    </td>
    <td><${Button} title=${`Remove row ${index + 1}`} onClick=${onRemove}>Remove<//></td>
  </tr>`;
}

/** A table of [name, value or null]; null leaves the header out of the request. */
export function RawHeaders({ headers, onChange }) {
  const replace = (at, next) => onChange(headers.map((each, index) => (index === at ? next : each)));
  const remove = (at) => {
    onChange(headers.filter((_, index) => index !== at));
    document.getElementById("raw-header-add")?.focus();
  };
  const add = () => {
    onChange([...headers, ["", ""]]);
    setTimeout(() => document.getElementById(`raw-header-${headers.length}`)?.focus(), 0);
  };
  return html`<fieldset>
    <legend>Headers that differ from the usual ones</legend>
    ${headers.length > 0 &&
    html`<div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Value</th>
            <th scope="col">Leave out</th>
            <th scope="col">Change</th>
          </tr>
        </thead>
        <tbody>
          ${headers.map(
            (header, index) => html`<${HeaderRow}
              key=${index}
              index=${index}
              header=${header}
              onChange=${(next) => replace(index, next)}
              onRemove=${() => remove(index)}
            />`,
          )}
        </tbody>
      </table>
    </div>`}
    <${Button} id="raw-header-add" onClick=${add}>Add a header<//>
  </fieldset>`;
}
