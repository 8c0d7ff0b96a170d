// Elements and how numbers read. Nothing here knows of pipelines.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element with attributes and children. Text is always text, never markup. */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same of an SVG element. */
export function s(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** Set the text of an element, if it is another one. */
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

/** Set an attribute, or remove it, if that changes anything. */
export function attribute(element, name, value) {
  if (value == null || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, value);
  }
}

/**
 * Have one child for each item, in this order: children are kept by their keys, so that neither
 * focus nor hover is lost. `make` builds one, and gives back the function that updates it.
 */
export function keyed(parent, items, key, make) {
  const known = (parent.known ??= new Map());
  const ids = items.map(key);
  const wanted = new Set(ids);
  for (const [id, child] of known) {
    if (wanted.has(id)) continue;
    child.element.remove();
    known.delete(id);
  }
  let place = parent.firstElementChild;
  items.forEach((item, index) => {
    let child = known.get(ids[index]);
    if (!child) {
      const [element, update] = make(item);
      child = { element, update };
      known.set(ids[index], child);
    }
    if (child.element === place) place = place.nextElementSibling;
    else parent.insertBefore(child.element, place);
    child.update(item);
  });
}

/** 1234 -> 1,234 */
export const count = (value) => Math.round(value).toLocaleString("en");

/** Of something a second, in few characters. */
export function rate(value) {
  if (value >= 10_000) return `${(value / 1000).toFixed(1)}k/s`;
  if (value >= 100 || value === 0) return `${count(value)}/s`;
  return `${Number(value.toPrecision(2))}/s`;
}

/** Milliseconds, in the unit that fits. */
export function ms(value) {
  if (value == null) return "–";
  if (value >= 60_000) return duration(value / 1000);
  if (value >= 1000) return `${(value / 1000).toFixed(value >= 10_000 ? 1 : 2)} s`;
  if (value >= 100) return `${value.toFixed(0)} ms`;
  return `${Number(value.toPrecision(2))} ms`;
}

/** Seconds, in the unit that fits. */
export function duration(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

export function bytes(value) {
  if (!value) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(Math.floor(Math.log2(value) / 10), units.length - 1);
  const number = value / 1024 ** power;
  return `${number >= 100 || power === 0 ? number.toFixed(0) : number.toFixed(1)} ${units[power]}`;
}

export const percent = (share) => `${Number(share.toFixed(share < 10 && share > 0 ? 1 : 0))} %`;

/** The time of day of a moment in seconds since 1970. */
export const clock = (at) =>
  new Date(at * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** The points of a line through values, from left to right, as SVG has them; nulls break it. */
export function path(values, width, height, most) {
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  let line = "";
  let pen = "M";
  values.forEach((value, index) => {
    if (value == null) {
      pen = "M";
      return;
    }
    const y = height - (Math.min(value, most) / (most || 1)) * height;
    line += `${pen}${(index * step).toFixed(1)} ${y.toFixed(1)}`;
    pen = "L";
  });
  return line;
}
