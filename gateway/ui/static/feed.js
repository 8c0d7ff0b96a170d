// The events of the gateway: read, and asked for again whenever they end.

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;
const SILENCE_MS = 6000; // an event comes each second

/**
 * Calls `on.state` with each event, `on.link` with "live" or "lost", and `on.refused` with why
 * nothing may be seen; then `resume(token)` tries again.
 */
export class Feed {
  #on;
  #token = sessionStorage.getItem("millstream-token") ?? "";
  #pause = FIRST_PAUSE_MS;

  constructor(on) {
    this.#on = on;
    this.#run();
  }

  /** What requests for changes send along. */
  get headers() {
    return this.#token ? { Authorization: `Bearer ${this.#token}` } : {};
  }

  resume(token) {
    this.#token = token;
    sessionStorage.setItem("millstream-token", token);
    this.#run();
  }

  async #run() {
    for (;;) {
      try {
        const refusal = await this.#listen();
        if (refusal) {
          this.#on.refused(refusal);
          return;
        }
      } catch {
        // The gateway is away, or was silent for too long: the next try tells.
      }
      this.#on.link("lost");
      await new Promise((wake) => setTimeout(wake, this.#pause));
      this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE_MS);
    }
  }

  async #listen() {
    const given = new AbortController();
    let timer = setTimeout(() => given.abort(), SILENCE_MS);
    try {
      const answer = await fetch("ui/events", { headers: this.headers, signal: given.signal });
      if (answer.status === 401 || answer.status === 403) {
        const { error } = await answer.json();
        return { status: answer.status, message: error.message };
      }
      if (!answer.ok) return null;
      this.#pause = FIRST_PAUSE_MS;
      let buffer = "";
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return null;
        clearTimeout(timer);
        timer = setTimeout(() => given.abort(), SILENCE_MS);
        buffer += value;
        for (let end; (end = buffer.indexOf("\n\n")) >= 0; buffer = buffer.slice(end + 2)) {
          this.#event(buffer.slice(0, end));
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }

  #event(block) {
    const lines = block.split("\n");
    if (!lines.includes("event: state")) return;
    const data = lines.find((line) => line.startsWith("data: "));
    if (!data) return;
    this.#on.link("live");
    try {
      this.#on.state(JSON.parse(data.slice(6)));
    } catch (bug) {
      reportError(bug); // it is drawn anew in a second
    }
  }
}
