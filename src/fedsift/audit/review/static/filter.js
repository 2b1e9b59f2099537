// Which samples are shown, and in which order.
import { $ } from "./dom.js";
import { isDecided } from "./store.js";

const KEYS = {
  score: (s) => s.score, confidence: (s) => -s.confidence, index: (s) => s.index,
  label: (s) => s.label, suggested: (s) => s.suggested, time: (s) => -s.time,
};
const byId = new Intl.Collator(undefined, { numeric: true }).compare;

export function passing(samples, blind) {
  const wanted = Object.fromEntries(
    ["search", "sort", "filter-decision", "filter-label", "filter-suggested", "filter-low", "filter-high"]
      .map((id) => [id, $(id).value]));
  const search = wanted.search.trim().toLowerCase(), decision = wanted["filter-decision"];
  const label = blind ? "" : wanted["filter-label"];
  const suggested = blind ? "" : wanted["filter-suggested"];
  const low = Number(wanted["filter-low"]), high = Number(wanted["filter-high"]);
  const found = samples.filter((s) => {
    if (search) {  // a search looks everywhere: what is looked for need not be suspicious
      if (!s.id.toLowerCase().includes(search) && String(s.index) !== search) return false;
    } else if (s.score < low || s.score > high) return false;
    if (label !== "" && s.label !== Number(label)) return false;
    if (suggested !== "" && s.suggested !== Number(suggested)) return false;
    if (decision === "") return true;
    if (decision === "decided") return isDecided(s);
    if (decision === "comment") return s.comment !== "";
    return s.state === decision;
  });
  if (wanted.sort === "score") return found;  // the server's order, by unrounded scores
  if (wanted.sort === "id") return found.sort((a, b) => byId(a.id, b.id));
  const key = KEYS[wanted.sort];
  return found.sort((a, b) => key(a) - key(b));
}
