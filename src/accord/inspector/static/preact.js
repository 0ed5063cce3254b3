// The one place that imports the library: components take what they need from here.
import { h, render, Fragment } from "preact";
import htm from "./vendor/htm.js";

export { render, Fragment };
export {
  useCallback,
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "./vendor/hooks.js";

/** Build elements from a template: html`<p class=${name}>${text}</p>`. Texts are always texts. */
export const html = htm.bind(h);
