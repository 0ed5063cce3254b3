// Texts of servers: characters that hide, reorder or control text are made visible.

// Emoji may join by U+200D and choose their style by U+FE0F; elsewhere both are invisible.
const JOINED =
  "(?<=[\\p{Extended_Pictographic}\\p{Emoji_Modifier}]\\ufe0f?)\\u200d(?=\\p{Extended_Pictographic})";
const STYLED = "(?<=\\p{Extended_Pictographic})\\ufe0f|(?<=[0-9#*])\\ufe0f(?=\\u20e3)";
const HIDDEN =
  "[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}" +
  "\\p{Noncharacter_Code_Point}]|(?! )\\p{Zs}";
const PLAIN = new RegExp(`(${JOINED}|${STYLED})|(${HIDDEN})`, "gu");
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escapeOne(character) {
  const code = character.codePointAt(0);
  if (SHORT[character]) return SHORT[character];
  if (code < 0x100) return "\\x" + code.toString(16).padStart(2, "0");
  if (code < 0x10000) return "\\u" + code.toString(16).padStart(4, "0");
  return "\\U" + code.toString(16).padStart(8, "0");
}

/**
 * Split a text into runs [text, isEscaped].
 * @param {string} text of a server
 * @param {{lines?: boolean}} how `lines` keeps line ends and tabs
 */
export function runs(text, { lines = false } = {}) {
  /** @type {[string, boolean][]} */
  const found = [];
  let end = 0;
  let ended = -1;
  for (const match of text.matchAll(PLAIN)) {
    const character = match[2];
    if (character === undefined || (lines && (character === "\n" || character === "\t"))) continue;
    if (match.index > end) found.push([text.slice(end, match.index), false]);
    end = match.index + character.length;
    // The end of a line as Windows writes it is a line end.
    if (lines && character === "\r" && text[end] === "\n") continue;
    const last = found.at(-1);
    // Characters in a row are one run: a hostile text has very many.
    if (last?.[1] && end - character.length === ended) last[0] += escapeOne(character);
    else found.push([escapeOne(character), true]);
    ended = end;
  }
  if (end < text.length) found.push([text.slice(end), false]);
  return found;
}

/** A text of a server as one safe text, for attributes, titles and options. */
export function shown(text, how) {
  return runs(String(text ?? ""), how)
    .map(([part]) => part)
    .join("");
}

/** The beginning of a text. */
export function clip(text, length) {
  const whole = String(text ?? "");
  return whole.length > length ? whole.slice(0, length) + "…" : whole;
}

/** The address if it leads to a web page, else null. */
export function webAddress(text) {
  let url;
  try {
    url = new URL(String(text));
  } catch {
    return null;
  }
  return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
}

/** Such as "1 message" and "12 messages". */
export function plural(count, noun) {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function formatCount(count) {
  return Number(count ?? 0).toLocaleString("en");
}

/** A time of day with milliseconds, from seconds since the epoch. */
export function formatTime(seconds) {
  if (seconds == null) return "";
  const date = new Date(seconds * 1000);
  const two = (value) => String(value).padStart(2, "0");
  const day = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  return `${day}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** Date and time, from seconds since the epoch. */
export function formatDate(seconds) {
  return seconds == null ? "" : new Date(seconds * 1000).toLocaleString();
}

export function formatSize(bytes) {
  if (bytes == null) return "";
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(bytes < 1e4 ? 1 : 0)} kB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

/** A span of time: ms below a second, then s and min. */
export function formatSeconds(seconds) {
  if (seconds == null) return "";
  if (seconds < 0.0995) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}
