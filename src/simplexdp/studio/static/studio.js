// What pages do better with a script; all of them work without one.
"use strict";

const fetched = async (url, options = {}) => {
  const answer = await fetch(url, { ...options, headers: { ...(options.headers || {}), "x-fragment": "1" } });
  return answer.ok || answer.status === 422 ? answer.text() : null;
};

const later = (wait, deed) => {
  let timer = 0;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => deed(...given), wait); };
};

// A form that must be sent once: its button is dead after the first press. The server counts presses by itself.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("[data-once]")) return;
  if (form.dataset.sent) { event.preventDefault(); return; }
  form.dataset.sent = "1";
  setTimeout(() => form.querySelectorAll("button").forEach((button) => { button.disabled = true; }), 0);
});
window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

// Columns: what each choice comes to, while it is made.
const choices = document.querySelector("form[data-live]");
if (choices) {
  const place = document.querySelector(choices.dataset.live);
  const hints = { values: "yes, no, unknown", edges: "0, 18, 65, 120", bins: "10 from 0 to 100", "template:year": "2015 to 2024", "template:iso-year": "2015 to 2024" };
  const check = later(250, async () => {
    const said = new URLSearchParams(new FormData(choices));
    said.set("action", "check");
    const text = await fetched(choices.action, { method: "POST", body: said });
    if (text === null) return;
    const open = place.querySelector(".yaml")?.open;
    place.innerHTML = text;
    const yaml = place.querySelector(".yaml");
    if (yaml) yaml.open = Boolean(open);
    place.querySelectorAll("[data-cells] li").forEach((line) => {
      const column = choices.querySelector(`[name="kind-${line.dataset.i}"]`).closest(".column");
      const wrong = line.dataset.wrong === "1";
      let told = column.querySelector(":scope > .cells, :scope > .error");
      if (!told) { told = document.createElement("p"); column.append(told); }
      told.className = wrong ? "error" : "cells";
      told.textContent = line.textContent;
      column.classList.toggle("wrong", wrong);
    });
  });
  const needs = (select) => {
    const column = select.closest(".column"), none = !["values", "edges", "bins"].includes(select.value) && !(select.value in hints);
    column.classList.toggle("nowhat", none);
  };
  choices.querySelectorAll("[data-hints]").forEach(needs);
  choices.addEventListener("input", (event) => {
    if (event.target.matches("[data-hints]")) {
      const column = event.target.closest(".column");
      needs(event.target);
      column.querySelector(".what input").placeholder = hints[event.target.value] || "";
      column.classList.toggle("out", event.target.value === "out");
    }
    check();
  });
}

// Budget: a slider on a logarithmic scale. First what can be said at once, then what is exact.
const plan = document.querySelector("form[data-plan]");
if (plan) {
  const place = document.querySelector("#foreseen"), slide = plan.querySelector("[data-slide]"), epsilon = plan.elements.epsilon;
  let turn = 0;
  const look = async (fast) => {
    const mine = ++turn, said = new URLSearchParams(new FormData(plan));
    said.set("by", "epsilon");
    if (fast) said.set("fast", "1");
    for (const name of ["whole_epsilon", "whole_delta"]) {
      const field = document.querySelector(`.spend [name=${name}]`);
      if (field) said.set(name, field.value);
    }
    const text = await fetched(`${plan.action}?${said}`);
    if (text === null || mine !== turn) return;
    const open = place.querySelector(".foreseen details")?.open;
    place.innerHTML = text;
    const details = place.querySelector(".foreseen details");
    if (details) details.open = Boolean(open);
  };
  const exact = later(300, () => look(false));
  const moved = () => { look(true).then(exact); };
  const put = () => { const value = Math.log10(Number(epsilon.value)) * 100; if (Number.isFinite(value)) slide.value = Math.round(value); };
  slide.hidden = false;
  put();
  slide.addEventListener("input", () => { epsilon.value = Number((10 ** (slide.value / 100)).toPrecision(3)); moved(); });
  epsilon.addEventListener("input", () => { put(); exact(); });
}

