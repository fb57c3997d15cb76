// Puts the page together: the feed goes to the views, and what changes in the fleet is told once, in words.

import { askForKey, get } from "./api.js";
import { Chart } from "./chart.js";
import { showDecisions } from "./decisions.js";
import { announce, byId, say } from "./dom.js";
import { follow } from "./feed.js";
import { drawFlow } from "./flow.js";
import { age, count, plural, rate, seconds, share, tick } from "./format.js";
import { Workers } from "./workers.js";

const workers = new Workers();
const charts = [
  new Chart(byId("chart-rate"), {
    title: "Requests per second",
    series: [
      { key: "requests_per_second", name: "ended", tone: "cool", area: true },
      { key: "errors_per_second", name: "of them errors", tone: "bad", rare: true },
    ],
    format: rate,
    tick,
    atLeast: 1,
  }),
  new Chart(byId("chart-ttft"), {
    title: "Time to first token",
    series: [
      { key: "ttft_p50_seconds", name: "p50", tone: "warm" },
      { key: "ttft_p99_seconds", name: "p99", tone: "cool" },
    ],
    format: seconds,
    tick: (value) => (value ? seconds(value) : "0"),
    atLeast: 0.01,
  }),
  new Chart(byId("chart-hit"), {
    title: "Cache hits",
    series: [{ key: "hit_share", name: "of prompt tokens", tone: "warm", area: true }],
    format: share,
    atLeast: 1,
    top: () => 1,
  }),
];
let samples = [];
let states = new Map();
let last = null;
let flows = "";

function show(state) {
  if (!last || !byId("lost").hidden) {
    if (last) announce("The router answers again");
    get("admin/history").then((history) => draw(join(history.samples, samples)), () => {});
    look();
  }
  last = state;
  byId("lost").hidden = true;
  const { totals } = state;
  const policies = [...new Set(Object.values(state.policies))].join(" + ");
  say(byId("about"), `${state.version} · ${state.mode} · ${policies} · up ${age(state.uptime_seconds)}`);
  tell(byId("health"), state.can_serve ? "Serving" : "Cannot serve", state.can_serve ? "good" : "bad");
  say(byId("g-workers"), `${totals.routable} / ${totals.workers}`);
  byId("g-workers").classList.toggle("bad", !state.can_serve);
  const without = totals.workers - totals.routable;
  say(byId("g-workers-note"), without && totals.routable ? `can get requests, ${count(without)} cannot` : "can get requests");
  say(byId("g-rate"), rate(totals.requests_per_second));
  say(byId("g-rate-note"), totals.errors_per_second ? `${rate(totals.errors_per_second)} errors / s` : "no errors");
  byId("g-rate-note").classList.toggle("bad", totals.errors_per_second > 0);
  say(byId("g-running"), count(totals.running));
  const busy = plural(state.workers.filter((worker) => worker.running).length, "worker");
  say(byId("g-running-note"), totals.queued ? `on ${busy}, ${count(totals.queued)} wait for a place` : `on ${busy}`);
  say(byId("g-ttft"), seconds(totals.ttft_p50_seconds));
  say(byId("g-ttft-note"), `p99 ${seconds(totals.ttft_p99_seconds)}`);
  say(byId("g-hit"), share(totals.hit_share));
  say(byId("g-pending"), count(totals.pending_prefill_tokens));
  document.title = `${totals.routable}/${totals.workers} · Warmroute`;
  workers.show(state.workers);
  showFlows(state.flows);
  tellChanges(state.workers);
}

function draw(all) {
  samples = all.slice(-180);
  charts.forEach((chart) => chart.show(samples, last.time));
}

// Decisions may be many a second: what is asked for now and then is enough to read.
function look() {
  get("admin/decisions?limit=10").then(showDecisions, () => {});
}

// What the stream told while the history was on its way is not in it.
function join(older, newer) {
  const until = older.at(-1)?.time ?? 0;
  return [...older, ...newer.filter((sample) => sample.time > until)];
}

function showFlows(now) {
  const text = JSON.stringify(now);
  if (text !== flows) {
    flows = text;
    drawFlow(byId("flow-picture"), now);
  }
}

// Numbers change every second and are not read out; a worker that comes, goes or changes its state is.
function tellChanges(now) {
  const before = states;
  states = new Map(now.map((worker) => [worker.id, worker.state]));
  if (!before.size) return;
  const changed = now.filter((worker) => before.get(worker.id) !== worker.state);
  const gone = [...before.keys()].filter((id) => !states.has(id));
  if (changed.length + gone.length > 3) announce(`${changed.length + gone.length} workers have changed`);
  else if (changed.length + gone.length) {
    announce([...changed.map((worker) => `${worker.id} is ${worker.state}`), ...gone.map((id) => `${id} has left`)].join(", "));
  }
}

function tell(node, text, tone) {
  say(node, text);
  node.dataset.tone = tone;
}

function lost() {
  tell(byId("health"), "No connection", "bad");
  if (!last || !byId("lost").hidden) return;
  say(byId("lost-since"), new Date(last.time * 1000).toLocaleTimeString());
  byId("lost").hidden = false;
  announce("The router does not answer");
}

byId("dismiss").addEventListener("click", () => (byId("trouble").hidden = true));
byId("key-cancel").addEventListener("click", () => byId("key-dialog").close());
byId("set-key").addEventListener("click", () => askForKey());
new ResizeObserver(() => last && drawFlow(byId("flow-picture"), last.flows)).observe(byId("flow-picture"));
follow("admin/events", { state: show, sample: (sample) => (draw([...samples, sample]), look()), lost });
