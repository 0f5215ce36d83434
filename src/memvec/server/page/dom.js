// Elements without a framework: text is always text, never markup.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, properties, children);
  return element;
}

export function s(tag, properties = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list" && name !== "form") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
}

export function show(element, ...children) {
  element.replaceChildren(...children.flat().filter(Boolean));
}

export function labelled(text, control, className = "") {
  return h("label", { className }, text, control);
}

export function select(options, chosen, properties = {}) {
  return h("select", properties, options.map(([value, text]) =>
    h("option", { value, selected: value === chosen }, text)));
}

// What people typed as JSON; the error names the field.
export function parsed(text, field) {
  try { return JSON.parse(text); } catch (error) { throw new Error(`The ${field} is not valid JSON: ${error.message}`); }
}

export function alertUser(message) {
  const box = document.getElementById("alert");
  box.textContent = message;
  box.hidden = !message;
}

// Asks in a dialog; resolves to the value of the button that was pressed.
export function ask(title, body, buttons) {
  const dialog = document.getElementById("dialog");
  return new Promise((resolve) => {
    const row = h("div", { className: "row" }, buttons.map(([value, text, className]) =>
      h("button", { type: "button", className, onclick: () => { dialog.close(value); } }, text)));
    show(dialog, h("h2", { id: "dialog-title" }, title), body, row);
    dialog.onclose = () => resolve(dialog.returnValue);
    dialog.returnValue = "";
    dialog.showModal();
  });
}

export const count = (n) => Number(n).toLocaleString("en");
export const counted = (n, one) => `${count(n)} ${one}${n === 1 ? "" : "s"}`;
// Two digits, or whole numbers: 0.042, 4.2, 42, 4,200.
export const about = (n, digits = 2) => (n >= 10 ** (digits - 1) ? count(Math.round(n)) : n.toPrecision(digits));
export const percent = (x) => `${about(100 * x)} %`;
export const chance = (p) => (p >= 0.001 ? p.toPrecision(2) : p.toExponential(1));
export function bytes(n) {
  for (const unit of ["B", "kB", "MB"]) {
    if (n < 1000) return `${about(n, 3)} ${unit}`;
    n /= 1000;
  }
  return `${about(n, 3)} GB`;
}

export function debounced(work, wait) {
  let timer = 0;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => work(...given), wait); };
}
