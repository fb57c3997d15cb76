// Calls to the router. A key is kept in this tab only, and asked for when the router wants one.

import { byId } from "./dom.js";

const KEPT = "warmroute-admin-key";

export function headers() {
  const key = sessionStorage.getItem(KEPT);
  return key ? { authorization: `Bearer ${key}` } : {};
}

export async function get(path) {
  const response = await fetch(path, { headers: headers() });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

// Changes something. Resolves to the answer's body; rejects with the router's own words.
export async function post(path) {
  for (;;) {
    const response = await fetch(path, { method: "POST", headers: headers() });
    const body = await response.json().catch(() => ({}));
    if (response.ok) return body;
    const why = body.msg ?? body.error?.message ?? `The router answered ${response.status}.`;
    if (response.status !== 401 || !(await askForKey())) throw new Error(why);
  }
}

// Resolves to whether a key was given.
export function askForKey() {
  const dialog = byId("key-dialog");
  const input = byId("key-input");
  input.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const given = dialog.returnValue === "ok";
      if (given && input.value) sessionStorage.setItem(KEPT, input.value);
      else if (given) sessionStorage.removeItem(KEPT);
      resolve(given && input.value !== "");
    }, { once: true });
  });
}
