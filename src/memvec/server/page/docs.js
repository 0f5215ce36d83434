// The API as a page, from its own description.

import { h, show } from "./dom.js";

const main = document.getElementById("docs");
const schema = await (await fetch("/openapi.json")).json();

function fields(operation) {
  const body = operation.requestBody?.content?.["application/json"]?.schema;
  const model = body && schema.components.schemas[body.$ref.split("/").pop()];
  if (!model?.properties) return null;
  const needed = new Set(model.required || []);
  return h("dl", { className: "facts" }, Object.entries(model.properties).flatMap(([name, one]) => [
    h("dt", {}, h("code", {}, name), needed.has(name) ? " (needed)" : ""),
    h("dd", {}, [one.description, one.type, one.enum?.join(" | ")].filter(Boolean).join("; ")),
  ]));
}

const routes = Object.entries(schema.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => h("section", { className: "panel" },
    h("h2", {}, h("code", {}, `${method.toUpperCase()} ${path}`)),
    h("p", {}, operation.description || operation.summary), fields(operation))));

show(main, h("h1", {}, `memvec ${schema.info.version}: ${routes.length} routes`),
  h("p", {}, "Vectors may also come as raw float32 or Arrow; everything else then goes into the parameter ask, as JSON."), routes);
