// Pictures: scores of all items with the law of unrelated pairs, and the stages of one search.

import { chance, s } from "./dom.js";

const WIDTH = 720;
const HEIGHT = 208;
const FLOOR = 30;

// Heights are logarithmic: one match beside 100,000 unrelated items must be seen.
const height = (n, most) => (n <= 0 ? 0 : ((HEIGHT - FLOOR - 8) * Math.log1p(n)) / Math.log1p(most));

export function histogramChart(seen, similarity) {
  const { edges, counts, expected } = seen;
  const most = Math.max(1, ...counts, ...expected);
  const x = (score) => WIDTH * score;
  const bars = counts.map((n, bin) => s("rect", {
    class: edges[bin] >= similarity - 1e-9 ? "bar in" : "bar",
    x: x(edges[bin]) + 0.5, width: Math.max(1, x(edges[bin + 1] - edges[bin]) - 1),
    y: HEIGHT - FLOOR - height(n, most), height: height(n, most),
  }));
  const points = !hasLaw(seen) ? [] : expected.map((n, bin) =>
    `${x((edges[bin] + edges[bin + 1]) / 2).toFixed(1)},${(HEIGHT - FLOOR - height(n, most)).toFixed(1)}`);
  const ticks = [0, 0.2, 0.4, 0.6, 0.8, 1].map((score) => s("text", {
    x: Math.min(x(score), WIDTH - 1), y: HEIGHT - 6,
    "text-anchor": score === 0 ? "start" : score === 1 ? "end" : "middle",
  }, score.toFixed(1)));
  // Beside its line, on the side where there is room.
  const side = similarity > 0.8 ? -1 : 1;
  const label = !hasLaw(seen) ? [] : [s("text", {
    class: "p-value", x: x(similarity) + 8 * side, y: 22, "text-anchor": side < 0 ? "end" : "start",
  }, pText(seen, similarity))];
  return s("svg", {
    class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": `Scores of ${seen.n_items} items. ${hasLaw(seen) ? `Above ${similarity.toFixed(2)} an unrelated item scores with ${pText(seen, similarity)}.` : ""}`,
  }, ...bars, s("polyline", { class: "law", points: points.join(" ") }),
  s("line", { class: "tau", x1: x(similarity), x2: x(similarity), y1: 0, y2: HEIGHT - FLOOR }), ...label, ...ticks);
}

// A law of counted pairs knows no smaller p-value than one in their number.
export function pText(seen, similarity) {
  const p = pValue(seen, similarity);
  return `p ${!seen.is_uniform && p <= seen.smallest * 1.01 ? "<" : "="} ${chance(p)}`;
}

// Vectors of no sealed segment have no law: every p-value is 1.
export const hasLaw = (seen) => seen.is_uniform || seen.smallest < 1;

// Between the edges, on a logarithmic scale.
export function pValue(seen, similarity) {
  const bins = seen.counts.length;
  const place = Math.min(bins - 1e-9, Math.max(0, similarity * bins));
  const low = Math.floor(place);
  const [a, b] = [seen.p_values[low], seen.p_values[low + 1]].map((p) => Math.log(Math.max(p, 1e-300)));
  return Math.exp(a + (b - a) * (place - low));
}

const TITLES = {
  group: "memory vector of its group", unit: "memory vector of its unit",
  prefix: "first words of its code", code: "whole code", fine: "fine code",
};

// One line a stage: where the threshold is, and where the pair scored.
export function stagesChart(told) {
  const rows = told.stages.map((stage) => ({ ...stage, title: TITLES[stage.name] || stage.name }));
  rows.push({ title: "exact score", score: told.score, threshold: told.similarity, passed: told.matches });
  const all = rows.flatMap((row) => [row.score, row.threshold ?? row.score]);
  const low = Math.min(0, ...all);
  const high = Math.max(1, ...all);
  const x = (value) => 310 + (330 * (value - low)) / (high - low);
  const lines = rows.flatMap((row, number) => {
    const y = 24 + 34 * number;
    const drawn = [
      s("text", { x: 0, y: y + 4 }, row.title),
      s("line", { class: "tau", x1: x(row.threshold ?? low), x2: x(row.threshold ?? low), y1: y - 12, y2: y + 12 }),
      s("circle", { class: row.passed ? "passed" : "stopped", cx: x(row.score), cy: y, r: 6 }),
      s("text", { x: 720, y: y + 4, "text-anchor": "end" }, row.score.toFixed(3)),
    ];
    return drawn;
  });
  const spoken = rows.map((row) => `${row.title} ${row.score.toFixed(3)}, threshold ${(row.threshold ?? low).toFixed(3)}, ${row.passed ? "passed" : "stopped"}`);
  return s("svg", {
    class: "chart", viewBox: `0 0 720 ${30 + 34 * rows.length}`, role: "img", "aria-label": spoken.join("; "),
  }, ...lines);
}
