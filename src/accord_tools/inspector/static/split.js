// Two parts side by side or one below the other, with a border that moves by pointer and keys.
import { html, useRef, useState } from "./preact.js";
import { remember, remembered } from "./theme.js";

const STEP = 2;
const LEAST = 15;
const MOST = 85;

function clamp(share) {
  return Math.min(MOST, Math.max(LEAST, share));
}

/**
 * Two children; the share of the first in percent is kept under `name`. `isAlone` gives the whole
 * place to the first.
 * @param {{name: string, label: string, isStacked?: boolean, initial?: number, isAlone?: boolean,
 *   children?: any}} props
 */
export function Split({ name, label, isStacked = false, initial = 55, isAlone = false, children }) {
  const key = `accord-split-${name}`;
  const box = useRef(null);
  const [shares, setShares] = useState({});
  const share = shares[name] ?? clamp(Number(remembered(key, initial)) || initial);
  const setShare = (value) => {
    const next = clamp(value);
    remember(key, String(next));
    setShares((before) => ({ ...before, [name]: next }));
  };
  const follow = (event) => {
    const area = box.current.getBoundingClientRect();
    const part = isStacked
      ? (event.clientY - area.top) / area.height
      : (event.clientX - area.left) / area.width;
    setShare(Math.round(part * 100));
  };
  const onPointerDown = (event) => {
    event.preventDefault();
    event.currentTarget.setPointerCapture(event.pointerId);
  };
  const onPointerMove = (event) => {
    if (event.currentTarget.hasPointerCapture(event.pointerId)) follow(event);
  };
  const onKeyDown = (event) => {
    const less = isStacked ? "ArrowUp" : "ArrowLeft";
    const more = isStacked ? "ArrowDown" : "ArrowRight";
    const next = {
      [less]: share - STEP,
      [more]: share + STEP,
      Home: LEAST,
      End: MOST,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    setShare(next);
  };
  const [first, second] = children;
  return html`<div
    ref=${box}
    class=${"split" + (isStacked ? " is-stacked" : "") + (isAlone ? " is-alone" : "")}
    style=${{ "--share": `${share}%` }}
  >
    <div class="split-first">${first}</div>
    <div
      role="separator"
      tabindex="0"
      class="split-border"
      hidden=${isAlone}
      aria-label=${label}
      aria-orientation=${isStacked ? "horizontal" : "vertical"}
      aria-valuenow=${share}
      aria-valuemin=${LEAST}
      aria-valuemax=${MOST}
      onPointerDown=${onPointerDown}
      onPointerMove=${onPointerMove}
      onKeyDown=${onKeyDown}
    ></div>
    <div class="split-second" hidden=${isAlone}>${second}</div>
  </div>`;
}
