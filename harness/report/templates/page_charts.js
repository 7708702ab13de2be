// Charts of one phone, of its ok cells only. Plotly is unpacked when the first of them comes into view.

let plotly = null;

function loadPlotly() {
  // The policy of this page knows the script by its hash: nothing else would run.
  plotly ??= unpack("plotly").then((source) => {
    document.head.append(element("script", {}, source));
    return window.Plotly;
  });
  return plotly;
}

const COLOURS = ["#0f7fc0", "#d9660f", "#0f9d76", "#c05a9e", "#a88a00", "#7a6fd0", "#3aa0b5", "#b0563f"];
const MOST_LINES = 8;
const [PLOT, FOOT, LINE] = [260, 52, 20];

function escaped(value) {
  return value.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

// The legend stands below, a line for each trace, and takes no room from the plot.
function layout(x, y, traces, more = {}) {
  const axis = { zeroline: false, showline: true, ticks: "outside", fixedrange: true };
  return {
    template: "none",
    height: PLOT + FOOT + LINE * traces,
    margin: { l: 60, r: 12, t: 8, b: FOOT + LINE * traces },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12 },
    showlegend: true,
    legend: { yref: "container", y: 0, yanchor: "bottom", x: 0, xanchor: "left" },
    hovermode: "closest",
    xaxis: { ...axis, title: { text: x }, showgrid: false, ...more },
    yaxis: { ...axis, title: { text: y }, rangemode: "tozero" },
  };
}

