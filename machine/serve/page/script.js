// With JavaScript the predictions come without loading the page again. Without it the form does the same.
"use strict";

const form = document.getElementById("form");
const result = document.getElementById("result");
const shown = 1000;

function element(name, text) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  return e;
}

function row(cell, values) {
  const tr = element("tr");
  for (const v of values) tr.append(element(cell, v === null ? "" : String(v)));
  return tr;
}

function table(answer) {
  const t = element("table");
  t.id = "predictions";
  const head = element("thead"), body = element("tbody");
  head.append(row("th", ["row", ...answer.columns]));
  for (const th of head.querySelectorAll("th")) th.scope = "col";
  answer.rows.slice(0, shown).forEach((r, i) => {
    body.append(row("td", [i + 1, ...(Array.isArray(r) ? r : answer.columns.map((c) => r[c]))]));
  });
  t.append(head, body);
  const scroll = element("div");
  scroll.className = "scroll";
  scroll.append(t);
  const parts = [element("h2", "Predictions")];
  if (answer.rows.length > shown) parts.push(element("p", `The first ${shown} of ${answer.rows.length} rows; the CSV file has all.`));
  return [...parts, scroll];
}

function problem(text) {
  const p = element("p", text);
  p.className = "problem";
  p.setAttribute("role", "alert");
  return [p];
}

function contentType(text) {
  if (!text.trimStart().startsWith("{")) return "text/csv";
  return /^\s*\{\s*"(rows|columns)"\s*:\s*\[/.test(text) ? "application/json" : "application/x-ndjson";
}

form.addEventListener("submit", async (event) => {
  if (event.submitter && event.submitter.value === "csv") return; // a download: the form does it
  event.preventDefault();
  const button = event.submitter || form.querySelector("button");
  button.disabled = true;
  result.setAttribute("aria-busy", "true");
  try {
    const file = form.elements.file.files[0];
    const text = file ? await file.text() : form.elements.rows.value;
    const query = new URLSearchParams();
    for (const box of form.querySelectorAll("input[type=checkbox]:checked")) query.set(box.name, "true");
    const reply = await fetch("/v1/predict?" + query, {
      method: "POST",
      headers: { "Content-Type": contentType(text), "Accept": "application/json" },
      body: text,
    });
    const answer = await reply.json();
    if (reply.ok) {
      result.replaceChildren(...table(answer));
    } else {
      const e = answer.error;
      result.replaceChildren(...problem((e.row ? `Row ${e.row}: ` : "") + e.message));
    }
  } catch (e) {
    result.replaceChildren(...problem("The server does not answer: " + e.message));
  } finally {
    button.disabled = false;
    result.removeAttribute("aria-busy");
  }
});
