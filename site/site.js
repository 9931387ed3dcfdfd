// Search and copy buttons. Without JavaScript the site has neither and reads as well.
"use strict";

const up = document.currentScript.dataset.up;

for (const pre of navigator.clipboard ? document.querySelectorAll("main pre") : []) {
  const text = pre.textContent;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  const frame = document.createElement("div");
  frame.className = "code";
  pre.replaceWith(frame);
  frame.append(pre, button);
}

const input = document.getElementById("search");
const list = document.getElementById("found");
document.querySelector(".search").hidden = false;

// The index is loaded when somebody searches.
let index = null;
function load() {
  index ??= new Promise((done) => {
    const script = document.createElement("script");
    script.src = up + "search.js";
    script.onload = () => done(sections.map((s) => ({ ...s, low: `${s.p} ${s.t} ${s.w}`.toLowerCase() })));
    document.head.append(script);
  });
  return index;
}

// Every word must occur; headings count most, then titles of pages.
function rank(s, words) {
  let score = 0;
  for (const w of words) {
    if (!s.low.includes(w)) return 0;
    const t = s.t.toLowerCase();
    score += 1 + (t.includes(w) ? 8 : 0) + (t.startsWith(w) ? 4 : 0) + (s.p.toLowerCase().includes(w) ? 3 : 0) +
      Math.min(3, s.low.split(w).length - 2) / 4;
  }
  return score;
}

async function search() {
  const words = input.value.toLowerCase().split(/\s+/).filter((w) => w.length > 1);
  const all = words.length ? await load() : [];
  const best = all.map((s) => [rank(s, words), s]).filter(([r]) => r > 0).sort((a, b) => b[0] - a[0]).slice(0, 12);
  list.replaceChildren(...best.map(([, s]) => {
    const item = document.createElement("li");
    const a = document.createElement("a");
    const at = s.w.toLowerCase().indexOf(words[0]);
    const about = document.createElement("small");
    a.href = up + s.h;
    a.textContent = s.t === s.p ? s.t : `${s.t} · ${s.p}`;
    about.textContent = at < 0 ? s.w.slice(0, 110) : s.w.slice(Math.max(0, at - 30), at + 90);
    a.append(about);
    item.append(a);
    return item;
  }));
  if (words.length && !best.length) {
    const item = document.createElement("li");
    item.textContent = "Nothing has all of these words.";
    list.append(item);
  }
  list.hidden = words.length === 0;
}

input.addEventListener("input", search);
input.addEventListener("keydown", (event) => {
  if (event.key === "Enter") list.querySelector("a")?.click();
  if (event.key === "Escape") {
    input.value = "";
    list.hidden = true;
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
    event.preventDefault();
    input.focus();
  }
});
