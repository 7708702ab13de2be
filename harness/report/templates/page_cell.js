// One cell: its row in a table, and all that is known of it.

const UNKNOWN = "—";

function whyUnknown(cells, row, key, section, of) {
  const kind = cells.word("kind", row) === "tensor" ? "tensor" : "language";
  if (of === "tensor" && kind === "language") return "only of models that are no language models";
  const wanted = [key, key.split(".")[0], section];
  const pairs = cells.word("nulls", row).split("\n").map((pair) => pair.split(/: (.*)/s));
  for (const name of wanted) {
    const found = pairs.find(([own]) => own === name);
    if (found) return found[1];
  }
  return "no reason was recorded";
}

function figureCell(cells, row, column, show = number) {
  const value = cells.figure(column.name, row);
  if (value === null) {
    const why = whyUnknown(cells, row, column.path, column.section, column.of);
    return element("td", { class: "n" }, element("span", { class: "unknown", title: why }, UNKNOWN));
  }
  const spread = column.spread ? cells.figure(column.spread, row) : null;
  const shown = [show(value), spread === null ? "" : element("small", {}, ` ± ${number(spread)}`)];
  if (cells.isOk(row)) return element("td", { class: "n" }, ...shown);
  return element("td", { class: "n" }, element("s", { class: "refused", title: "refused, not a result" }, ...shown));
}

// In the order of the table's head; those of a kind of cells that the run does not have are left out.
const FIGURES = [
  { name: "ttft", path: "ttft_ms", section: "metrics", of: "language" },
  { name: "prefill", path: "prefill_tps", section: "metrics", spread: "prefill_mad", of: "language" },
  { name: "decode", path: "decode_tps", section: "metrics", spread: "decode_mad", of: "language" },
  { name: "latency", path: "latency_ms", section: "metrics", show: fine, of: "tensor" },
  { name: "latency_p90", path: "latency_ms.p90", section: "metrics", show: fine, of: "tensor" },
  { name: "cosine", path: "tensors", section: "output", show: cosine, of: "tensor" },
  { name: "load", path: "load_ms", section: "metrics" },
  { name: "rss", path: "peak_rss_bytes", section: "metrics", show: mebibytes },
  { name: "max_c", path: "max_c", section: "thermal", show: (value) => value.toFixed(1) },
];

function cellRow(cells, row, { toggle, isOpen, isTarget }) {
  const id = cells.ids[row];
  const verdict = cells.word("verdict", row);
  const button = element(
    "button",
    { type: "button", class: "opens", "aria-expanded": String(isOpen), "aria-label": `all about cell ${id}` },
  );
  button.addEventListener("click", () => toggle(row));
  const backend = cells.word("backend", row);
  const extras = cells.word("extras", row);
  const reason = cells.word("reason", row);
  return element(
    "tr",
    { class: `${verdict}${isTarget ? " target" : ""}`, "data-cell": id },
    element("th", { scope: "row" }, button, element("bdi", {}, cells.phone(row))),
    element("td", { class: "wide" }, element("bdi", {}, cells.word("model", row)), extras && element("small", { class: "below" }, extras)),
    element("td", { class: backend.includes("→") ? "moved" : false }, backend),
    element("td", { class: "n" }, String(cells.figure("threads", row))),
    element("td", {}, cells.word("numerics", row)),
    ...(cells.kinds.language ? [element("td", { class: "n" }, cells.word("lengths", row) || UNKNOWN)] : []),
    ...FIGURES.filter(({ of }) => !of || cells.kinds[of]).map((column) => figureCell(cells, row, column, column.show)),
    element("td", { class: "verdict" }, badge(verdict), reason && element("small", { class: "below" }, code(reason))),
  );
}

