// The API: requests with the key, errors in one shape, streams line by line.

const KEY = "memvec-key";
const INTEGER = /^-?\d+$/;

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
    body = written(body);
  }
  const answer = await fetch(path, { method, headers, body, signal: options.signal });
  if (answer.ok) return answer;
  let error = { code: "unknown", message: `The server answered ${answer.status}.` };
  try { error = (await answer.json()).error; } catch { /* as it is */ }
  throw new Refused(answer.status, error);
}

// Ids may be integers that no Number holds: rounded, they would name another item.
function whole(name, value, context) {
  if (typeof value !== "number" || Math.abs(value) <= Number.MAX_SAFE_INTEGER) return value;
  if (!context) throw new Error("This browser is too old: it cannot read ids beyond 2⁵³.");
  return INTEGER.test(context.source) ? BigInt(context.source) : value;
}
const read = (text) => JSON.parse(text, whole);
export const written = (value) => JSON.stringify(value, (name, one) => (typeof one === "bigint" ? JSON.rawJSON(String(one)) : one));

export const get = async (path) => read(await (await send("GET", path)).text());
export const post = async (path, body, options) => read(await (await send("POST", path, body, options)).text());
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
      const record = read(line);
      if (record.error) throw new Refused(200, record.error);
      if (record.end) end = record;
      else if (!record.begin) records.push(record);
    }
    if (records.length) each(records);
  }
  if (!end) throw new Error("The stream ended before its certificate: it is incomplete.");
  return end;
}
