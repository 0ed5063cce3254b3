// A way to put the focus into the first field of an entry, once its form is drawn.
import { useEffect } from "./preact.js";

const EVENT = "accord-field";
const FIELDS = ".form :is(input:not([type=file]), select, textarea), .form-raw";
let wanted = null;

function placeOf(target, pane, name) {
  return JSON.stringify([target, pane, name]);
}

/** Focus the first field of an entry, now or when it is drawn; its run button if it has none. */
export function focusFirstField(target, pane, name) {
  wanted = placeOf(target, pane, name);
  dispatchEvent(new CustomEvent(EVENT));
}

/** Take such a wish, in the component that draws the entry; `box` is a reference to its element. */
export function useFirstField(target, pane, name, box) {
  const place = placeOf(target, pane, name);
  useEffect(() => {
    const take = () => {
      if (wanted !== place || !box.current) return;
      wanted = null;
      const found = box.current.querySelector(FIELDS) ?? box.current.querySelector("[data-run]");
      found?.focus();
    };
    take();
    addEventListener(EVENT, take);
    return () => removeEventListener(EVENT, take);
  }, [place]);
}
