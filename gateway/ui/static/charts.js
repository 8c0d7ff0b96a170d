// What came of requests in the last five minutes. uPlot draws; where it is not there, plain SVG does.

import { attribute, h, ms, path, rate, s, text } from "./dom.js";
import { ANSWERED, CAME, FAILED, NUMBER, P50, P95, P99, REFUSED } from "./state.js";

const SECONDS = 300;
const HEIGHT = 150;

const CHARTS = [
  {
    title: "Throughput",
    show: rate,
    series: [
      { name: "answered", column: ANSWERED, colour: "--series-1", fills: true },
      { name: "came in", column: CAME, colour: "--series-2", dash: [3, 3] },
    ],
  },
  {
    title: "Latency",
    show: ms,
    series: [
      { name: "99 %", column: P99, colour: "--series-3" },
      { name: "95 %", column: P95, colour: "--series-2" },
      { name: "50 %", column: P50, colour: "--series-1", fills: true },
    ],
  },
  {
    title: "Errors",
    show: rate,
    series: [
      { name: "failed", column: FAILED, colour: "--bad", fills: true },
      { name: "refused", column: REFUSED, colour: "--warn" },
    ],
  },
];

/** Three charts in this element; the function that is returned draws a history into them. */
export function makeCharts(parent) {
  const charts = CHARTS.map(makeChart);
  parent.append(...charts.map((chart) => chart.figure));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => charts.forEach((chart) => chart.restyle()));
  return (history) => charts.forEach((chart) => chart.draw(history));
}

function makeChart({ title, show, series }) {
  const values = series.map(() => h("b", {}));
  const legend = h("ul", {}, ...series.map((each, index) => {
    const swatch = h("i", { "aria-hidden": "true" });
    swatch.style.background = `var(${each.colour})`;
    return h("li", {}, swatch, `${each.name} `, values[index]);
  }));
  const plot = h("div", { class: "plot", role: "img" });
  const figure = h("figure", { class: "panel chart" }, h("figcaption", {}, h("h2", {}, title), legend), plot);
  let drawing = null;
  let data = null;

  function restyle() {
    drawing?.destroy();
    drawing = null;
    if (data) redraw();
  }

  function redraw() {
    const width = Math.floor(plot.clientWidth);
    if (width < 40) return;
    drawing ??= (globalThis.uPlot ? withUPlot : withSvg)(plot, width, series, show);
    drawing.draw(data, width);
  }

  new ResizeObserver(() => data && redraw()).observe(plot);
  return {
    figure,
    restyle,
    draw(history) {
      const last = history[history.length - 1];
      const from = (last ? last[NUMBER] : 0) - SECONDS + 1;
      const byNumber = new Map(history.map((point) => [point[NUMBER], point]));
      const seconds = Array.from({ length: SECONDS }, (_, index) => index - SECONDS + 1);
      const points = seconds.map((_, index) => byNumber.get(from + index));
      data = [seconds, ...series.map(({ column }) => points.map((point) => point?.[column] ?? null))];
      series.forEach((each, index) => text(values[index], last ? (show === ms ? ms(last[each.column]) : show(last[each.column])) : "–"));
      attribute(plot, "aria-label", `${title}: ${series.map((each) => summary(each, history, show)).join("; ")}`);
      redraw();
    },
  };
}

function summary({ name, column }, history, show) {
  const known = history.map((point) => point[column]).filter((value) => value != null);
  if (!known.length) return `${name}: nothing yet`;
  return `${name} now ${show(known[known.length - 1])}, at most ${show(Math.max(...known))}`;
}

function colourOf(element, name) {
  return getComputedStyle(element).getPropertyValue(name).trim();
}

function withUPlot(plot, width, series, show) {
  const quiet = colourOf(plot, "--quiet");
  const grid = { stroke: colourOf(plot, "--line"), width: 1 };
  const font = "11px system-ui, sans-serif";
  const ago = (value) => (value === 0 ? "now" : value % 60 ? `${value} s` : `${value / 60} min`);
  const chart = new globalThis.uPlot(
    {
      width,
      height: HEIGHT,
      padding: [10, 14, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
      scales: { x: { time: false }, y: { range: (_, least, most) => [0, niceTop(most)] } },
      axes: [
        { stroke: quiet, font, grid: { show: false }, ticks: { show: false }, size: 24, splits: () => [-240, -180, -120, -60, 0], values: (_, splits) => splits.map(ago) },
        { stroke: quiet, font, grid, ticks: { show: false }, size: 52, space: 36, values: (_, splits) => splits.map((value) => show(value)) },
      ],
      series: [
        {},
        ...series.map((each) => {
          const stroke = colourOf(plot, each.colour);
          return { label: each.name, stroke, width: 1.5, dash: each.dash, fill: each.fills ? `${stroke}22` : undefined, points: { show: false }, spanGaps: false };
        }),
      ],
      hooks: { setCursor: [(self) => say(self)] },
    },
    [[], ...series.map(() => [])],
    plot,
  );
  const tip = h("div", { class: "tip", hidden: true });
  chart.over.append(tip);
  function say(self) {
    const { idx, left } = self.cursor;
    tip.hidden = idx == null || left < 0;
    if (tip.hidden) return;
    const lines = series.map((each, index) => `${each.name} ${show(self.data[index + 1][idx] ?? 0)}`);
    tip.textContent = `${-self.data[0][idx]} s ago · ${lines.join(" · ")}`;
    tip.classList.toggle("left", left > self.over.clientWidth / 2);
  }
  return {
    draw(data, now) {
      if (now !== chart.width) chart.setSize({ width: now, height: HEIGHT });
      chart.setData(data);
    },
    destroy: () => chart.destroy(),
  };
}

function withSvg(plot, width, series, show) {
  const lines = series.map((each) => {
    const line = s("path", { fill: "none", "vector-effect": "non-scaling-stroke", "stroke-width": "1.5" });
    line.style.stroke = `var(${each.colour})`;
    return line;
  });
  const top = h("span", { class: "quiet" });
  const drawing = s("svg", { viewBox: `0 0 ${SECONDS} 100`, preserveAspectRatio: "none", width: "100%", height: HEIGHT }, ...lines);
  plot.replaceChildren(top, drawing);
  return {
    draw(data) {
      const most = niceTop(Math.max(...data.slice(1).flat().map((value) => value ?? 0)));
      text(top, show(most));
      lines.forEach((line, index) => attribute(line, "d", path(data[index + 1], SECONDS, 100, most)));
    },
    destroy: () => plot.replaceChildren(),
  };
}

/** The least of 1, 2, 5, 10, … that is no less, so that an axis does not jump each second. */
function niceTop(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= most) ?? most;
}
