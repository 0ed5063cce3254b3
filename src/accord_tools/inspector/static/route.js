// The place of the page, kept in the address: #/t/0/tools/add.
import { useEffect, useState } from "./preact.js";

// Which entry of a pane was looked at last, by server and pane.
const visited = new Map();

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The place that the address names: { target, pane, name }; an empty pane is the first one. */
export function place() {
  const found = /^#\/t\/(\d{1,4})(?:\/([a-z]+))?(?:\/(.*))?$/.exec(location.hash);
  if (!found) return { target: 0, pane: "", name: "" };
  const [target, pane, name] = [Number(found[1]), found[2] ?? "", decode(found[3] ?? "")];
  visited.set(`${target} ${pane}`, name);
  return { target, pane, name };
}

/** The entry that was in use in a pane; empty if none was, or if the list was asked for since. */
export function lastName(target, pane) {
  return visited.get(`${target} ${pane}`) ?? "";
}

/** The address of a place, for links; without a pane that of the first one. */
export function addressOf(target, pane, name = "") {
  const inPane = name ? "/" + encodeURIComponent(name) : "";
  return `#/t/${target}${pane ? "/" + pane : ""}${inPane}`;
}

/** Go to a place; `replace` leaves no step to go back to. */
export function go(target, pane, name = "", { replace = false } = {}) {
  const address = addressOf(target, pane, name);
  if (address === location.hash) return;
  if (replace) {
    history.replaceState(null, "", address);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = address;
  }
}

/** The place of the page; components draw again when it changes. */
export function useRoute() {
  const [route, setRoute] = useState(place);
  useEffect(() => {
    const follow = () => setRoute(place());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return route;
}
