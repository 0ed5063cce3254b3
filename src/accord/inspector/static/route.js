// The place of the page, kept in the address: #/t/0/tools/add.
import { useEffect, useState } from "./preact.js";

export const FIRST_PANE = "overview";

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The place that the address names: { target, pane, name }. */
export function place() {
  const found = /^#\/t\/(\d{1,4})(?:\/([a-z]+))?(?:\/(.*))?$/.exec(location.hash);
  if (!found) return { target: 0, pane: FIRST_PANE, name: "" };
  return {
    target: Number(found[1]),
    pane: found[2] ?? FIRST_PANE,
    name: decode(found[3] ?? ""),
  };
}

/** The address of a place, for links. */
export function addressOf(target, pane, name = "") {
  return `#/t/${target}/${pane}${name ? "/" + encodeURIComponent(name) : ""}`;
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
