// Versions, errors, slow requests and events.

import { attribute, clock, count, duration, h, keyed, ms, percent, text } from "./dom.js";

const COLOURS = 6;

/** The versions of a pipeline, with what each gets of the traffic, and what is under way. */
export function drawVersions(list, notes, pipeline) {
  const versions = pipeline.traffic?.versions ?? [];
  const figures = Object.fromEntries(pipeline.figures.map((each) => [each.version, each]));
  const rows = versions.map((version) => ({ ...version, figures: figures[version.version], tally: pipeline.tallies[version.version], roles: roles(pipeline.traffic, version.version) }));
  keyed(list, rows, (row) => row.version, makeVersion);
  list.parentElement.querySelector(".empty").hidden = versions.length > 0;
  keyed(notes, underWay(pipeline), (note) => note, (note) => [h("li", {}, note), () => {}]);
}

function makeVersion(row) {
  const level = h("i", {});
  const state = h("span", { class: "state" });
  const share = h("b", {});
  const more = h("p", { class: "quiet" });
  const element = h("li", {}, h("p", {}, h("strong", {}, row.version), " ", state, share), h("span", { class: "bar", "aria-hidden": "true" }, level), more);
  element.dataset.version = row.version;
  return [element, (now) => {
    attribute(element, "data-share", now.share);
    attribute(element, "data-state", now.state);
    level.style.width = `${now.share}%`;
    text(share, percent(now.share));
    text(state, [now.state, ...now.roles].join(" · "));
    const parts = [];
    if (now.tally) parts.push(`${count(now.tally.answered)} answered, ${count(now.tally.failed)} failed`);
    if (now.figures?.p95_ms != null) parts.push(`95 % within ${ms(now.figures.p95_ms)}`);
    if (now.workers) parts.push(`${now.ready_workers} of ${now.workers} workers ready`);
    if (now.detail) parts.push(now.detail);
    text(more, parts.join(" · "));
  }];
}

function roles(traffic, version) {
  const labels = Object.entries(traffic.labels).filter(([, named]) => named === version).map(([label]) => label);
  const own = ["canary", "shadow"].filter((role) => traffic[role] === version);
  return [...new Set([...own, ...labels])];
}

function underWay({ traffic, shadow, agreements }) {
  const notes = [];
  const promotion = traffic?.promotion;
  if (promotion) notes.push(`Promotion of ${promotion.version}: step ${promotion.step + 1} of ${promotion.steps.length}, for ${duration(promotion.elapsed_s)} of ${duration(promotion.every_s)}.`);
  if (traffic?.pending) notes.push(`A change waits for ${traffic.pending.waits_for.join(", ")}: ${traffic.pending.what}.`);
  for (const [version, why] of Object.entries(traffic?.rejected ?? {})) notes.push(`Version ${version} was rolled back: ${why}`);
  if (shadow) notes.push(`Shadow ${shadow.version}: ${shadow.hindrance || `${count(shadow.copies)} copies under way`}.`);
  for (const pair of agreements) notes.push(`Of ${count(pair.compared)} answers, ${pair.shadow} gave ${count(pair.agreed)} as ${pair.stable} did, ${count(pair.differed)} others, and failed ${count(pair.failed)} times.`);
  return notes;
}

/** What failed or was refused, by code. */
export function drawErrors(list, pipeline) {
  const rows = [
    ...Object.entries(pipeline.errors).map(([code, times]) => ({ code, times, how: "failed" })),
    ...Object.entries(pipeline.refusals).map(([code, times]) => ({ code, times, how: "refused" })),
  ].sort((a, b) => b.times - a.times);
  keyed(list, rows, (row) => `${row.how} ${row.code}`, (row) => {
    const times = h("b", {});
    const element = h("li", { "data-how": row.how }, h("code", {}, row.code), " ", h("span", { class: "quiet" }, row.how), times);
    return [element, (now) => text(times, count(now.times))];
  });
  list.parentElement.querySelector(".empty").hidden = rows.length > 0;
}

/** The slowest requests of a pipeline, each as the stages that it went through. */
export function drawSlowest(list, legend, requests, pipeline, chain, now) {
  const rows = requests.filter((request) => request.pipeline === pipeline);
  const longest = rows.length ? rows[0].duration_s : 1;
  keyed(list, rows, (request) => `${request.request_id} ${request.at}`, (request) => makeWaterfall(request));
  rows.forEach((request, index) => {
    const row = list.children[index];
    row.querySelector(".fall").style.width = `${Math.max((100 * request.duration_s) / longest, 1)}%`;
    text(row.querySelector(".ago"), `${duration(Math.max(now - request.at, 0))} ago`);
  });
  keyed(legend, rows.length ? [...chain, null] : [], (stage) => stage ?? "", (stage) => {
    const index = stage == null ? "rest" : chain.indexOf(stage) % COLOURS;
    return [h("li", {}, h("i", { "data-colour": index, "aria-hidden": "true" }), stage ?? "elsewhere"), () => {}];
  });
  if (rows.length && !legend.querySelector(".waits")) legend.append(h("li", { class: "waits" }, h("i", { "aria-hidden": "true" }), "hatched: waits"));
  if (!rows.length) legend.querySelector(".waits")?.remove();
  list.parentElement.querySelector(".empty").hidden = rows.length > 0;
}

