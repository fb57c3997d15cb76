// The last decisions that were explained: where each request went, and why there.

import { byId, element } from "./dom.js";
import { count, seconds, tick } from "./format.js";

const SHOWN = 10;
let shown = "";

export function showDecisions({ decisions }) {
  const text = JSON.stringify(decisions);
  if (text === shown) return;
  shown = text;
  byId("no-decisions").hidden = decisions.length > 0;
  byId("decisions-table").hidden = !decisions.length;
  byId("decisions-rows").replaceChildren(...decisions.slice(0, SHOWN).map(row));
}

function row(decision) {
  const choice = decision.choices.at(-1);
  const time = new Date(decision.time * 1000);
  return element(
    "tr",
    { title: `request ${decision.request_id}` },
    element("td", {}, element("time", { datetime: time.toISOString() }, time.toLocaleTimeString())),
    element("td", {}, decision.choices.map((one) => one.worker).join(" → ") || "–"),
    element("td", { class: "why" }, choice ? why(decision, choice) : "nobody was there"),
    element("td", { class: "number" }, seconds(decision.ttft_seconds)),
    element("td", {}, decision.outcome || "runs"),
  );
}

function why(decision, { rows: [chosen, other], candidates, policy }) {
  if (!chosen) return policy;
  const held = `holds ${count(chosen.matched_tokens)} of ${count(decision.prompt_tokens)}`;
  if (candidates === 1) return `${held}; the only one`;
  if (chosen.score === null) return `${held}; by ${policy}, of ${candidates}`;
  return `${held}; score ${tick(chosen.score)}` + (other ? `, next ${tick(other.score)}` : "");
}
