// The table of workers, and what may be asked of one.

import { attribute, bytes, count, duration, h, keyed, percent, text } from "./dom.js";

const WORDS = { loading: "loading", ready: "ready", draining: "draining", gone: "gone", lost: "lost", drained: "drained" };

/** Fill the table; `ask(worker, what)` is called when a button is pressed. */
export function drawWorkers(table, workers, ask) {
  keyed(table.tBodies[0], workers, (worker) => worker.key, (worker) => makeRow(worker, ask));
  table.hidden = !workers.length;
  table.parentElement.querySelector(".empty").hidden = workers.length > 0;
}

function makeRow(first, ask) {
  let worker = first;
  const name = h("th", { scope: "row" });
  const state = h("span", { class: "state" });
  const cells = Object.fromEntries(["version", "busy", "batch", "items", "memory", "age", "deaths", "process"].map((key) => [key, h("td", { "data-label": LABELS[key] })]));
  const level = h("i", {});
  const share = h("span", {});
  cells.busy.append(h("span", { class: "meter", "aria-hidden": "true" }, level), share);
  const drain = h("button", { type: "button" }, "Drain");
  const restart = h("button", { type: "button" }, "Restart");
  drain.addEventListener("click", () => ask(worker, "drain"));
  restart.addEventListener("click", () => ask(worker, "restart"));
  const row = h("tr", {}, name, h("td", { "data-label": "State" }, state), ...Object.values(cells), h("td", { class: "actions" }, drain, restart));

  function update(now) {
    worker = now;
    const isThere = !now.isVacant;
    attribute(row, "data-state", now.state);
    attribute(row, "data-worker", now.id);
    attribute(row, "data-stage", now.stage);
    text(name, `${now.stage} ${now.index}`);
    text(state, WORDS[now.state] ?? now.state);
    attribute(state, "title", now.last_death ? `last death: ${now.last_death}` : null);
    text(cells.version, now.version || "–");
    level.style.width = `${Math.round(100 * (now.busy ?? 0))}%`;
    text(share, isThere ? percent(100 * now.busy) : "–");
    text(cells.batch, isThere && now.batch ? `${now.batch} of ${now.batch_cap} for ${duration(now.batch_s)}` : now.streams ? `${now.streams} streams` : "–");
    text(cells.items, isThere ? count(now.items) : "–");
    text(cells.memory, isThere ? bytes(now.rss_bytes) : "–");
    text(cells.age, duration(isThere ? now.age_s : now.since_s));
    text(cells.deaths, now.deaths ? `${now.deaths}: ${now.last_death}` : "0");
    attribute(cells.deaths, "title", now.deaths ? `${now.last_death}, ${duration(now.last_death_ago_s)} ago` : null);
    const device = now.device && now.device !== "cpu" ? ` ${now.device}` : "";
    text(cells.process, `${now.host} ${now.pid}${device}`);
    attribute(drain, "aria-label", `Drain ${now.stage} ${now.index}`);
    const again = now.state === "drained" ? "Start" : "Restart";
    text(restart, again);
    attribute(restart, "aria-label", `${again} ${now.stage} ${now.index}`);
    drain.disabled = now.state === "drained" || now.state === "draining";
    restart.disabled = now.state === "draining" || now.state === "lost";
  }
  return [row, update];
}

const LABELS = { version: "Version", busy: "Busy", batch: "Batch now", items: "Items done", memory: "Memory", age: "Age", deaths: "Deaths", process: "Process" };

/** What a person should know before it is done. */
export function warning(worker, what, workers) {
  const others = workers.filter((other) => other.stage === worker.stage && other.id !== worker.id && other.state === "ready");
  const alone = others.length ? "" : " It is the only ready worker of its stage.";
  if (what === "drain") {
    return `It finishes what it holds, and nobody takes its place until it is started again.${alone && `${alone} Requests wait, or fail, until then.`}`;
  }
  if (worker.state === "drained") return "A worker is started at this place.";
  return "A successor is started beside it; when that is ready, this one finishes what it holds and leaves. No request is lost.";
}
