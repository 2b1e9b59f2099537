// The samples, and what was decided on them. A reply of the server carries all decisions since the
// last one that this tab has seen, also those of other tabs and people.
import { toast } from "./dom.js";

export const tab = sessionStorage.tab ?? (sessionStorage.tab = crypto.randomUUID());
export const store = { classes: [], images: false, samples: [], by: "", sequence: 0 };
const byIndex = new Map(), details = new Map();
const others = new BroadcastChannel("fedsift-review");
let changed = () => {};

export const find = (index) => byIndex.get(index);
export const isDecided = (sample) => sample.state !== "none" && sample.state !== "skip";

export async function load(onChange) {
  const loaded = await (await fetch("/api/samples")).json();
  const columns = Object.entries(loaded.samples);
  Object.assign(store, { classes: loaded.classes, images: loaded.images });
  store.samples = loaded.samples.index.map((_, n) => ({
    ...Object.fromEntries(columns.map(([name, values]) => [name, values[n]])),
    version: 0, state: "none", now: null, comment: "", by: "", time: 0, draft: null,
  }));
  store.samples.forEach((sample) => byIndex.set(sample.index, sample));
  store.by = sessionStorage.by ?? loaded.start.by;
  take(loaded);
  changed = onChange;
  others.onmessage = refresh;
  addEventListener("focus", refresh);
  return loaded.start;
}

function take(news) {
  const touched = [];
  for (const d of news.decisions) {
    const sample = byIndex.get(d.index);
    if (d.version <= sample.version) continue;
    Object.assign(sample, {
      version: d.version, state: d.action, now: d.label, comment: d.comment, by: d.by, time: d.time });
    touched.push(sample);
  }
  store.sequence = Math.max(store.sequence, news.sequence);
  if (touched.length) changed(touched);
  document.body.dataset.sequence = store.sequence;
}

export async function refresh() {
  try {
    take(await (await fetch(`/api/changes?since=${store.sequence}`)).json());
  } catch { /* the next decision says that the server is gone */ }
}

export async function post(path, body) {
  let answer;
  try {
    answer = await fetch(path, { method: "POST", body: JSON.stringify(
      { ...body, tab, by: store.by, since: store.sequence }) });
  } catch {
    toast("Not saved: the review has been stopped. Start it again and reload.");
    throw new Error("no server");
  }
  const value = await answer.json();
  if (value.error) toast(value.error);
  if (value.decisions) {
    take(value);
    others.postMessage("changed");
  }
  return value;
}

// Saves one decision on some samples; returns those that were saved.
export async function decide(samples, action, label = null, comment = null) {
  const free = samples.filter((sample) => !sample.busy);
  if (!free.length) return [];
  free.forEach((sample) => { sample.busy = true; });
  try {
    const asked = free.map((sample) => [sample.index, sample.version]);
    const value = await post("/api/decide", { samples: asked, action, label, comment });
    if (value.stale?.length) {
      toast(value.stale.length === 1 ? "Decided by someone else or in another tab; check it again."
        : `${value.stale.length} were decided by someone else meanwhile; check them again.`);
    }
    return (value.saved ?? []).map(find);
  } finally {
    free.forEach((sample) => { sample.busy = false; });
  }
}

export async function undo() {
  return ((await post("/api/undo", {})).undone ?? []).map(find);
}

// Fields, probable classes and neighbours of a sample, fetched once.
export function detail(sample) {
  if (!details.has(sample.index)) {
    if (details.size > 200) details.clear();
    details.set(sample.index, fetch(`/sample/${sample.index}`).then((answer) => answer.json()));
  }
  return details.get(sample.index);
}
