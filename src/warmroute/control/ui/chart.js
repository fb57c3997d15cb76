// A line chart of the last 15 minutes: inline SVG for the eye, one sentence for a screen reader.

import { drawing, element, say } from "./dom.js";

const SPAN = 15 * 60;
const HEIGHT = 132;
const LEFT = 46;
const BOTTOM = 18;
const TOP = 6;

export class Chart {
  // `series`: [{key, name, tone, area, rare}], of which those that are `rare` are shown only when there is something;
  // `format` and `tick` make text of a value and of a mark of the scale; `atLeast` is the least top of the scale.
  constructor(figure, { title, series, format, tick = format, atLeast, top = niceTop }) {
    this.series = series;
    this.format = format;
    this.tick = tick;
    this.atLeast = atLeast;
    this.topOf = top;
    this.title = title;
    this.samples = [];
    this.keys = series.map(({ name, tone }) => element("span", { class: "key", "data-tone": tone }, name));
    this.svg = drawing("svg", { role: "img" });
    figure.append(element("figcaption", {}, element("h2", {}, title), ...this.keys), this.svg);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(figure);
  }

  show(samples, now) {
    this.samples = samples.filter((sample) => sample.time > now - SPAN);
    this.now = now;
    this.draw();
  }

  draw(at = null) {
    const width = this.svg.clientWidth;
    if (!width || this.now === undefined) return;
    const values = this.samples.flatMap((sample) => this.series.map(({ key }) => sample[key] ?? 0));
    this.top = this.topOf(Math.max(this.atLeast, ...values));
    this.width = width;
    const drawn = this.series.filter(({ key, rare }) => !rare || this.samples.some((sample) => sample[key]));
    this.series.forEach((one, index) => (this.keys[index].hidden = !drawn.includes(one)));
    const parts = [...this.grid(), ...drawn.flatMap((one) => this.trace(one))];
    const shown = at ?? this.samples.at(-1);
    if (at) parts.push(drawing("line", { class: "cursor", x1: this.x(at.time), x2: this.x(at.time), y1: TOP, y2: HEIGHT - BOTTOM }));
    this.svg.replaceChildren(...parts);
    this.series.forEach(({ key, name }, index) => say(this.keys[index], `${name} ${this.format(shown?.[key] ?? null)}`));
    const when = at ? ` ${Math.round((this.now - at.time) / 60)} min ago` : "";
    this.svg.setAttribute("aria-label", this.summary() + when);
  }

  summary() {
    const parts = this.series.map(({ key, name }) => {
      const known = this.samples.map((sample) => sample[key]).filter((value) => value !== null);
      if (!known.length) return `${name}: nothing measured`;
      const last = this.samples.at(-1)[key];
      return `${name}: now ${this.format(last)}, lowest ${this.format(Math.min(...known))}, highest ${this.format(Math.max(...known))}`;
    });
    return `${this.title}, last 15 minutes. ${parts.join(". ")}.`;
  }

  point(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    const near = this.samples.reduce((best, one) => (!best || Math.abs(this.x(one.time) - x) < Math.abs(this.x(best.time) - x) ? one : best), null);
    this.draw(near);
  }

  x(time) {
    return LEFT + (1 - (this.now - time) / SPAN) * (this.width - LEFT - 2);
  }

  y(value) {
    return TOP + (1 - value / this.top) * (HEIGHT - TOP - BOTTOM);
  }

  grid() {
    const lines = [0, this.top / 2, this.top].flatMap((value) => [
      drawing("line", { class: "grid", x1: LEFT, x2: this.width, y1: this.y(value), y2: this.y(value) }),
      drawing("text", { x: LEFT - 6, y: this.y(value) + 4, "text-anchor": "end" }, this.tick(value)),
    ]);
    const times = [15, 10, 5, 0].map((minutes) =>
      drawing(
        "text",
        { x: this.x(this.now - minutes * 60), y: HEIGHT - 2, "text-anchor": minutes === 15 ? "start" : minutes ? "middle" : "end" },
        minutes ? `−${minutes} min` : "now",
      ));
    return [...lines, ...times];
  }

  trace({ key, tone, area }) {
    const runs = [[]];
    for (const sample of this.samples) {
      if (sample[key] === null) runs.push([]);
      else runs.at(-1).push([this.x(sample.time), this.y(sample[key])]);
    }
    return runs.filter((run) => run.length).flatMap((run) => {
      const line = run.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
      // A lone point would be invisible: draw it as a dot.
      const trace = drawing("path", { class: "trace", "data-tone": tone, d: `M${line}${run.length === 1 ? "h.1" : ""}` });
      if (!area) return [trace];
      const floor = this.y(0);
      return [drawing("path", { class: "area", "data-tone": tone, d: `M${run[0][0]} ${floor}L${line}L${run.at(-1)[0]} ${floor}Z` }), trace];
    });
  }
}

// The next of 1, 2, 5 times a power of ten.
export function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((top) => top >= value * 0.999);
}
