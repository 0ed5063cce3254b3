// The capabilities of both sides as readable lists.
import { html } from "../preact.js";
import { JsonView, useJson } from "../json_view.js";
import { printJson } from "../json_text.js";
import { Fold, Panel, Text } from "../ui.js";

function describe(node) {
  if (node.kind === "true") return "";
  if (node.kind === "object") {
    return node.members
      .filter(([, value]) => value.kind !== "false")
      .map(([name, value]) => {
        const inner = describe(value);
        return inner ? `${name} (${inner})` : name;
      })
      .join(", ");
  }
  return printJson(node, 0);
}

function Side({ title, text }) {
  const { node } = useJson(text);
  const members = node?.kind === "object" ? node.members : [];
  return html`<div>
    <h3>${title}</h3>
    ${members.length === 0
      ? html`<p class="quiet">nothing declared</p>`
      : html`<ul>
          ${members.map(([name, value]) => {
            const inner = describe(value);
            return html`<li key=${name}>
              <b><${Text}>${name}<//></b>${inner && html`: <${Text}>${inner}<//>`}
            </li>`;
          })}
        </ul>`}
    ${text && html`<${Fold} title="As JSON"><${JsonView} text=${text} /><//>`}
  </div>`;
}

export function Capabilities({ session }) {
  if (!session.server_capabilities && !session.client_capabilities) return null;
  return html`<${Panel} title="Capabilities">
    <div class="columns">
      <${Side} title="Server" text=${session.server_capabilities} />
      <${Side} title=${session.kind === "live" ? "Client (this page)" : "Client"} text=${session.client_capabilities} />
    </div>
  <//>`;
}