function draw(holder, figure) {
  const watcher = new IntersectionObserver(
    async (seen) => {
      if (!seen.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      try {
        const library = await loadPlotly();
        holder.textContent = "";
        await library.newPlot(holder, figure.data, figure.layout, { displayModeBar: false, responsive: true });
        // A point leads to its cell, and with it to its raw files.
        holder.on("plotly_click", ({ points: [point] }) => {
          if (point.customdata) location.hash = `cell-${point.customdata}`;
        });
      } catch {
        holder.textContent = "This browser cannot unpack the charts; their figures are in the tables.";
      }
    },
    { rootMargin: "300px" },
  );
  watcher.observe(holder);
}

// Rows that differ in `along` alone, each as one line; a line needs two different values.
function linesAlong(cells, rows, along, without) {
  const groups = new Map();
  for (const row of rows) {
    const names = ["model", "backend", "numerics", "lengths", "kind", "extras", "bundle"].filter((name) => name !== without);
    const words = names.map((name) => cells.word(name, row));
    const others = along === "threads" ? [] : [threadsLabel(cells, row)];
    const key = [...words, ...others].join("\u0000");
    if (!groups.has(key)) groups.set(key, { words: [...words, ...others], rows: [] });
    groups.get(key).rows.push(row);
  }
  const lines = [...groups.values()].filter(({ rows: own }) => new Set(own.map((row) => cells.figure(along, row))).size > 1);
  for (const line of lines) line.rows.sort((one, other) => cells.figure(along, one) - cells.figure(along, other));
  return lines;
}

// The words that tell lines apart; the same in all lines is not worth saying.
function names(lines) {
  const varying = lines[0].words.map((word, at) => lines.some((line) => line.words[at] !== word));
  return lines.map((line) => line.words.filter((word, at) => varying[at] && word).join(" · ") || line.words.slice(0, 3).join(" · "));
}

function errorBars(cells, rows, name) {
  const arm = (row, end, sign) => {
    const value = cells.figure(`${name}_${end}`, row);
    return value === null || value === undefined ? 0 : Math.max(0, sign * (value - cells.figure(name, row)));
  };
  return { type: "data", array: rows.map((row) => arm(row, "high", 1)), arrayminus: rows.map((row) => arm(row, "low", -1)), thickness: 1.2, width: 4 };
}

function lineTraces(cells, lines, x, y, unit) {
  const told = names(lines);
  return lines.map((line, nth) => ({
    x: line.rows.map((row) => cells.figure(x, row)),
    y: line.rows.map((row) => cells.figure(y, row)),
    customdata: line.rows.map((row) => cells.ids[row]),
    name: escaped(told[nth]),
    mode: "lines+markers",
    line: { color: COLOURS[nth % COLOURS.length], width: 2 },
    marker: { size: 7 },
    ...(y === "decode" ? { error_y: errorBars(cells, line.rows, "decode") } : {}),
    hovertemplate: `%{x}: %{y:.3g} ${unit}<extra>%{fullData.name}</extra>`,
  }));
}

function threadChart(cells, rows, column = "decode", title = "Decode speed by CPU threads", unit = "tok/s") {
  const lines = linesAlong(cells, rows.filter((row) => cells.word("asked", row) === "CPU"), "threads");
  if (!lines.length) return null;
  const ticks = [...new Set(lines.flatMap((line) => line.rows.map((row) => cells.figure("threads", row))))];
  return {
    title,
    lines: lines.length,
    data: lineTraces(cells, lines.slice(0, MOST_LINES), "threads", column, unit),
    layout: layout("CPU threads", unit, Math.min(lines.length, MOST_LINES), { tickvals: ticks }),
  };
}

function latencyChart(cells, rows) {
  return threadChart(cells, rows, "latency", "Latency p50 by CPU threads", "ms");
}

function promptChart(cells, rows) {
  const timed = rows.filter((row) => cells.figure("ttft", row) !== null);
  const lines = linesAlong(cells, timed, "prompt", "lengths");
  if (!lines.length) return null;
  return {
    title: "TTFT p50 by prompt length",
    lines: lines.length,
    data: lineTraces(cells, lines.slice(0, MOST_LINES), "prompt", "ttft", "ms"),
    layout: layout("prompt tokens", "ms", Math.min(lines.length, MOST_LINES)),
  };
}

// The fastest ok cell of each model on each backend.
function backendChart(cells, rows) {
  const best = new Map();
  for (const row of rows) {
    const key = `${cells.word("model", row)}\u0000${cells.word("backend", row)}`;
    if (!best.has(key) || cells.figure("decode", row) > cells.figure("decode", best.get(key))) best.set(key, row);
  }
  const backends = [...new Set([...best.values()].map((row) => cells.word("backend", row)))];
  if (backends.length < 2) return null;
  const data = backends.map((backend, nth) => {
    const own = [...best.values()].filter((row) => cells.word("backend", row) === backend);
    return {
      type: "bar",
      x: own.map((row) => escaped(cells.word("model", row))),
      y: own.map((row) => cells.figure("decode", row)),
      customdata: own.map((row) => cells.ids[row]),
      text: own.map((row) => `${threadsLabel(cells, row)}, ${cells.word("numerics", row)}`),
      textposition: "none",
      name: escaped(backend),
      marker: { color: COLOURS[nth % COLOURS.length] },
      error_y: errorBars(cells, own, "decode"),
      hovertemplate: "%{y:.3g} tok/s, %{text}<extra>%{fullData.name}</extra>",
    };
  });
  return { title: "Fastest of each backend", lines: backends.length, data, layout: layout("", "tok/s", backends.length, { type: "category" }) };
}

// The largest peak of each model, beside its weights.
function memoryChart(cells, rows) {
  const most = new Map();
  for (const row of rows) {
    const model = cells.word("model", row);
    if (cells.figure("rss", row) === null) continue;
    if (!most.has(model) || cells.figure("rss", row) > cells.figure("rss", most.get(model))) most.set(model, row);
  }
  if (most.size < 2) return null;
  const own = [...most.values()].sort((one, other) => cells.figure("weights", one) - cells.figure("weights", other));
  const bars = (name, column, colour) => ({
    type: "bar",
    x: own.map((row) => escaped(cells.word("model", row))),
    y: own.map((row) => cells.figure(column, row)),
    customdata: own.map((row) => cells.ids[row]),
    name,
    marker: { color: colour },
    hovertemplate: "%{y:.4g} MiB<extra>%{fullData.name}</extra>",
  });
  return {
    title: "Peak memory by model",
    lines: 2,
    data: [bars("weights in the file", "weights", "#9aa5b5"), bars("peak RSS, largest of its cells", "rss", COLOURS[0])],
    layout: layout("", "MiB", 2, { type: "category" }),
  };
}

function phoneCharts(holder, cells, rows) {
  const proven = (column) => rows.filter((row) => cells.isOk(row) && cells.figure(column, row) !== null);
  const language = cells.kinds.language ? [threadChart, backendChart, promptChart, memoryChart].map((make) => make(cells, proven("decode"))) : [];
  const others = cells.kinds.tensor ? [latencyChart, memoryChart].map((make) => make(cells, proven("latency"))) : [];
  for (const figure of [...language, ...others]) {
    if (!figure) continue;
    const label = `${figure.title}, ok cells only. The figures are in the table of cells; a click on a point opens its cell.`;
    const chart = element("div", { class: "chart", role: "img", "aria-label": label });
    const left = figure.lines > MOST_LINES ? ` The first ${MOST_LINES} of ${figure.lines} lines.` : "";
    holder.append(element("figure", {}, element("figcaption", {}, element("b", {}, figure.title), left), chart));
    draw(chart, figure);
  }
}
