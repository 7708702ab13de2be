// Theme, deep links, what unfolds when it is opened, and paper.

function themes() {
  const picker = document.querySelector(".themes");
  const choose = (theme) => {
    if (theme === "system") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", theme);
    for (const button of picker.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.value === theme));
    }
  };
  const known = ["light", "dark", "system"];
  const remembered = memory.get("mnn-farm-theme");
  choose(known.includes(remembered) ? remembered : "system");
  picker.hidden = false;
  for (const button of picker.querySelectorAll("button")) {
    button.addEventListener("click", () => {
      choose(button.value);
      memory.set("mnn-farm-theme", button.value);
    });
  }
}

// A link leads into what is folded: open all that is around it.
function unfold(target) {
  for (let around = target.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
}

function follow(cells, table) {
  let wanted = location.hash.slice(1);
  try {
    wanted = decodeURIComponent(wanted);
  } catch {
    // Half an escape: take it letter by letter.
  }
  if (wanted.startsWith("cell-")) {
    const row = cells.rowOf(wanted.slice(5));
    if (row < 0) table.root.querySelector(".count").textContent = `There is no cell ${wanted.slice(5)} in this run.`;
    else table.reveal(row);
  } else if (wanted.startsWith("cells?")) {
    table.set(new URLSearchParams(location.hash.slice(7)));
    table.root.scrollIntoView();
  } else if (wanted) {
    const target = document.getElementById(wanted);
    if (!target) return;
    unfold(target);
    if (target.tagName === "DETAILS") target.open = true;
    target.scrollIntoView();
  }
}

// Phones of a large run: their tables and charts are made when one is opened.
function phoneOf(cells, details) {
  const phone = Number(details.dataset.phone);
  const rows = cells.rowsOf(phone);
  const holder = details.querySelector(".lazy");
  const root = document.getElementById("phone-cells").content.firstElementChild.cloneNode(true);
  root.querySelector("caption").textContent = `cells of ${cells.phones[phone]}`;
  const charts = element("div", { class: "charts" });
  const said = element("div");
  // Made by this report's own templates, which escaped every text in it.
  said.innerHTML = cells.fragments[details.id] || "";
  holder.replaceChildren(root, said, charts);
  new CellTable(root, cells, rows);
  phoneCharts(charts, cells, rows);
}

function whenOpened(details, make) {
  let isMade = false;
  const check = () => {
    if (!details.open || isMade) return;
    isMade = true;
    make(details);
  };
  details.addEventListener("toggle", check);
  check();
}

function paper() {
  let opened = [];
  addEventListener("beforeprint", () => {
    // But for the phones of a large run: their cells would fill a cupboard.
    opened = [...document.querySelectorAll("details:not([open], [data-phone], [data-phone] *)")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });
}

async function overview() {
  const data = document.getElementById("chart-data");
  if (data) draw(document.getElementById("chart"), JSON.parse(data.textContent));
}

async function main() {
  const section = document.getElementById("cells");
  if (!section) return;
  section.querySelector(".loading").hidden = false;
  let cells;
  try {
    cells = new Cells(JSON.parse(await unpack("cells-data")));
  } catch (error) {
    section.querySelector(".loading").textContent = "This browser cannot unpack the table of cells (it needs DecompressionStream); results.csv holds the same.";
    return;
  }
  section.querySelector(".loading").remove();
  section.querySelector(".explorer").hidden = false;
  const table = new CellTable(section, cells, Array.from({ length: cells.count }, (_, row) => row));
  for (const details of document.querySelectorAll("details[data-phone]")) whenOpened(details, (each) => phoneOf(cells, each));
  for (const details of document.querySelectorAll("details[data-fragment]")) {
    whenOpened(details, (each) => (each.querySelector(".lazy").innerHTML = cells.fragments[each.dataset.fragment]));
  }
  for (const holder of document.querySelectorAll(".charts[data-charts]")) {
    phoneCharts(holder, cells, cells.rowsOf(Number(holder.dataset.charts)));
  }
  addEventListener("hashchange", () => follow(cells, table));
  follow(cells, table);
}

themes();
paper();
overview();
// After the first paint: a large run takes a moment to unpack.
requestAnimationFrame(() => setTimeout(main));
