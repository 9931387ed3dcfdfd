// With JavaScript the predictions come without loading the page again. Without it the form does the same.
"use strict";

const form = document.getElementById("form");
const result = document.getElementById("result");

function problem(text) {
  const p = document.createElement("p");
  p.textContent = text;
  p.className = "problem";
  p.setAttribute("role", "alert");
  return p;
}

form.addEventListener("submit", async (event) => {
  const button = event.submitter;
  if (!button || button.value === "csv") return; // a download: the form does it
  event.preventDefault();
  const data = new FormData(form);
  data.set("answer", button.value);
  button.disabled = true;
  result.setAttribute("aria-busy", "true");
  try {
    const reply = await fetch(form.action, { method: "POST", body: data });
    const text = await reply.text();
    const part = new DOMParser().parseFromString(text, "text/html").getElementById("result");
    if (part) {
      result.replaceChildren(...part.childNodes);
    } else { // busy, or shutting down
      result.replaceChildren(problem(`The server answered ${reply.status}: ${text}`));
    }
  } catch (e) {
    result.replaceChildren(problem("The server does not answer: " + e.message));
  } finally {
    button.disabled = false;
    result.removeAttribute("aria-busy");
    result.scrollIntoView({ block: "nearest" });
  }
});