// On a GPU MNN takes that number as a mode mask.
function threadsLabel(cells, row) {
  const count = cells.figure("threads", row);
  return cells.word("asked", row) === "CPU" ? plural(count, "thread") : `mode ${count}`;
}

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return element("dl", { class: "facts" }, ...shown.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function part(title, ...content) {
  return element("div", { class: "part" }, element("h4", {}, title), ...content);
}

function measuredFacts(cells, row) {
  const of = (name) => (name in cells.figures ? cells.figure(name, row) : null);
  const span = (name) => (of(`${name}_low`) === null ? "" : `, 95 % interval ${number(of(`${name}_low`))} to ${number(of(`${name}_high`))}`);
  const speed = (name) =>
    of(name) === null ? null : `${number(of(name))} ± ${number(of(`${name}_mad`))} tok/s${span(name)}, median of ${of(`${name}_n`)}`;
  const told = (name, show) => (of(name) === null ? null : show(of(name)));
  const ms = (value) => `${number(value)} ms`;
  const degrees = (value) => `${value.toFixed(1)} °C`;
  const share = (value) => `${value.toFixed(1)} %`;
  const few = (value) => `${fine(value)} ms`;
  return [
    ["latency p50", of("latency") === null ? null : `${few(of("latency"))}, of ${plural(of("latency_n"), "inference")}`],
    ["latency p90", told("latency_p90", few)],
    ["latency p99", told("latency_p99", few)],
    ["decode", speed("decode")],
    ["prefill", speed("prefill")],
    ["TTFT p50", told("ttft", ms)],
    ["TTFT p90", told("ttft_p90", ms)],
    ["load, caches warm", told("load", ms)],
    ["load, caches cold", told("load_cold", ms)],
    ["first use", told("first_use", ms)],
    ["peak RSS", told("rss", mebibytes)],
    ["peak GPU memory", told("gpu", mebibytes)],
    ["least free memory", told("free", mebibytes)],
    ["of the memory's limit", told("roof", share)],
    ["at the start", told("start_c", degrees)],
    ["hottest", told("max_c", degrees)],
    ["lowest clock cap", told("clock", share)],
    ["burst", told("burst", (value) => `${number(value)} tok/s`)],
    ["sustained", told("sustained", (value) => `${number(value)} tok/s`)],
    ["sustained ÷ burst", told("sustained_ratio", share)],
    ["onset", told("onset", (value) => `${number(value)} s`)],
  ];
}

function answerList(cells, row) {
  const answers = cells.list("answers", row);
  if (answers === null) return [element("p", { class: "about" }, "Too long for this page: see results.jsonl or the raw files.")];
  if (!answers.length) {
    const said = cells.word("text", row);
    return said ? [element("p", { class: "about" }, "no question was asked; the timed text is"), text(said)].flat() : [];
  }
  return answers.map(([question, said, expected, right]) =>
    element(
      "div",
      { class: `answer ${right ? "right" : "wrong-answer"}` },
      element("div", { class: "question" }, text(question, 160)),
      element("div", { class: "said" }, said ? text(said) : element("i", {}, "no text")),
      element("div", { class: "judged" }, element("b", {}, right ? "right" : "wrong"), ", expected ", text(expected, 80)),
    ),
  );
}

function findingList(cells, row) {
  const findings = cells.list("findings", row);
  if (findings === null) return [element("p", { class: "about" }, "Too long for this page: see results.jsonl or the raw files.")];
  return findings.map(([severity, name, title, cause, evidence, advice]) =>
    element(
      "div",
      { class: "finding" },
      element("p", {}, element("b", {}, `${severity}: `), text(title, 400), " ", element("code", {}, name)),
      cause && element("p", {}, text(cause, 1000)),
      evidence && element("div", { class: "evidence" }, text(evidence, 1000)),
      advice && element("p", {}, text(advice, 1000)),
    ),
  );
}

function cellDetail(cells, row) {
  const word = (name) => cells.word(name, row);
  const id = cells.ids[row];
  const parts = [];
  if (!cells.isOk(row)) {
    parts.push(part("Why it is no result", element("p", {}, badge(word("verdict")), " ", word("says"), " ", code(word("reason"))), word("detail") && element("div", { class: "detail" }, text(word("detail"), 600))));
  }
  const findings = findingList(cells, row);
  if (findings.length) parts.push(part("Findings", ...findings));
  const measured = measuredFacts(cells, row);
  if (measured.some(([, value]) => value)) {
    parts.push(part(cells.isOk(row) ? "Measured" : "Seen, refused", facts(measured)));
  }
  if (cells.kinds.tensor && word("kept")) {
    parts.push(part("Accuracy kept", element("p", {}, text(word("kept"), 600)), element("p", { class: "about" }, "against ", text(word("kept_by"), 300))));
  }
  const answers = answerList(cells, row);
  if (answers.length) parts.push(part(`Text${word("golden") ? `, ${word("golden")} right` : ""}`, ...answers));
  parts.push(
    part(
      "Where this comes from",
      facts([
        ["configuration", [word("backend"), threadsLabel(cells, row), word("numerics"), word("lengths") && `${word("lengths")} tokens`, word("extras")].filter(Boolean).join(" · ")],
        ["cell", element("a", { href: `#cell-${id}` }, id)],
        ["raw files", word("raw") ? element("a", { href: word("raw") }, word("raw")) : "none were kept"],
        ["started", `${word("started").replace("T", " ").replace("Z", " UTC")}, attempt ${cells.figure("attempt", row)}`],
        ["proof of backend", word("strength") && element("span", {}, `${word("strength")}: `, ...[text(word("proof"), 300)].flat())],
        ["text compared", word("match") && `${word("match")}, with ${word("reference") || "no reference"}`],
        ["model", element("code", {}, word("model_hash"))],
        ["device binaries", element("span", {}, `${word("bundle")}, ${word("runner")} `, element("code", {}, word("bundle_hash")))],
        ["mnn-farm", word("version")],
      ]),
    ),
  );
  const nulls = word("nulls");
  if (nulls) {
    const lines = nulls.split("\n").map((pair) => element("li", {}, pair));
    parts.push(element("details", {}, element("summary", {}, "What is not known, and why"), element("ul", {}, ...lines)));
  }
  return element("div", { class: "cell-detail" }, ...parts);
}
