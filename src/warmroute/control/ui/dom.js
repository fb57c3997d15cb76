// The few things that every view does with the document. Text is always set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function drawing(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

// Sets text only when it is news: what does not change keeps its selection, and screen readers stay quiet.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function announce(text) {
  say(byId("announcer"), text);
}

// Shows what went wrong until it is dismissed.
export function complain(text) {
  say(byId("trouble-text"), text);
  byId("trouble").hidden = false;
  announce(text);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
