// The API: requests with the key, errors in one shape, streams line by line.

const KEY = "memvec-key";

export const key = {
  get: () => sessionStorage.getItem(KEY) || "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

export class Refused extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
  }
}

async function send(method, path, body, options = {}) {
  const headers = { ...options.headers };
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  if (body !== undefined && !headers["Content-Type"]) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(body);
  }
  const answer = await fetch(path, { method, headers, body, signal: options.signal });
  if (answer.ok) return answer;
  let error = { code: "unknown", message: `The server answered ${answer.status}.` };
  try { error = (await answer.json()).error; } catch { /* as it is */ }
  throw new Refused(answer.status, error);
}

export const get = async (path) => (await send("GET", path)).json();
export const post = async (path, body, options) => (await send("POST", path, body, options)).json();
export const blob = async (path) => (await send("GET", path)).blob();
export const at = (name, rest = "") => `/v1/collections/${encodeURIComponent(name)}${rest}`;

// Calls `each` with lots of records as they come; returns the last one, the certificate.
export async function stream(path, body, each, signal) {
  const headers = { Accept: "application/x-ndjson" };
  const answer = await send("POST", path, body, { headers, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let end = null;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    const records = [];
    for (const line of lines) {
      const record = JSON.parse(line);
      if (record.error) throw new Refused(200, record.error);
      if (record.end) end = record;
      else if (!record.begin) records.push(record);
    }
    if (records.length) each(records);
  }
  if (!end) throw new Error("The stream ended before its certificate: it is not complete.");
  return end;
}
