// A table of cells: filtered, sorted, a page at a time.

const PAGE = 50;
const FILTERS = ["verdict", "reason", "phone", "model", "asked"];

class CellTable {
  // The root holds the table's head; a table of one phone has no filters.
  constructor(root, cells, rows) {
    Object.assign(this, { root, cells, all: rows, rows, page: 0, open: new Set(), target: -1, sorted: null });
    this.body = root.querySelector("tbody");
    this.filters = new Map();
    for (const name of ["q", ...FILTERS]) {
      const control = root.querySelector(`[data-filter="${name}"]`);
      if (!control) continue;
      this.filters.set(name, control);
      if (control.tagName === "SELECT") this.fill(control, name);
      control.addEventListener("input", () => this.filter());
    }
    root.querySelector("[data-reset]")?.addEventListener("click", () => this.reset());
    for (const button of root.querySelectorAll("[data-sort]")) button.addEventListener("click", () => this.sort(button));
    this.pager = root.querySelector(".pager");
    this.pager.querySelectorAll("button").forEach((button) =>
      button.addEventListener("click", () => this.turn(Number(button.dataset.turn))),
    );
    this.show();
  }

  fill(select, name) {
    const values = name === "phone" ? this.cells.figures.phone : this.cells.texts[name].values;
    const words = name === "phone" ? this.cells.phones : this.cells.texts[name].words;
    const counts = new Map();
    for (const row of this.all) counts.set(values[row], (counts.get(values[row]) || 0) + 1);
    const compare = new Intl.Collator("en", { numeric: true }).compare;
    const options = [...counts].filter(([place]) => words[place]).sort(([one], [other]) => compare(words[one], words[other]));
    for (const [place, count] of options) select.append(element("option", { value: place }, `${words[place]} (${count})`));
  }

  filter() {
    let rows = this.all;
    for (const [name, control] of this.filters) {
      if (name === "q" || control.value === "") continue;
      const values = name === "phone" ? this.cells.figures.phone : this.cells.texts[name].values;
      const wanted = Number(control.value);
      rows = rows.filter((row) => values[row] === wanted);
    }
    const wanted = this.filters.get("q")?.value.trim();
    if (wanted) rows = this.cells.search(rows, wanted);
    this.rows = rows;
    this.page = 0;
    this.order();
  }

  reset() {
    for (const control of this.filters.values()) control.value = "";
    this.filter();
  }

  // Set filters by the words that people see; a word that no cell has filters nothing.
  set(wanted) {
    for (const control of this.filters.values()) control.value = "";
    for (const [name, word] of wanted) {
      const control = this.filters.get(name);
      if (!control) continue;
      const words = name === "phone" ? this.cells.phones : this.cells.texts[name]?.words;
      control.value = name === "q" ? word : String(words.indexOf(word));
    }
    this.filter();
  }

  sort(button) {
    const head = button.closest("th");
    const falls = head.getAttribute("aria-sort") === "ascending";
    for (const other of this.root.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falls ? "descending" : "ascending");
    this.sorted = { name: button.dataset.sort, sign: falls ? -1 : 1 };
    this.page = 0;
    this.order();
  }

  order() {
    if (this.sorted) {
      const key = this.cells.key(this.sorted.name);
      const sign = this.sorted.sign;
      // What is unknown comes last either way.
      this.rows = [...this.rows].sort((one, other) => {
        const [a, b] = [key[one], key[other]];
        if (a === null || b === null) return (a === null) - (b === null) || one - other;
        return sign * (a - b) || one - other;
      });
    }
    this.show();
  }

  turn(by) {
    const last = Math.max(0, Math.ceil(this.rows.length / PAGE) - 1);
    this.page = Math.min(last, Math.max(0, by === 0 ? 0 : by === 9 ? last : this.page + by));
    this.show();
  }

  show() {
    const first = this.page * PAGE;
    const shown = this.rows.slice(first, first + PAGE);
    const toggle = (row) => this.toggle(row);
    this.body.replaceChildren(
      ...shown.flatMap((row) => {
        const isOpen = this.open.has(row);
        const line = cellRow(this.cells, row, { toggle, isOpen, isTarget: row === this.target });
        return isOpen ? [line, this.detail(row)] : [line];
      }),
    );
    const total = this.rows.length;
    const of = total === this.all.length ? plural(total, "cell") : `${plural(total, "cell")} of ${this.all.length}`;
    this.root.querySelector(".count").textContent = total > PAGE ? `${first + 1} to ${first + shown.length} of ${of}` : total ? of : "No cell matches these filters.";
    const last = Math.max(0, Math.ceil(total / PAGE) - 1);
    this.pager.hidden = last === 0;
    for (const button of this.pager.querySelectorAll("button")) {
      const by = Number(button.dataset.turn);
      button.disabled = by === 0 || by === -1 ? this.page === 0 : this.page === last;
    }
  }

  detail(row) {
    const columns = this.root.querySelectorAll("thead th").length;
    return element("tr", { class: "opened" }, element("td", { colspan: columns }, cellDetail(this.cells, row)));
  }

  toggle(row) {
    if (!this.open.delete(row)) this.open.add(row);
    this.show();
    this.button(row)?.focus();
  }

  button(row) {
    return this.body.querySelector(`[data-cell="${CSS.escape(this.cells.ids[row])}"] button`);
  }

  // Bring a cell into view, whatever page or filter hides it.
  reveal(row) {
    if (!this.rows.includes(row)) this.reset();
    this.page = Math.floor(this.rows.indexOf(row) / PAGE);
    this.target = row;
    this.open.add(row);
    this.show();
    const button = this.button(row);
    button.closest("tr").scrollIntoView({ block: "start" });
    button.focus({ preventScroll: true });
  }
}
