// With JavaScript the answer follows the fields without loading the page again. Without it the form does the same.
"use strict";

const form = document.getElementById("form");
const one = document.querySelector("button[value=one]");
const wait = 120; // milliseconds after the last change
const asked = new Map(); // the request under way for each place
let timer = 0;

function problem(text) {
  const p = document.createElement("p");
  p.textContent = text;
  p.className = "problem";
  p.setAttribute("role", "alert");
  return p;
}

// ask sends the form and puts the answer in its place.
async function ask(answer, place) {
  asked.get(place)?.abort();
  const mine = new AbortController();
  asked.set(place, mine);
  const data = new FormData(form);
  data.set("answer", answer);
  if (answer === "one") data.delete("file");
  place.setAttribute("aria-busy", "true");
  try {
    const reply = await fetch(form.action, { method: "POST", body: data, signal: mine.signal });
    const text = await reply.text();
    const part = new DOMParser().parseFromString(text, "text/html").getElementById(place.id);
    const open = new Set([...place.querySelectorAll("details[open]")].map((d) => d.id));
    if (part) {
      place.replaceChildren(...part.childNodes);
    } else { // busy, or shutting down
      place.replaceChildren(problem(`The server answered ${reply.status}: ${text}`));
    }
    for (const d of place.querySelectorAll("details")) d.open = open.has(d.id);
    copyable(place);
  } catch (e) {
    if (e.name === "AbortError") return;
    place.replaceChildren(problem("The server does not answer: " + e.message));
  } finally {
    if (mine === asked.get(place)) place.removeAttribute("aria-busy");
  }
}

form.addEventListener("submit", (event) => {
  const answer = event.submitter?.value ?? (one ? "one" : "table");
  if (answer === "csv") return; // a download: the form does it
  event.preventDefault();
  const place = document.getElementById(answer === "one" ? "result" : "table");
  ask(answer, place).then(() => place.scrollIntoView({ block: "nearest" }));
});

// Numbers have a slider over the values of the fit; values beyond it are marked.
for (const input of document.querySelectorAll("input[data-low]")) {
  const low = Number(input.dataset.low), high = Number(input.dataset.high);
  const slider = document.createElement("input");
  slider.type = "range";
  slider.min = low;
  slider.max = high;
  slider.step = input.dataset.step;
  slider.setAttribute("aria-label", input.labels[0].textContent + ", slider");
  const follow = () => {
    const v = Number(input.value);
    slider.value = input.value === "" ? (low + high) / 2 : v;
    input.classList.toggle("far", input.value !== "" && (v < low || v > high));
  };
  slider.addEventListener("input", () => {
    input.value = slider.value;
    follow();
  });
  input.addEventListener("input", follow);
  follow();
  input.after(slider);
}

if (one) {
  const fields = document.querySelector(".inputs");
  fields.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => ask("one", document.getElementById("result")), wait);
  });
  one.hidden = true; // the answer follows by itself
  if (!document.querySelector("#result .value, #result .problem")) ask("one", document.getElementById("result"));
}

// A file dropped on the card of many rows is predicted.
const card = document.getElementById("rows-card");
const file = document.getElementById("file");
for (const kind of ["dragover", "dragleave", "drop"]) {
  card.addEventListener(kind, (event) => {
    event.preventDefault();
    card.classList.toggle("over", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length > 0) {
      file.files = event.dataTransfer.files;
      ask("table", document.getElementById("table"));
    }
  });
}

// Code has a button that copies it.
function copyable(place) {
  for (const pre of navigator.clipboard ? place.querySelectorAll("pre") : []) {
    const button = document.createElement("button");
    const text = pre.textContent;
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    });
    pre.prepend(button);
  }
}
copyable(document);
