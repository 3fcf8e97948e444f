// What a report's page does once it is there: sort, filter, dark or light. Without it the page is whole all the same.
"use strict";

// Rows beyond these are in the table once somebody scrolls to them, or prints.
const CHUNK = 200;

// With fewer rows everything is seen at once.
const FILTERED_FROM = 4;

const SCALES = {
  ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, min: 60e9, h: 3600e9,
  b: 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12, k: 1e3, m: 1e6, g: 1e9, t: 1e12, "%": 0.01, "/s": 1, "": 1,
};

const collator = new Intl.Collator("en", { numeric: true });

function element(name, attributes, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

// ">1.5 s", "<= 3%": what a figure must be; null where the words are no such condition.
function condition(words) {
  const found = /^(<=|>=|<|>|=)\s*(-?[\d.,]*\d(?:e[+-]?\d+)?)\s*([a-zµ%/]*)$/i.exec(words);
  if (!found) return null;
  const scale = SCALES[found[3].toLowerCase()];
  const value = Number(found[2].replaceAll(",", "")) * scale;
  return Number.isFinite(value) ? { sign: found[1], value } : null;
}

// Whether a figure surely is so: of a bound only one side is known, and what is missing is nothing.
function holds(cell, { sign, value }) {
  if (cell.dataset.v === undefined) return false;
  const figure = Number(cell.dataset.v);
  const bound = cell.dataset.bound;
  if (bound && !(sign.startsWith(bound === "at_least" ? ">" : "<"))) return false;
  switch (sign) {
    case "<": return figure < value;
    case "<=": return figure <= value;
    case ">": return figure > value;
    case ">=": return figure >= value;
    default: return figure === value;
  }
}

function testOf(words, kind) {
  words = words.trim();
  if (words === "") return null;
  const wanted = kind === "number" ? condition(words) : null;
  if (wanted) return (cell) => holds(cell, wanted);
  const low = words.toLowerCase();
  return (cell) => cell.textContent.toLowerCase().includes(low);
}

class DataTable {
  constructor(table) {
    this.table = table;
    this.body = table.tBodies[0];
    this.rows = [...this.body.rows];
    this.rows.forEach((row, at) => row.setAttribute("aria-rowindex", at + 2));
    this.heads = [...table.tHead.rows[0].cells];
    this.order = this.rows.map((_, at) => at);
    this.shown = this.order;
    this.sorted = { column: -1, down: false };
    this.keys = new Map();
    this.texts = null;
    this.scroll = table.closest(".scroll");
    this.name = table.caption.textContent;
    this.heads.forEach((head, at) => this.makeSortable(head, at));
    if (this.rows.length >= FILTERED_FROM) this.makeFilters();
    this.more = element("button", { type: "button", class: "more" }, "Show more rows");
    this.more.addEventListener("click", () => this.append());
    this.scroll.append(this.more);
    new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting)) this.append(); },
      { root: this.scroll, rootMargin: "400px" }).observe(this.more);
    this.draw();
  }

  makeSortable(head, at) {
    const button = element("button", { type: "button" }, head.firstElementChild.textContent);
    head.firstElementChild.replaceWith(button);
    button.addEventListener("click", () => this.sort(at));
  }

  makeFilters() {
    this.search = element("input", { type: "search", "aria-label": `Filter ${this.name} by text`, placeholder: "text in any column" });
    this.count = element("p", { class: "count", role: "status" });
    this.scroll.before(element("div", { class: "tools" }, this.search, this.count));
    const line = element("tr", { class: "filters" });
    this.filters = this.heads.map((head, at) => {
      const title = head.querySelector("button").textContent;
      const input = this.choices(at, head.dataset.kind) ?? element("input",
        { type: "search", placeholder: head.dataset.kind === "number" ? "> 1.5" : "text" });
      input.setAttribute("aria-label", `Filter by ${title}`);
      if (head.dataset.kind === "number") input.title = "> 1.5, <= 200 ms, or a part of what is shown";
      line.append(element("td", { class: head.dataset.kind }, input));
      input.addEventListener(input.tagName === "SELECT" ? "change" : "input", () => this.draw());
      return input;
    });
    this.table.tHead.append(line);
    this.search.addEventListener("input", () => this.draw());
  }

  // A list to choose from where a column of text has only a few.
  choices(at, kind) {
    if (kind === "number" || this.rows.length < 8) return null;
    const found = new Set();
    for (const row of this.rows) {
      found.add(row.cells[at].textContent);
      if (found.size > 12) return null;
    }
    if (found.size < 2) return null;
    const list = element("select", {}, element("option", { value: "" }, "all"));
    list.append(...[...found].filter((text) => text.trim()).sort(collator.compare).map((text) => element("option", { value: text }, text)));
    return list;
  }

  keysOf(column) {
    if (!this.keys.has(column)) {
      const number = this.heads[column].dataset.kind === "number";
      this.keys.set(column, this.rows.map((row) => {
        const cell = row.cells[column];
        if (number) return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
        return cell.classList.contains("missing") ? null : cell.textContent || null;
      }));
    }
    return this.keys.get(column);
  }

  sort(column) {
    const down = this.sorted.column === column && !this.sorted.down;
    const keys = this.keysOf(column);
    const number = this.heads[column].dataset.kind === "number";
    const turn = down ? -1 : 1;
    this.order = this.rows.map((_, at) => at).sort((one, other) => {
      const [a, b] = [keys[one], keys[other]];
      // What is missing stands last whichever way.
      if (a === null || b === null) return (a === null) - (b === null) || one - other;
      return turn * (number ? a - b : collator.compare(a, b)) || one - other;
    });
    this.sorted = { column, down };
    this.heads.forEach((head, at) => {
      if (at === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.draw();
  }

  matching() {
    if (!this.filters) return this.order;
    const tests = this.filters.map((input, at) => {
      if (input.tagName === "SELECT") return input.value === "" ? null : (cell) => cell.textContent === input.value;
      return testOf(input.value, this.heads[at].dataset.kind);
    });
    const words = this.search.value.trim().toLowerCase();
    if (words) this.texts ??= this.rows.map((row) => [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase());
    return this.order.filter((at) =>
      (!words || this.texts[at].includes(words)) && tests.every((test, column) => !test || test(this.rows[at].cells[column])));
  }

  draw() {
    this.shown = this.matching();
    this.drawn = 0;
    this.body.replaceChildren();
    this.append();
    if (this.count) {
      const all = this.rows.length.toLocaleString("en");
      this.count.textContent = this.shown.length === this.rows.length ? `${all} rows` : `${this.shown.length.toLocaleString("en")} of ${all} rows`;
    }
    this.scroll.scrollTop = 0;
  }

  append(most = CHUNK) {
    const next = this.shown.slice(this.drawn, this.drawn + most).map((at) => this.rows[at]);
    next.forEach((row, at) => row.setAttribute("aria-rowindex", this.drawn + at + 2));
    this.body.append(...next);
    this.drawn += next.length;
    this.more.hidden = this.drawn >= this.shown.length;
  }
}

function makeThemes() {
  const names = ["auto", "dark", "light"];
  const root = document.documentElement;
  let kept = null;
  try { kept = localStorage.getItem("proofcost-theme"); } catch { /* a browser that keeps nothing of a file */ }
  const list = element("select", { "aria-label": "Colours", id: "theme-choice" },
    ...names.map((name) => element("option", { value: name }, name === "auto" ? "as the system" : name)));
  const apply = (name) => {
    if (name === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", name);
    list.value = name;
  };
  apply(names.includes(kept) ? kept : "auto");
  list.addEventListener("change", () => {
    apply(list.value);
    try { localStorage.setItem("proofcost-theme", list.value); } catch { /* see above */ }
  });
  document.getElementById("theme").append(element("label", {}, "colours ", list));
}

makeThemes();
const tables = [...document.querySelectorAll("table.data")].map((table) => new DataTable(table));
window.addEventListener("beforeprint", () => tables.forEach((table) => table.append(Infinity)));
