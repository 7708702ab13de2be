// Small things that all parts use. Texts reach the page through text nodes only.

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

// Three significant digits and no exponent, as everywhere else in the page.
function number(value) {
  const size = Math.abs(value);
  const digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  const [whole, fraction] = value.toFixed(digits).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return fraction ? `${grouped}.${fraction}` : grouped;
}

// Milliseconds, also where they are few.
function fine(value) {
  return value >= 0.0995 || value === 0 ? number(value) : String(Number(value.toPrecision(2)));
}

// A cosine similarity with as many digits as tell it from 1.
function cosine(value) {
  const digits = [3, 4, 5].find((count) => 1 - value >= 0.999 * 10 ** (1 - count)) ?? 6;
  const shown = value.toFixed(digits);
  return Number(shown) === 1 ? "1" : shown;
}

function mebibytes(value) {
  return value < 1024 ? `${number(value)} MiB` : `${number(value / 1024)} GiB`;
}

function plural(count, word) {
  return `${count.toLocaleString("en").replace(/,/g, "\u202f")} ${word}${count === 1 ? "" : "s"}`;
}

// A text from a phone: isolated, so that its direction moves nothing else, and cut where it is long.
function text(value, limit = 280) {
  const shown = element("span", { class: "text", dir: "auto" });
  if (value.length <= limit) {
    shown.textContent = value;
    return shown;
  }
  shown.textContent = `${value.slice(0, limit)}…`;
  const all = element("details", { class: "all" }, element("summary", {}, `show all ${value.length} characters`));
  all.addEventListener("toggle", () => {
    if (all.open && all.childElementCount === 1) all.append(element("pre", { dir: "auto" }, value));
  });
  return [shown, all];
}

function badge(verdict) {
  return element("span", { class: `badge ${verdict}` }, verdict);
}

// A code such as backend_missing_on_phone may break after its underscores.
function code(word) {
  return element("code", {}, ...word.split(/(?<=_)/).flatMap((part) => [part, element("wbr")]));
}

// What the page carries packed: deflate in base 85, five letters for four bytes.
const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%:()*+-;,=.?@^_`{|}~";
const VALUES = new Uint8Array(128);
for (let value = 0; value < LETTERS.length; value += 1) VALUES[LETTERS.charCodeAt(value)] = value;

function bytesOf(text) {
  const groups = Math.ceil(text.length / 5);
  const bytes = new DataView(new ArrayBuffer(groups * 4));
  for (let group = 0; group < groups; group += 1) {
    let number = 0;
    for (let letter = group * 5; letter < group * 5 + 5; letter += 1)
      number = number * 85 + (letter < text.length ? VALUES[text.charCodeAt(letter)] : 84);
    bytes.setUint32(group * 4, number);
  }
  return new Uint8Array(bytes.buffer, 0, Math.floor((text.length * 4) / 5));
}

async function unpack(id) {
  const bytes = bytesOf(document.getElementById(id).textContent);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

// Private windows and files opened from a disk may refuse storage.
const memory = {
  get(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      localStorage.setItem(key, value);
    } catch {
      // Not remembered, then.
    }
  },
};
