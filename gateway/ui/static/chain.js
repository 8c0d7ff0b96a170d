// The chain: for each stage what flows to it, what waits, who works on it, and how full batches are.

import { attribute, count, duration, h, keyed, ms, path, percent, rate, s, text } from "./dom.js";
import { QUEUED, busyShare } from "./state.js";

const MOST_DOTS = 24;
const BARS = 16;
const WIDTH = 200;
const QUEUE_HEIGHT = 34;
const BATCH_HEIGHT = 30;

/** Draw a pipeline's stages; `held` is the one that holds things back. */
export function drawChain(list, name, pipeline, workers, history, held) {
  const stages = pipeline.chain.map((stage, place) => ({
    ...pipeline.stages[stage],
    key: `${name} ${stage}`,
    name: stage,
    place,
    isHeld: stage === held,
    workers: workers.filter((worker) => worker.stage === stage),
    past: history.map((point) => point[QUEUED][place]),
  }));
  keyed(list, stages, (stage) => stage.key, makeStage);
}

function makeStage(stage) {
  const flow = s("line", { class: "flow", x1: 0, x2: 100, y1: 6, y2: 6 });
  const flowing = h("span", { class: "in" });
  const heading = h("h3", {}, stage.name);
  const mark = h("span", { class: "mark" });
  const waiting = h("strong", {});
  const age = h("span", { class: "quiet" });
  const area = s("path", { class: "area" });
  const line = s("path", { class: "line" });
  const queue = s("svg", { viewBox: `0 0 ${WIDTH} ${QUEUE_HEIGHT}`, preserveAspectRatio: "none", role: "img" }, area, line);
  const dots = h("span", { class: "dots", "aria-hidden": "true" });
  const busy = h("span", {});
  const bars = s("svg", { class: "bars", viewBox: `0 0 ${WIDTH} ${BATCH_HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  const batch = h("span", {});
  const run = h("span", {});
  const wait = h("span", {});
  const out = h("span", {});
  const reason = h("p", { class: "reason" });
  const element = h(
    "li",
    { class: "stage" },
    h(
      "div",
      { class: "edge", "aria-hidden": "true" },
      s("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none" }, s("line", { class: "bed", x1: 0, x2: 100, y1: 6, y2: 6 }), flow),
      flowing,
    ),
    h(
      "article",
      { class: "card" },
      h("div", { class: "top" }, heading, mark),
      reason,
      h("div", { class: "queue" }, h("p", {}, waiting, " waiting", age), queue),
      h("div", { class: "crew" }, dots, busy),
      h("div", { class: "batches" }, bars, batch),
      h("dl", {},
        h("div", {}, h("dt", {}, "runs ", h("small", {}, "50 · 95 %")), h("dd", {}, run)),
        h("div", {}, h("dt", {}, "waits"), h("dd", {}, wait)),
        h("div", {}, h("dt", {}, "out"), h("dd", {}, out)),
      ),
    ),
  );
  element.dataset.stage = stage.name;
  let dotted = [];

  function update(now) {
    const ready = now.workers.filter((worker) => worker.state === "ready");
    attribute(element, "data-held", now.isHeld ? "true" : null);
    attribute(element, "data-ready", now.ready_workers > 0 ? "true" : "false");
    attribute(element, "data-queued", now.queued);
    text(mark, now.isHeld ? "holds back" : now.ready_workers ? "" : "not ready");
    text(reason, now.reason);
    reason.hidden = !now.reason;

    text(flowing, rate(now.in_per_s));
    attribute(flow, "class", now.in_per_s > 0 ? "flow moves" : "flow");
    flow.style.setProperty("--beat", `${(2.4 / (1 + Math.log10(1 + now.in_per_s))).toFixed(2)}s`);

    text(waiting, count(now.queued));
    text(age, now.oldest_s != null ? `, the oldest ${duration(now.oldest_s)}` : "");
    drawQueue(now);
    drawDots(now.workers);
    text(busy, `${ready.length} of ${now.workers.length} ready · ${percent(100 * busyShare(now.workers))} busy`);
    drawBatches(now);

    text(run, now.run_ms ? `${ms(now.run_ms.p50)} · ${ms(now.run_ms.p95)}` : "–");
    text(wait, now.wait_ms ? `${ms(now.wait_ms.p50)} · ${ms(now.wait_ms.p95)}` : "–");
    text(out, rate(now.out_per_s));
  }

  function drawQueue(now) {
    const most = Math.max(...now.past, now.queued, 8);
    const points = path(now.past, WIDTH, QUEUE_HEIGHT - 2, most).replaceAll(/([ML][\d.]+ )([\d.]+)/g, (_, x, y) => `${x}${(Number(y) + 1).toFixed(1)}`);
    attribute(line, "d", points);
    attribute(area, "d", points ? `${points}L${WIDTH} ${QUEUE_HEIGHT}L0 ${QUEUE_HEIGHT}Z` : "");
    attribute(queue, "aria-label", `${now.queued} waiting; at most ${most} in the last five minutes`);
  }

  function drawDots(workers) {
    const shown = workers.slice(0, MOST_DOTS);
    while (dotted.length < shown.length) {
      const level = h("i", {});
      const dot = h("b", {}, level);
      dotted.push({ dot, level });
      dots.append(dot);
    }
    while (dotted.length > shown.length) dotted.pop().dot.remove();
    shown.forEach((worker, index) => {
      attribute(dotted[index].dot, "data-state", worker.state);
      dotted[index].level.style.height = `${Math.round(100 * (worker.busy ?? 0))}%`;
    });
    attribute(dots, "data-more", workers.length > MOST_DOTS ? `+${workers.length - MOST_DOTS}` : null);
  }

  function drawBatches(now) {
    const most = Math.max(now.batch_cap || now.max_batch_size || 1, ...Object.keys(now.batch_sizes).map(Number));
    const filled = Array(Math.min(most, BARS)).fill(0);
    let batches = 0;
    let items = 0;
    for (const [size, times] of Object.entries(now.batch_sizes)) {
      filled[Math.min(Math.floor(((size - 1) / most) * filled.length), filled.length - 1)] += times;
      batches += times;
      items += size * times;
    }
    const highest = Math.max(...filled, 1);
    const step = WIDTH / filled.length;
    const rects = filled.map((times, index) => {
      const height = times ? Math.max((times / highest) * BATCH_HEIGHT, 2) : 1;
      return s("rect", { class: times ? "" : "none", x: (index * step + 1).toFixed(1), width: Math.max(step - 2, 1).toFixed(1), y: (BATCH_HEIGHT - height).toFixed(1), height: height.toFixed(1) });
    });
    bars.replaceChildren(...rects);
    const mean = batches ? items / batches : 0;
    text(batch, batches ? `batches of ${mean.toFixed(mean < 10 ? 1 : 0)} of ${most} · ${percent((100 * mean) / most)} full` : `batches of up to ${most}`);
    attribute(bars, "aria-label", `Sizes of ${batches} batches in the last minute, from 1 to ${most}: ${filled.join(", ")}`);
  }

  return [element, update];
}
