// All collections: what each holds, promises, and how the promise is kept.

import { at, get, post } from "./api.js";
import { about, alertUser, bytes, count, counted, h, percent, show } from "./dom.js";

export async function collectionsView(main) {
  const { collections } = await get("/v1/collections");
  const list = h("ul", { className: "cards", "aria-label": "Collections" }, collections.map(card));
  const none = h("p", {}, "There is no collection in this folder. Create one with ",
    h("code", {}, "memvec create"), " or ", h("code", {}, "POST /v1/collections"), ".");
  show(main, h("h1", {}, counted(collections.length, "collection")), collections.length ? list : none);
}

function card(one) {
  if (one.error) {
    return h("li", { className: "card" }, h("span", { className: "name" }, one.name),
      h("span", { className: "bad" }, one.error.message));
  }
  const { settings, stats, health } = one;
  const euclidean = settings.metric === "euclidean";
  const range = euclidean ? "distance" : "cosine";
  const limit = euclidean
    ? `within ${Number(Math.sqrt(2 - 2 * settings.similarity).toPrecision(6))}` : `above ${settings.similarity}`;
  const check = h("button", { type: "button", onclick: () => checkFiles(one.name, check) }, "Check files");
  const facts = [
    ["items", count(stats.n_items)],
    ["waiting", count(stats.n_waiting)],
    ["segments", stats.segment_sizes.length ? stats.segment_sizes.map(count).join(", ") : "none"],
    ["on disk", bytes(stats.segment_bytes + stats.catalog_bytes)],
    ["vectors", `${settings.dim} × ${settings.dtype}, ${range}`],
    ["promise", `misses at most ${Number((100 * settings.miss_rate).toPrecision(6))} % ${limit} (${settings.guarantee})`],
    ["queries", count(health.n_queries)],
    ["latency", one.latency_ms === null ? "no query yet" : `${about(one.latency_ms)} ms, median of recent searches`],
    ["misses seen", misses(health)],
    ["drift", drift(health.drift)],
  ];
  return h("li", { className: "card" },
    h("span", { className: "name" }, one.name),
    h("dl", {}, facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    one.note ? h("p", { className: "soft" }, one.note) : null,
    h("div", { className: "form" },
      h("a", { href: `#explore/${encodeURIComponent(one.name)}` }, "Explore"),
      h("a", { href: `#duplicates/${encodeURIComponent(one.name)}` }, "Duplicates"), check));
}

function misses(health) {
  const seen = health.shadows.reduce((a, b) => (a && a.seen.n_queries >= b.seen.n_queries ? a : b), null);
  if (!seen || !seen.seen.n_with_matches) return "no query compared yet";
  const [low, high] = seen.seen.interval;
  return h("span", { className: seen.seen.kept ? "good" : "bad" },
    `${percent(seen.seen.miss_rate)} of ${count(seen.seen.n_queries)} queries (${percent(low)} to ${percent(high)})`);
}

function drift(seen) {
  if (seen.p_value === null) return "not watched yet";
  return h("span", { className: seen.alarmed ? "bad" : "good" },
    `${seen.alarmed ? "queries have drifted" : "none seen"} (p = ${seen.p_value.toPrecision(2)})`);
}

async function checkFiles(name, button) {
  button.disabled = true;
  try {
    const found = await post(at(name, "/check"), {});
    button.textContent = found.ok ? `${count(found.n_files)} files are whole` : "Damaged";
    if (!found.ok) alertUser(found.problems.join("\n"));
  } catch (error) {
    alertUser(error.message);
    button.disabled = false;
  }
}
