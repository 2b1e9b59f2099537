// Which key does what. Keys typed into a field belong to the field.
const ACTIONS = { k: "keep", a: "accept", x: "unusable" };
const FIELDS = new Set(["INPUT", "SELECT", "TEXTAREA"]);

export function listen(handlers) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (FIELDS.has(event.target.tagName)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const run = handler(key, handlers);
    if (run && run() !== false) event.preventDefault();
  });
}

function handler(key, h) {
  if (key in ACTIONS) return () => h.decide(ACTIONS[key]);
  if (/^[0-9]$/.test(key)) return () => h.digit(Number(key));
  return {
    u: h.undo, g: h.toggle, c: h.choose, Enter: h.open, Escape: h.single,
    ArrowLeft: () => h.move(-1), ArrowRight: () => h.move(1),
    ArrowUp: () => h.row(-1), ArrowDown: () => h.row(1),
  }[key];
}
