// The router's server-sent events, read with fetch: an EventSource could not send a key.

import { askForKey, headers } from "./api.js";

const SHORTEST_PAUSE = 1000;
const LONGEST_PAUSE = 10000;
const SILENCE = 8000;

// Calls `on[event](body)` for every event, `on.lost()` when the stream breaks; connects again for ever.
export async function follow(path, on) {
  let pause = SHORTEST_PAUSE;
  for (;;) {
    try {
      const response = await open(path);
      if (response.status === 401) {
        if (await askForKey()) continue;
      } else if (response.ok) {
        await read(response.body.getReader(), (name, body) => {
          pause = SHORTEST_PAUSE;
          on[name]?.(body);
        });
      }
    } catch {
      // The router is away: that is what the pause is for.
    }
    on.lost();
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }
}

function open(path) {
  return fetch(path, { headers: headers(), cache: "no-store" });
}

async function read(reader, tell) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await orSilence(reader);
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [name, data] = event.split("\n");
      tell(name.slice("event: ".length), JSON.parse(data.slice("data: ".length)));
    }
  }
}

// A router that has lost its network sends nothing, not even an end.
async function orSilence(reader) {
  let timer;
  const silence = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("silence")), SILENCE);
  });
  try {
    return await Promise.race([reader.read(), silence]);
  } catch (error) {
    reader.cancel().catch(() => {});
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
