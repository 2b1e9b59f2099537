// Which key does what. Keys typed into a field or a dialog belong to it.
const ACTIONS = { k: "keep", a: "accept", x: "unusable", s: "skip" };
const FIELDS = new Set(["INPUT", "SELECT", "TEXTAREA"]);

export function listen(handlers) {
  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]")) return;
    const field = event.target;
    const typing = FIELDS.has(field.tagName) && field.type !== "checkbox";
    if (typing && !field.closest("dialog")) {
      if (event.key === "Escape") field.blur();
      if (event.key === "Enter" && event.ctrlKey && field.id === "comment") handlers.saveComment();
      return;
    }
    if (event.ctrlKey || event.metaKey) {
      if (event.key.toLowerCase() === "a" && handlers.selectAll()) event.preventDefault();
      return;
    }
    if (event.altKey) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const run = handler(key, handlers, event);
    if (run && run() !== false) event.preventDefault();
  });
}

function handler(key, h, event) {
  if (key in ACTIONS) return () => h.decide(ACTIONS[key]);
  if (/^[0-9]$/.test(key)) return () => h.digit(key);
  return {
    u: h.undo, g: h.toggle, c: h.choose, n: h.comment, "/": h.search, "?": h.help,
    Enter: h.open, Escape: h.leave, " ": () => h.select(event.shiftKey),
    "+": () => h.zoom(1), "-": () => h.zoom(-1), "=": () => h.zoom(0),
    ArrowLeft: () => h.move(-1), ArrowRight: () => h.move(1),
    ArrowUp: () => h.row(-1), ArrowDown: () => h.row(1),
  }[key];
}
