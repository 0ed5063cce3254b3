// Calls to the server, with the key of this launch. Nothing else in the page uses fetch.

const KEY = "accord-key";

/** An action was refused; `message` is for the person, `field` names the wrong member, if any. */
export class ApiError extends Error {
  constructor(message, { status = 0, field = "" } = {}) {
    super(message);
    this.status = status;
    this.field = field;
  }
}

/** Move the key from the address into the storage of this tab, and out of the address. */
export function takeKey() {
  const found = /^#key=([\w-]+)(.*)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEY, found[1]);
    history.replaceState(null, "", location.pathname + (found[2] ? "#" + found[2] : ""));
  }
  return sessionStorage.getItem(KEY) !== null;
}

function headers() {
  return { "X-Accord-Key": sessionStorage.getItem(KEY) ?? "" };
}

async function post(name, params) {
  let response;
  try {
    response = await fetch("/api/" + name, {
      method: "POST",
      headers: { ...headers(), "Content-Type": "application/json" },
      body: JSON.stringify(params),
    });
  } catch {
    throw new ApiError("accord inspect does not answer; it may have ended");
  }
  if (!response.ok) {
    const said = await response.json().catch(() => ({}));
    throw new ApiError(said.error?.message ?? `HTTP ${response.status}`, {
      status: response.status,
      field: said.error?.field ?? "",
    });
  }
  return response;
}

/** Run an action, such as call("calls.tool", { target: 0, name: "add", arguments: "{}" }). */
export async function call(name, params = {}) {
  return (await post(name, params)).json();
}

/** Run an action whose answer is a file, and hand the file to the person. */
export async function download(name, params = {}) {
  const response = await post(name, params);
  const named = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "");
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = named ? named[1] : "download";
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/**
 * Read the feed until it ends. Each line is {"version": n, "changed": [[target, area], ...]};
 * an empty list says only that the server is there.
 */
export async function readFeed(version, onChange, signal) {
  const response = await fetch("/feed?since=" + version, { headers: headers(), signal });
  if (!response.ok) {
    throw new ApiError(`HTTP ${response.status}`, { status: response.status });
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line) onChange(JSON.parse(line));
    }
  }
}
