// A pair over training: a small line for each thing recorded of it, by step.

const CHART = { width: 220, height: 92, left: 40, right: 8, top: 8, bottom: 20 };

function historyParts(history, titleOf) {
  const keys = ["weight", "gap", "margin", ...Object.keys(history.series)];
  const charts = [...new Set(keys)]
    .filter((key) => history.series[key]?.some((value) => value !== null))
    .map((key) => chart(titleOf(key), history.steps, history.series[key]));
  return charts.length ? [make("h3", {}, "Over training"), make("div", { class: "charts" }, charts)] : [];
}

function chart(title, steps, values) {
  const known = steps.map((step, k) => [step, values[k]]).filter(([, value]) => value !== null && value !== undefined);
  const x = scale(extent(steps), CHART.left, CHART.width - CHART.right);
  const y = scale(extent(known.map(([, value]) => value)), CHART.height - CHART.bottom, CHART.top);
  const line = known.map(([step, value]) => `${x.to(step).toFixed(1)},${y.to(value).toFixed(1)}`).join(" ");
  const dots = known.length <= 40
    ? known.map(([step, value]) => makeSvg("circle", { cx: x.to(step), cy: y.to(value), r: 2 }))
    : [];
  const first = known[0];
  const last = known[known.length - 1];
  const label = known.length === 1
    ? `${title} ${plainNumber(first[1])} at step ${first[0]}`
    : `${title} from ${plainNumber(first[1])} at step ${first[0]} to ${plainNumber(last[1])} at step ${last[0]}`;
  const drawing = makeSvg(
    "svg",
    { viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: "img", "aria-label": label },
    upTicks(y),
    stepTicks(x, steps),
    makeSvg("polyline", { points: line }),
    dots,
  );
  return make("figure", {}, make("figcaption", {}, title), drawing);
}

function upTicks(y) {
  return ticks(...y.range, 2).map((value) => makeSvg("g", {},
    makeSvg("line", { x1: CHART.left, x2: CHART.width - CHART.right, y1: y.to(value), y2: y.to(value) }),
    makeSvg("text", { x: CHART.left - 5, y: y.to(value) + 4, "text-anchor": "end" }, plainNumber(value))));
}

function stepTicks(x, steps) {
  const [first, last] = extent(steps);
  const text = (step, anchor) =>
    makeSvg("text", { x: x.to(step), y: CHART.height - 5, "text-anchor": anchor }, `step ${step}`);
  return first === last ? [text(first, "middle")] : [text(first, "start"), text(last, "end")];
}
