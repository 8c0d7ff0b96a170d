// The page put together: each event of the gateway is drawn whole, once a second.

import { drawChain } from "./chain.js";
import { makeCharts } from "./charts.js";
import { attribute, count, duration, h, keyed, rate, text } from "./dom.js";
import { Feed } from "./feed.js";
import { drawErrors, drawEvents, drawSlowest, drawVersions } from "./panels.js";
import { State, verdict } from "./state.js";
import { drawWorkers, warning } from "./workers.js";

const at = (id) => document.getElementById(id);
const state = new State();
const drawCharts = makeCharts(at("charts"));
const feed = new Feed({ state: take, link: showLink, refused: showRefusal });
let link = "";
let drawn = 0;

function take(event) {
  state.take(event);
  draw();
}

/** The pipeline that the address names, or the first. */
function chosen() {
  const names = Object.keys(state.broker?.pipelines ?? {});
  const wanted = decodeURIComponent(location.hash.slice(1));
  return names.includes(wanted) ? wanted : names[0];
}

function draw() {
  drawGateway();
  drawNotice();
  const name = chosen();
  attribute(document.body, "data-away", state.away ? "true" : null);
  if (!name) return;
  drawTabs(name);
  const pipeline = state.broker.pipelines[name];
  const history = state.history(name);
  const workers = state.workers(name);
  const { how, words, stage } = verdict(pipeline, workers, history);
  showVerdict(how, words);
  drawChain(at("chain"), name, pipeline, workers, history, stage);
  drawCharts(history);
  drawWorkers(at("workers"), workers, ask);
  drawVersions(at("versions"), at("rollout"), pipeline);
  drawErrors(at("errors"), pipeline);
  drawSlowest(at("slow"), at("legend"), state.gateway.slowest, name, pipeline.chain, Date.now() / 1000);
  drawEvents(at("events"), state.events);
  document.title = `${how === "good" ? "" : how === "warn" ? "▲ " : "✕ "}${name} · Millstream`;
  drawn += 1;
  attribute(document.body, "data-drawn", drawn);
}

/** The words change each second, and are read out only when something else is true. */
let said = "";
function showVerdict(how, words) {
  const section = at("verdict");
  attribute(section, "data-how", how);
  const kind = `${how} ${words.replaceAll(/[\d.,]+/g, "")}`;
  attribute(section, "aria-live", kind === said ? "off" : "polite");
  said = kind;
  text(section, words);
}

function drawTabs(current) {
  const names = Object.keys(state.broker.pipelines);
  const tabs = names.length > 1 ? names.map((name) => ({ name, ready: state.broker.pipelines[name].ready })) : [];
  keyed(at("pipelines"), tabs, (tab) => tab.name, ({ name }) => {
    const tab = h("a", { href: `#${encodeURIComponent(name)}` }, name);
    return [tab, (now) => {
      attribute(tab, "aria-current", now.name === chosen() ? "page" : null);
      attribute(tab, "data-ready", now.ready);
    }];
  });
  at("pipelines").hidden = !tabs.length;
}

function drawGateway() {
  const gateway = state.gateway;
  const broker = state.broker;
  const facts = [
    ["gateway", `${gateway.host} ${gateway.pid}`],
    ["requests", rate(gateway.requests_per_s)],
    ["connections", count(gateway.connections)],
    ["loop lag", `${gateway.lag_ms < 10 ? gateway.lag_ms.toFixed(1) : Math.round(gateway.lag_ms)} ms`],
    ...(broker && !state.away ? [["broker up", duration(broker.uptime_s)]] : []),
  ];
  keyed(at("gateway"), facts, ([name]) => name, ([name]) => {
    const value = h("dd", {});
    return [h("div", {}, h("dt", {}, name), value), ([, now]) => text(value, now)];
  });
}

function drawNotice() {
  let words = "";
  if (state.gateway.draining) words = "This gateway is shutting down.";
  else if (state.away) words = `No broker answers${state.gateway.trouble ? ` (${state.gateway.trouble})` : ""}. ${state.broker ? "What stands below is how it was." : "Start one: millstream broker PIPELINE.toml"}`;
  else if (state.broker?.draining) words = "The broker is shutting down.";
  else if (state.broker?.traffic_trouble) words = `Changes of the traffic are not kept: ${state.broker.traffic_trouble}`;
  showNotice(words);
}

function showNotice(words) {
  at("notice").hidden = !words;
  text(at("notice"), words);
}

function showLink(now) {
  if (now === link) return;
  link = now;
  text(at("link"), now === "live" ? "live" : "reconnecting");
  attribute(at("link"), "data-link", now);
  if (now !== "live") {
    attribute(document.body, "data-away", "true");
    showNotice("The gateway does not answer. What stands below is how it was.");
  }
}

// ------------------------------------------------------------------ the token, and changes

function showRefusal({ status, message }) {
  text(at("link"), "not allowed");
  attribute(at("link"), "data-link", "lost");
  if (status !== 401) {
    showNotice(`This page is not for you: ${message}.`);
    return;
  }
  const dialog = at("token");
  const input = dialog.querySelector("input");
  text(dialog.querySelector(".wrong"), input.value ? "That is not it." : "");
  dialog.showModal();
  dialog.querySelector("form").onsubmit = (event) => {
    event.preventDefault();
    dialog.close();
    feed.resume(input.value);
  };
}

async function ask(worker, what) {
  const start = what === "restart" && worker.state === "drained";
  const title = `${what === "drain" ? "Drain" : start ? "Start" : "Restart"} ${worker.stage} ${worker.index}?`;
  if (!(await confirmed(title, warning(worker, what, state.workers(chosen())), title.split(" ")[0]))) return;
  try {
    const answer = await fetch(`admin/workers/${worker.id}/${what}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...feed.headers },
      body: JSON.stringify({ by: "ui" }),
    });
    if (!answer.ok) showNotice((await answer.json()).error.message);
  } catch {
    showNotice("The gateway does not answer.");
  }
}

function confirmed(title, words, verb) {
  const dialog = at("confirm");
  text(dialog.querySelector("h2"), title);
  text(dialog.querySelector("p"), words);
  const [no, yes] = dialog.querySelectorAll("button");
  text(yes, verb);
  dialog.showModal();
  return new Promise((answer) => {
    let is = false;
    yes.onclick = () => { is = true; dialog.close(); };
    no.onclick = () => dialog.close();
    dialog.onclose = () => answer(is);
  });
}

addEventListener("hashchange", () => state.broker && draw());
