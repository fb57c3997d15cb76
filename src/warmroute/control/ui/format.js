// Numbers as people read them: three digits and a unit.

const NONE = "–";

export function count(value) {
  if (value === null || value === undefined) return NONE;
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size) return digits(value / size) + unit;
  }
  return Number.isInteger(value) ? String(value) : digits(value);
}

export function rate(value) {
  if (value === null || value === undefined) return NONE;
  return value >= 1000 ? count(value) : value >= 100 ? value.toFixed(0) : value.toFixed(1);
}

// For a scale: no more digits than the number has.
export function tick(value) {
  return value >= 1000 ? count(value) : String(Number(value.toPrecision(3)));
}

export function share(value) {
  return value === null || value === undefined ? NONE : `${Math.round(value * 100)} %`;
}

export function seconds(value) {
  if (value === null || value === undefined) return NONE;
  if (value < 1) return `${Math.max(1, Math.round(value * 1000))} ms`;
  return `${digits(value)} s`;
}

export function age(value) {
  const minutes = Math.floor(value / 60);
  const hours = Math.floor(minutes / 60);
  if (minutes < 1) return `${Math.floor(value)} s`;
  if (hours < 1) return `${minutes} min`;
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

export function plural(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

function digits(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
