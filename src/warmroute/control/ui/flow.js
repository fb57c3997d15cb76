// Where prompts go: groups of prompts that begin alike on the left, workers on the right, bands as wide as the tokens.

import { count } from "./format.js";
import { drawing, element } from "./dom.js";

const MOST_WORKERS = 12;
const LEAST_ROW = 32;
const GAP = 8;
const BANDS_HEIGHT = 160;
const NAMES = 150;
const OTHERS = "other workers";

export function drawFlow(place, flows) {
  const width = place.clientWidth;
  const total = flows.reduce((sum, flow) => sum + weight(flow), 0);
  if (!total) {
    place.replaceChildren(element("p", { class: "muted" }, "No prompts yet, or none that the prefix index remembers."));
    return;
  }
  const workers = columns(flows);
  const scale = BANDS_HEIGHT / total;
  const [lefts, rights] = [flows.map(weight), workers.map((worker) => worker.tokens)].map((all) => all.map((tokens) => tokens * scale));
  const height = Math.max(least(lefts), least(rights));
  const left = spread(lefts, height);
  const right = spread(rights, height);
  const names = Math.min(NAMES, width * 0.34);
  const svg = drawing("svg", { class: "picture", height, role: "img", "aria-label": sentence(flows) });
  const used = workers.map(() => 0);
  flows.forEach((flow, row) => {
    let from = left[row];
    const label = flow.prefix === null ? "all others" : `prefix ${flow.prefix}`;
    const tall = weight(flow) * scale;
    svg.append(...tag(label, weight(flow), names - 12, left[row] + tall / 2, "end"));
    svg.append(drawing("rect", { class: "end", x: names - 4, y: left[row], width: 4, height: Math.max(1, tall), rx: 1 }));
    workers.forEach((worker, column) => {
      const tokens = worker.parts[row];
      if (!tokens) return;
      const thick = tokens * scale;
      const to = right[column] + used[column];
      const band = drawing("path", { class: "band", d: ribbon(names, from, width - names, to, thick) });
      band.append(drawing("title", {}, `${label} → ${worker.id}: ${count(tokens)} tokens`));
      svg.append(band);
      from += thick;
      used[column] += thick;
    });
  });
  workers.forEach((worker, column) => {
    const tall = worker.tokens * scale;
    svg.append(drawing("rect", { class: "end to", x: width - names, y: right[column], width: 4, height: Math.max(1, tall), rx: 1 }));
    svg.append(...tag(worker.id, worker.tokens, width - names + 12, right[column] + tall / 2, "start"));
  });
  place.replaceChildren(svg);
}

function tag(name, tokens, x, y, anchor) {
  return [
    drawing("text", { class: "name", x, y: y + 1, "text-anchor": anchor }, name),
    drawing("text", { x, y: y + 13, "text-anchor": anchor }, `${count(tokens)} tokens`),
  ];
}

// The workers with most tokens, the rest as one; `parts` are tokens by flow.
function columns(flows) {
  const totals = new Map();
  flows.forEach((flow) => Object.entries(flow.tokens).forEach(([id, tokens]) => totals.set(id, (totals.get(id) ?? 0) + tokens)));
  const ids = [...totals.keys()].sort((one, other) => totals.get(other) - totals.get(one));
  const shown = ids.length <= MOST_WORKERS ? ids : ids.slice(0, MOST_WORKERS - 1);
  const rest = ids.slice(shown.length);
  const found = shown.sort((one, other) => one.localeCompare(other, "en", { numeric: true })).map((id) => ({ id, tokens: totals.get(id), parts: flows.map((flow) => flow.tokens[id] ?? 0) }));
  if (rest.length) {
    const parts = flows.map((flow) => rest.reduce((sum, id) => sum + (flow.tokens[id] ?? 0), 0));
    found.push({ id: `${rest.length} ${OTHERS}`, tokens: parts.reduce((sum, part) => sum + part, 0), parts });
  }
  return found;
}

function row(tall) {
  return Math.max(LEAST_ROW, tall + GAP);
}

function least(talls) {
  return talls.reduce((sum, tall) => sum + row(tall), 0);
}

// Where each of some heights begins, each in the middle of a row that has room for its name.
function spread(talls, height) {
  const more = (height - least(talls)) / talls.length;
  let top = 0;
  return talls.map((tall) => {
    const whole = row(tall) + more;
    top += whole;
    return top - whole / 2 - tall / 2;
  });
}

function ribbon(x1, y1, x2, y2, thick) {
  const middle = (x1 + x2) / 2;
  const upper = `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
  return `${upper}v${thick}C${middle} ${y2 + thick} ${middle} ${y1 + thick} ${x1} ${y1 + thick}Z`;
}

function weight(flow) {
  return Object.values(flow.tokens).reduce((sum, tokens) => sum + tokens, 0);
}

function sentence(flows) {
  const parts = flows.map((flow) => {
    const [most] = Object.entries(flow.tokens).sort((one, other) => other[1] - one[1]);
    const all = Object.keys(flow.tokens).length;
    const name = flow.prefix === null ? "All other prompts" : `Prompts that begin with ${flow.prefix}`;
    return `${name}: ${count(weight(flow))} tokens on ${all === 1 ? most[0] : `${all} workers, most on ${most[0]}`}`;
  });
  return parts.join(". ");
}
