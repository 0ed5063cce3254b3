// Bytes that a server sends: images, sounds and others, always as blobs of this page.
import { html, useEffect, useMemo, useState } from "./preact.js";
import { Button, ErrorNote, LongText, Text, formatSize } from "./ui.js";

const HEX_BYTES = 4096;
const LINE = 16;
const IMAGES = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml|x-icon)$/;
const SOUNDS = /^audio\/[\w.+-]+$/;

/** The bytes of a base64 text; null if it is not one. */
export function bytesOf(base64) {
  try {
    const clean = base64.replace(/\s+/g, "").replaceAll("-", "+").replaceAll("_", "/");
    return Uint8Array.from(atob(clean), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

/** An address for bytes, revoked when it is not shown any more. */
function useBlob(bytes, type) {
  const [url, setUrl] = useState(null);
  useEffect(() => {
    if (!bytes) return undefined;
    const made = URL.createObjectURL(new Blob([bytes], { type }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [bytes, type]);
  return url;
}

function hexLines(bytes, end) {
  const lines = [];
  for (let at = 0; at < end; at += LINE) {
    const part = [...bytes.subarray(at, Math.min(end, at + LINE))];
    const hex = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "."));
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hex.padEnd(LINE * 3)} ${text.join("")}`);
  }
  return lines.join("\n");
}

function Hex({ bytes }) {
  const [end, setEnd] = useState(HEX_BYTES);
  return html`<div>
    <pre class="long" tabindex="0" role="group" aria-label="Bytes">${hexLines(bytes, Math.min(end, bytes.length))}</pre>
    ${bytes.length > end &&
    html`<${Button} onClick=${() => setEnd(end * 4)}>Show more bytes<//>`}
  </div>`;
}

/** Bytes in the way that suits their type. */
export function Media({ base64, type = "", label = "" }) {
  const bytes = useMemo(() => bytesOf(base64), [base64]);
  const kind = type.toLowerCase().split(";")[0].trim();
  const url = useBlob(bytes, IMAGES.test(kind) || SOUNDS.test(kind) ? kind : "application/octet-stream");
  // A picture that is opened by its address is a document, whose scripts would be of this page.
  const saved = useBlob(kind === "image/svg+xml" ? bytes : null, "application/octet-stream");
  const [isBroken, setBroken] = useState(false);
  const [isHex, setHex] = useState(false);
  if (!bytes) {
    return html`<div>
      <${ErrorNote} error="The data are not base64." />
      <${LongText} label="Data as sent">${base64}<//>
    </div>`;
  }
  const isImage = IMAGES.test(kind) && !isBroken;
  const isSound = SOUNDS.test(kind) && !isBroken;
  const showHex = isHex || !(isImage || isSound);
  return html`<figure>
    ${isBroken && html`<p class="note is-warn">The browser cannot show these bytes as ${kind}.</p>`}
    ${isImage && url && html`<img src=${url} alt=${label || "Image from the server"} onError=${() => setBroken(true)} />`}
    ${isSound && url && html`<audio controls src=${url} onError=${() => setBroken(true)}></audio>`}
    ${showHex && html`<${Hex} bytes=${bytes} />`}
    <figcaption>
      <${Text}>${type || "no type"}<//>, ${formatSize(bytes.length)}
      ${url && html` <a href=${saved ?? url} download="content">Save</a>`}
      ${(isImage || isSound) &&
      html` <${Button} kind="plain small" onClick=${() => setHex(!isHex)} aria-pressed=${isHex ? "true" : "false"}>bytes<//>`}
    </figcaption>
  </figure>`;
}
