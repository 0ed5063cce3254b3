// Which part of the time axis the timeline shows, and where things are on it.

const TICKS = 4;
const ZOOM = 2;
const STEP = 0.25;
// The smallest part that is shown: a millisecond.
const LEAST = 0.001;
const WORDS = {
  progress: "progress",
  notification: "notification",
  cancelled: "cancellation",
  question: "question",
  stderr: "line of standard error",
};

/** All of the axis, however far it goes on. */
export const WHOLE = null;

/** The moves that keys stand for. */
export const MOVES = {
  "+": "in",
  "=": "in",
  "-": "out",
  ArrowLeft: "earlier",
  ArrowRight: "later",
  0: "whole",
};

/** The part that is shown: { from, to }; all unless a person chose a part. */
export function follow(data, span) {
  if (span !== WHOLE) return span;
  const least = data.has_times ? LEAST : 1;
  return { from: data.t0, to: Math.max(data.t1, data.t0 + least) };
}

function within(data, from, length) {
  const whole = follow(data, WHOLE);
  if (length >= whole.to - whole.from) return WHOLE;
  const first = Math.min(Math.max(whole.from, from), whole.to - length);
  return { from: first, to: first + length };
}

/** The part after a move; zooming in keeps the chosen lane in view. */
export function moveView(data, view, how, lane) {
  const length = view.to - view.from;
  const middle = lane ? lane.start : view.from + length / 2;
  const least = data.has_times ? LEAST : 1;
  if (how === "in") {
    const next = Math.max(least, length / ZOOM);
    return within(data, lane ? middle - next / 10 : middle - next / 2, next);
  }
  if (how === "out") return within(data, middle - (length * ZOOM) / 2, length * ZOOM);
  if (how === "earlier") return within(data, view.from - length * STEP, length);
  if (how === "later") return within(data, view.from + length * STEP, length);
  return WHOLE;
}

/** Where a time is in the part that is shown, in percent. */
export function shareOf(view, value) {
  return ((value - view.from) / (view.to - view.from)) * 100;
}

/** Round times for the axis: [{ at, label }]. */
export function ticksOf(view, unit) {
  const rough = (view.to - view.from) / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  const found = [];
  for (let at = Math.ceil(view.from / step); at * step <= view.to; at += 1) {
    found.push({ at: shareOf(view, at * step), label: `${(at * step).toFixed(digits)}${unit}` });
  }
  return found;
}

/** What happened while a request was open, such as "2 progress, 1 question". */
export function marksInWords(marks) {
  const counts = new Map();
  for (const { kind } of marks) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts].map(([kind, count]) => `${count} ${WORDS[kind] ?? kind}`).join(", ");
}
