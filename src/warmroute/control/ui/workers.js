// The worker cards. A card stays the same element as long as its worker is there, so that focus stays where it is.

import { post } from "./api.js";
import { announce, byId, complain, element, say } from "./dom.js";
import { count, plural, seconds, share } from "./format.js";

const TONES = { healthy: "good", starting: "quiet", paused: "held", draining: "held", unhealthy: "bad", gone: "bad" };
const FILTERS = { all: () => true, serving: (worker) => worker.can_be_chosen, others: (worker) => !worker.can_be_chosen };
const FILTER_NAMES = { all: "All", serving: "Serving", others: "Not serving" };
const MANY = 16;
const ROLE_NAMES = { mixed: "", prefill: "Prefill", decode: "Decode" };

export class Workers {
  constructor() {
    this.cards = new Map();
    this.groups = new Map();
    this.filter = "all";
    this.filters = new Map(Object.keys(FILTERS).map((name) => [name, this.addFilter(name)]));
    say(byId("add-command"), [
      `warmroute serve --port ${location.port || 80} --worker http://engine:8000`,
      `curl ${location.origin}/workers -d '{"url": "http://engine:8000"}'`,
    ].join("\n"));
  }

  show(workers) {
    const known = new Set(workers.map((worker) => worker.id));
    for (const [id, card] of this.cards) if (!known.has(id)) this.remove(id, card);
    for (const worker of workers) this.card(worker).show(worker);
    for (const [name, { label, input }] of this.filters) {
      const number = workers.filter(FILTERS[name]).length;
      say(label, `${FILTER_NAMES[name]} ${number}`);
      input.parentElement.hidden = !number && name !== this.filter && name !== "all";
    }
    for (const worker of workers) this.cards.get(worker.id).root.hidden = !FILTERS[this.filter](worker);
    byId("groups").toggleAttribute("data-many", workers.length > MANY);
    say(byId("engines"), [...new Set(workers.map((worker) => worker.dialect).filter(Boolean))].join(", "));
    byId("no-workers").hidden = workers.length > 0;
    byId("filters").hidden = !workers.length;
    this.last = workers;
  }

  addFilter(name) {
    const input = element("input", { type: "radio", name: "filter", value: name, ...(name === "all" ? { checked: "" } : {}) });
    const label = element("span");
    input.addEventListener("change", () => {
      this.filter = name;
      this.show(this.last);
      announce(`${plural(this.last.filter(FILTERS[name]).length, "worker")} shown`);
    });
    byId("filters").append(element("label", {}, input, label));
    return { input, label };
  }

  card(worker) {
    const known = this.cards.get(worker.id);
    if (known && known.role === worker.role) return known;
    if (known) this.remove(worker.id, known);
    const card = new Card(worker);
    const list = this.list(worker.role);
    const after = [...list.children].find((other) => other.dataset.worker > worker.id);
    list.insertBefore(card.root, after ?? null);
    this.cards.set(worker.id, card);
    return card;
  }

  list(role) {
    if (!this.groups.has(role)) {
      const name = ROLE_NAMES[role];
      const list = element("ul", { class: "cards", ...(name ? { "aria-label": `${name} workers` } : {}) });
      this.groups.set(role, list);
      byId("groups").append(...(name ? [element("p", { class: "role", "aria-hidden": "true" }, name)] : []), list);
    }
    return this.groups.get(role);
  }

  remove(id, card) {
    card.root.remove();
    this.cards.delete(id);
  }
}

class Card {
  constructor({ id, role }) {
    this.role = role;
    this.state = element("span", { class: "badge" });
    this.more = element("span", { class: "note" });
    this.button = element("button", { type: "button" });
    this.bar = element("div", { class: "bar" });
    this.figures = {};
    const list = element("dl");
    for (const [key, label] of [["running", "Running"], ["pending", "Pending"], ["hit", "Hits"], ["ttft", "TTFT"]]) {
      this.figures[key] = element("dd");
      list.append(element("div", {}, element("dt", {}, label), this.figures[key]));
    }
    this.root = element("li", { class: "card", "data-worker": id }, element("h3", { title: id }, id), element("div", { class: "what" }, this.state, this.more, this.button), list, this.bar);
    this.button.addEventListener("click", () => this.turn(id));
  }

  show(worker) {
    say(this.state, worker.state);
    this.state.dataset.tone = this.root.dataset.tone = tone(worker);
    say(this.more, worker.stuck ? "stuck" : worker.breaker === "closed" ? "" : `breaker ${worker.breaker.replace("_", " ")}`);
    this.root.title = `${worker.dialect ?? "unknown engine"}, ${worker.models.join(", ") || "no models told"}`;
    say(this.figures.running, count(worker.running));
    say(this.figures.pending, count(worker.pending_prefill_tokens));
    say(this.figures.hit, share(worker.hit_share));
    say(this.figures.ttft, seconds(worker.ttft_seconds));
    this.bar.style.width = `${100 * (worker.hit_share ?? 0)}%`;
    this.root.toggleAttribute("data-idle", !worker.running && worker.hit_share === null);
    this.draining = worker.state === "draining";
    say(this.button, this.draining ? "Undrain" : "Drain");
    this.button.setAttribute("aria-label", `${this.button.textContent} ${worker.id}`);
  }

  async turn(id) {
    const verb = this.draining ? "undrain" : "drain";
    this.button.disabled = true;
    try {
      await post(`workers/${encodeURIComponent(id)}/${verb}`);
      announce(verb === "drain" ? `${id} gets no new requests` : `${id} gets requests again`);
    } catch (error) {
      complain(`${id}: ${error.message}`);
    } finally {
      this.button.disabled = false;
      this.button.focus();
    }
  }
}

function tone(worker) {
  if (worker.stuck) return "bad";
  if (worker.breaker !== "closed") return worker.breaker === "open" ? "bad" : "held";
  return TONES[worker.state] ?? "quiet";
}