// Waiting: the state of the work, until it is over.
const state = document.querySelector("[data-poll]");
if (state) {
  const poll = async () => {
    let text = null;
    try { text = await fetched(location.href); } catch { text = null; }
    if (text !== null && !text.includes("<html")) {
      state.innerHTML = text;
      if (state.querySelector("[data-over='1']")) { location.reload(); return; }
    } else if (text !== null) { location.reload(); return; }
    setTimeout(poll, 700);
  };
  setTimeout(poll, 500);
}

// Network: columns on a circle; two presses make or remove an arrow. The lines below the picture are what is sent.
const graph = document.querySelector("[data-graph]");
if (graph) {
  const names = JSON.parse(graph.dataset.names), lines = document.querySelector("#edges"), SVG = "http://www.w3.org/2000/svg";
  const element = (name, attributes, ...inside) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...inside);
    return made;
  };
  const read = () => lines.value.split("\n").flatMap((line) => {
    const parts = line.replaceAll("→", "->").split("->").map((part) => part.trim());
    return parts.slice(1).map((name, i) => [parts[i], name]);
  });
  const shown = (name) => (name.length > 14 ? `${name.slice(0, 13)}…` : name);
  const room = Math.max(280, Math.min(640, document.querySelector(".question").clientWidth - 40));
  const height = Math.max(240, Math.min(640, 60 + 40 * names.length));
  const side = Math.max(...names.map((name) => Math.max(52, 8 * shown(name).length + 22))) / 2 + 2;
  const at = new Map(names.map((name, i) => {
    const turn = (2 * Math.PI * i) / names.length - Math.PI / 2;
    return [name, [room / 2 + (room / 2 - side) * Math.cos(turn), height / 2 + (height / 2 - 30) * Math.sin(turn)]];
  }));
  let first = null;
  const draw = (focus) => {
    const tip = element("marker", { id: "tip", viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto" }, element("path", { d: "M0 0 10 5 0 10z" }));
    const svg = element("svg", { viewBox: `0 0 ${room} ${height}`, width: room, height, role: "group", "aria-label": "The graph; press a column, then one that depends on it" }, element("defs", {}, tip));
    for (const [a, b] of read()) {
      if (!at.has(a) || !at.has(b)) continue;
      const [x, y] = at.get(a), [u, v] = at.get(b), far = Math.hypot(u - x, v - y) || 1;
      const cut = Math.min(0.45, 34 / far);
      svg.append(element("path", { class: "arrow", "marker-end": "url(#tip)", d: `M${x + (u - x) * cut} ${y + (v - y) * cut}L${u - (u - x) * cut} ${v - (v - y) * cut}` }));
    }
    for (const [name, [x, y]] of at) {
      const told = shown(name), width = Math.max(52, 8 * told.length + 22);
      const node = element("g", { role: "button", tabindex: 0, "aria-pressed": first === name, "aria-label": name }, element("rect", { class: "node", x: x - width / 2, y: y - 15, width, height: 30, rx: 15 }), element("text", { x, y }, told));
      const press = () => {
        if (first === null) first = name;
        else {
          if (first !== name) {
            const edges = read(), known = edges.findIndex(([a, b]) => a === first && b === name);
            if (known < 0) edges.push([first, name]); else edges.splice(known, 1);
            lines.value = edges.map(([a, b]) => `${a} -> ${b}`).join("\n");
          }
          first = null;
        }
        draw(name);
      };
      node.addEventListener("click", press);
      node.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); press(); } });
      svg.append(node);
    }
    graph.replaceChildren(svg);
    if (focus) [...svg.querySelectorAll("[role=button]")].find((node) => node.getAttribute("aria-label") === focus)?.focus();
  };
  lines.addEventListener("input", () => draw());
  draw();
}
