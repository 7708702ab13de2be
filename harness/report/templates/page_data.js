// The cells of the run, in columns.

class Cells {
  constructor(data) {
    this.count = data.count;
    this.ids = data.ids;
    this.kinds = data.kinds; // Whether there are cells of language models, and of others (tensor).
    this.phones = data.phones;
    this.texts = data.texts;
    this.figures = data.figures;
    this.fragments = data.fragments;
    this.ordinals = new Map();
  }

  word(name, row) {
    const column = this.texts[name];
    return column.words[column.values[row]];
  }

  figure(name, row) {
    return this.figures[name][row];
  }

  phone(row) {
    return this.phones[this.figures.phone[row]];
  }

  list(name, row) {
    const text = this.word(name, row);
    try {
      return text ? JSON.parse(text) : [];
    } catch {
      return null; // Cut, to keep the page small.
    }
  }

  isOk(row) {
    return this.word("verdict", row) === "ok";
  }

  rowOf(id) {
    return this.ids.findIndex((own) => (own && id.startsWith(own)) || (id.length >= 6 && own.startsWith(id)));
  }

  rowsOf(phone) {
    const rows = [];
    for (let row = 0; row < this.count; row += 1) if (this.figures.phone[row] === phone) rows.push(row);
    return rows;
  }

  // What rows are sorted by: numbers as they are, words by their place in the alphabet.
  key(name) {
    if (name === "phone") return this.placed("phone", this.phones, this.figures.phone);
    if (name in this.figures) return this.figures[name];
    return this.placed(name, this.texts[name].words, this.texts[name].values);
  }

  placed(name, words, values) {
    if (!this.ordinals.has(name)) {
      const order = words.map((_, place) => place);
      const compare = new Intl.Collator("en", { numeric: true }).compare;
      order.sort((one, other) => compare(words[one], words[other]));
      const rank = new Array(words.length);
      order.forEach((place, at) => (rank[place] = at));
      this.ordinals.set(name, values.map((place) => rank[place]));
    }
    return this.ordinals.get(name);
  }

  // Which rows have every word of a search somewhere among their texts.
  search(rows, wanted) {
    const searched = ["model", "backend", "numerics", "lengths", "extras", "verdict", "reason", "detail", "kind"];
    for (const word of wanted.toLowerCase().split(/\s+/).filter(Boolean)) {
      const hits = searched.map((name) => {
        const column = this.texts[name];
        return [column.values, column.words.map((own) => own.toLowerCase().includes(word))];
      });
      hits.push([this.figures.phone, this.phones.map((own) => own.toLowerCase().includes(word))]);
      rows = rows.filter(
        (row) => hits.some(([values, has]) => has[values[row]]) || this.ids[row].startsWith(word.replace(/^cell-/, "")),
      );
    }
    return rows;
  }
}
