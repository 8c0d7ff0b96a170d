// What is known of the deployment: the latest event, and the past that earlier ones told.

import { count, duration, ms } from "./dom.js";

const POINTS = 300;
const EVENTS = 200;
const BUSY = 0.8;
const STEADY = 5; // seconds: queues that form batches are empty at one moment and full at the next

export const NUMBER = 0, CAME = 1, ANSWERED = 2, FAILED = 3, REFUSED = 4, P50 = 6, P95 = 7, P99 = 8, QUEUED = 9;

export class State {
  gateway = null;
  broker = null;
  #epoch = 0;
  #history = new Map();
  #events = [];

  /** Take in an event of the gateway. */
  take({ gateway, broker }) {
    this.gateway = gateway;
    if (!broker) {
      this.away = true;
      return;
    }
    this.away = false;
    if (broker.epoch !== this.#epoch) {
      this.#epoch = broker.epoch;
      this.#history.clear();
      this.#events = [];
    }
    this.broker = broker;
    for (const [name, pipeline] of Object.entries(broker.pipelines)) {
      const known = this.history(name);
      const last = known.length ? known[known.length - 1][NUMBER] : -1;
      known.push(...pipeline.history.filter((point) => point[NUMBER] > last));
      known.splice(0, known.length - POINTS);
      this.#history.set(name, known);
    }
    const newest = this.#events[0]?.number ?? 0;
    const fresh = broker.events.filter((event) => event.number > newest).reverse();
    this.#events = [...fresh, ...this.#events].slice(0, EVENTS);
  }

  /** Second by second, the oldest first: arrays as the broker has them. */
  history(pipeline) {
    return this.#history.get(pipeline) ?? [];
  }

  /** The latest first. */
  get events() {
    const after = (this.broker?.at ?? 0) - 3600;
    return this.#events.filter((event) => event.at > after);
  }

  /** Workers, and places that have none, of the stages of a pipeline, in the order of its chain. */
  workers(pipeline) {
    const chain = this.broker.pipelines[pipeline]?.chain ?? [];
    const all = [
      ...this.broker.workers,
      ...this.broker.vacant.map((place) => ({ ...place, state: place.vacancy, isVacant: true })),
    ].filter((worker) => chain.includes(worker.stage) && (worker.pipeline || pipeline) === pipeline);
    const places = new Set();
    for (const worker of all) {
      // A place that was left and taken between two looks was empty all the same.
      if (worker.last_death_ago_s != null && worker.last_death_ago_s < 1.5) worker.state = "lost";
      const place = `${worker.supervisor} ${worker.index} ${worker.version}`;
      worker.key = places.has(place) ? `${place} ${worker.id}` : place;
      places.add(place);
    }
    const order = (worker) => chain.indexOf(worker.stage);
    return all.sort((a, b) => order(a) - order(b) || natural(a.version, b.version) || natural(a.host, b.host) || natural(a.supervisor, b.supervisor) || a.index - b.index);
  }
}

const natural = (a, b) => a.localeCompare(b, "en", { numeric: true });

/** How busy the ready workers of a stage are, 0 to 1. */
export function busyShare(workers) {
  const ready = workers.filter((worker) => worker.state === "ready" || worker.state === "draining");
  return ready.length ? ready.reduce((sum, worker) => sum + worker.busy, 0) / ready.length : 0;
}

/** What a look should tell first: how it is ("good", "warn", "bad"), the words, and the stage that
 * holds things back, if one does. */
export function verdict(pipeline, workers, history) {
  const last = history[history.length - 1];
  if (!pipeline.ready) return { how: "bad", words: `Not ready. ${sentence(pipeline.reasons)}`, stage: firstLacking(pipeline) };
  const late = history.slice(-STEADY);
  const stages = pipeline.chain.map((name, place) => {
    const own = workers.filter((worker) => worker.stage === name && worker.state === "ready");
    const waits = late.reduce((sum, point) => sum + point[QUEUED][place], 0) / (late.length || 1);
    return { name, ...pipeline.stages[name], waits, busy: busyShare(own), ready: own.length, busyCount: own.filter((each) => each.busy >= 0.5).length };
  });
  const tight = stages.filter((stage) => stage.waits >= 1 && stage.busy >= BUSY).sort((a, b) => b.busy - a.busy || b.waits - a.waits)[0];
  const refused = last ? last[REFUSED] : 0;
  if (tight) {
    const oldest = tight.oldest_s != null ? `, the oldest for ${duration(tight.oldest_s)}` : "";
    const words = `${tight.name} holds things back: ${tight.busyCount} of ${tight.ready} workers busy, ${count(tight.queued || tight.waits)} waiting${oldest}.`;
    const end = refused > 0 ? ` ${count(refused)} requests a second are refused.` : "";
    return { how: refused > 0 ? "bad" : "warn", words: words + end, stage: tight.name };
  }
  if (refused > 0) return { how: "bad", words: `${count(refused)} requests a second are refused.`, stage: "" };
  if (last && last[FAILED] > 0) return { how: "warn", words: `${count(Math.max(last[FAILED], 1))} requests a second fail.`, stage: "" };
  if (!last || (last[ANSWERED] === 0 && pipeline.items === 0)) return { how: "good", words: "Ready. No requests at the moment.", stage: "" };
  const p95 = pipeline.latency_ms ? `, 95 % within ${ms(pipeline.latency_ms.p95)}` : "";
  return { how: "good", words: `All is well: ${count(last[ANSWERED])} requests a second${p95}.`, stage: "" };
}

function firstLacking(pipeline) {
  return pipeline.chain.find((name) => pipeline.stages[name].reason) ?? "";
}

function sentence(reasons) {
  return reasons.map((reason) => `${reason}.`).join(" ");
}
