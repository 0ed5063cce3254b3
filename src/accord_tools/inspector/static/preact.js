// The one place that imports the library: components take what they need from here.
import { cloneElement, h, isValidElement, render, toChildArray, Fragment } from "preact";
import htm from "./vendor/htm.js";

export { cloneElement, isValidElement, render, toChildArray, Fragment };
export {
  useCallback,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "./vendor/hooks.js";

/** Build elements from a template: html`<p class=${name}>${text}</p>`. Texts are always texts. */
export const html = htm.bind(h);