function makeWaterfall(request) {
  const segments = [];
  const words = [];
  let known = 0;
  request.spans.forEach((span, index) => {
    const stage = request.stages[index >> 1] ?? "a stage";
    const waits = index % 2 === 0;
    known += span;
    words.push(`${stage} ${waits ? "waited" : "ran"} ${ms(span * 1000)}`);
    const part = h("i", { "data-colour": (index >> 1) % COLOURS, "data-waits": waits ? "true" : null, title: words[words.length - 1] });
    part.style.flexGrow = String(1000 * span);
    segments.push(part);
  });
  const rest = Math.max(request.duration_s - known, 0);
  const part = h("i", { "data-colour": "rest", title: `elsewhere ${ms(rest * 1000)}` });
  part.style.flexGrow = String(1000 * rest);
  segments.push(part);
  words.push(`elsewhere ${ms(rest * 1000)}`);
  const code = request.code ? ` ${request.code}` : "";
  const element = h(
    "li",
    {},
    h("p", {}, h("b", {}, ms(request.duration_s * 1000)), h("span", { class: request.status < 400 ? "quiet" : "failed" }, ` ${request.status}${code}`), request.version && h("span", { class: "quiet" }, ` version ${request.version}`), h("span", { class: "ago quiet" }), h("code", { class: "id" }, request.request_id)),
    h("span", { class: "fall", "aria-hidden": "true" }, ...segments),
    h("span", { class: "hidden" }, words.join("; ")),
  );
  return [element, () => {}];
}

/** What happened, the latest first. */
export function drawEvents(list, events) {
  keyed(list, events.slice(0, 120), (event) => event.number, (event) => {
    const [how, words] = told(event);
    const element = h("li", { "data-how": how, "data-what": event.what }, h("time", { datetime: new Date(event.at * 1000).toISOString() }, clock(event.at)), h("span", {}, words));
    return [element, () => {}];
  });
  list.parentElement.querySelector(".empty").hidden = events.length > 0;
}

/** An event in words, and how it is: good, warn, bad, or nothing of these. */
function told({ what, fields: f }) {
  const who = f.stage ? `${f.stage} (${f.pid})` : `${f.worker ?? ""}`;
  const because = f.reason ? `: ${f.reason}` : "";
  const by = f.by ? ` by ${f.by}` : "";
  const why = f.why ? `: ${f.why}` : "";
  switch (what) {
    case "worker_ready": return ["good", `Worker ${who} is ready`];
    case "worker_loading": return ["", `Worker ${who} loads`];
    case "worker_draining": return ["", `Worker ${f.stage ?? ""} ${f.worker} drains`];
    case "worker_left": return ["", `Worker ${who} left`];
    case "worker_lost": return ["bad", `Worker ${who} was lost${because}`];
    case "worker_recycled": return ["", `Worker ${who} is recycled${because}`];
    case "worker_restart_asked": return ["warn", `Restart of worker ${who} asked for${by}${why}`];
    case "worker_drain_asked": return ["warn", `Drain of worker ${who} asked for${by}${why}`];
    case "gateway_joined": return ["good", `Gateway ${f.gateway} (${f.pid}) joined`];
    case "gateway_left": return ["warn", `Gateway ${f.gateway} left${because}`];
    case "supervisor_joined": return ["good", `Supervisor ${f.supervisor} (${f.pid}) joined`];
    case "supervisor_left": return ["warn", `Supervisor ${f.supervisor} left${because}`];
    case "traffic_changed": return [String(f.change).startsWith("rollback") ? "bad" : "warn", `Traffic of ${f.pipeline}: ${String(f.change).replace(/^traffic /, "")}${by}${why}`];
    case "refusing_began": return ["bad", `${f.pipeline} began to refuse requests: ${f.code}`];
    case "refusing_ended": return ["good", `${f.pipeline} refuses no more: ${count(f.requests)} requests in ${duration(f.seconds)}`];
    case "killer": return ["bad", `A request killed ${f.attempts} workers of ${f.stage}`];
    default: return ["", `${what.replaceAll("_", " ")} ${Object.entries(f).map(([key, value]) => `${key} ${value}`).join(", ")}`];
  }
}
