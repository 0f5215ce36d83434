// Cards of items: photograph or text, score, p-value, metadata.

import { at, blob, post, written } from "./api.js";
import { chance, h } from "./dom.js";

const TEXTS = ["text", "title", "caption", "name", "document", "content"];

export async function readItems(name, ids) {
  const asked = { ids, include: ["metadata"], missing: "skip" };
  const { items } = await post(at(name, "/items/get"), asked);
  return new Map(items.map((item) => [item.id, item.metadata]));
}

export function itemCard(name, id, metadata, { score, scale = "score", p, least = 0, buttons = [], photos, className = "" } = {}) {
  const field = TEXTS.find((one) => typeof metadata?.[one] === "string");
  const others = Object.entries(metadata || {}).filter(([one]) => one !== field).slice(0, 8);
  const numbers = score === undefined ? null : h("span", { className: "numbers" },
    `${scale} ${score.toFixed(4)}${p === undefined ? "" : `, p ${p <= least ? "<" : "="} ${chance(p)}`}`);
  return h("li", { className: `card ${className}` },
    photos ? photo(name, id) : null,
    h("span", { className: "name" }, String(id)),
    numbers,
    field ? h("span", { className: "text" }, metadata[field]) : null,
    others.length ? h("dl", {}, others.flatMap(([one, value]) =>
      fact(one, typeof value === "string" ? value : written(value)))) : null,
    h("div", { className: "form" }, buttons));
}

// Long values are cut by the style sheet; what is pointed at shows the whole.
const fact = (name, text) => [h("dt", { title: name }, name), h("dd", { title: text }, text)];

function photo(name, id) {
  const place = h("div", {});
  blob(at(name, `/photo?id=${encodeURIComponent(written(id))}`)).then(
    (found) => { place.append(h("img", { alt: `photograph ${id}`, src: URL.createObjectURL(found) })); },
    () => place.remove(),
  );
  return place;
}

// An id that people typed: a number if it looks like one, text in quotes or otherwise.
export function typedId(text) {
  const plain = text.trim();
  if (/^-?\d+$/.test(plain)) return Number.isSafeInteger(Number(plain)) ? Number(plain) : BigInt(plain);
  return plain.startsWith('"') && plain.endsWith('"') && plain.length > 1 ? JSON.parse(plain) : plain;
}

// An id as people would type it: typed again, it is the same.
export function shownId(id) {
  const plain = typeof id !== "string" || (id === id.trim() && !/^-?\d+$|^".*"$/.test(id));
  return plain ? String(id) : JSON.stringify(id);
}
