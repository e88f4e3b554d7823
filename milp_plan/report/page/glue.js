// Ties the page's controls to Bokeh's plots; all drawing is Bokeh's.
"use strict";
(() => {
  const root = document.documentElement;
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const part = (plot, name) => plot.renderers.find((renderer) => renderer.name === name);
  const number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 6 });

  function paint(plots) {
    const [ink, line, find, paper] = ["--ink", "--line", "--find", "--paper"].map(colour);
    for (const plot of plots) {
      for (const axis of [...plot.below, ...plot.left].filter((item) => "axis_label" in item)) {
        axis.setv({ axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: line,
          major_tick_line_color: line, minor_tick_line_color: null });
      }
      for (const grid of plot.center.filter((item) => "grid_line_color" in item)) {
        grid.setv({ grid_line_color: line });
      }
      const boxes = part(plot, "boxes")?.glyph;
      if (boxes && boxes.line_color.value !== null) boxes.setv({ line_color: paper });
      part(plot, "critical")?.glyph.setv({ fill_color: ink });
      part(plot, "found")?.glyph.setv({ line_color: find });
    }
  }

  function show(range, start, end) {
    const [first, last] = range.bounds;
    const width = Math.min(Math.max(end - start, (last - first) * 1e-7), last - first);
    const from = Math.min(Math.max((start + end - width) / 2, first), last - width);
    range.setv({ start: from, end: from + width });
  }

  function move(range, what) {
    const { start, end } = range, width = end - start;
    const [first, last] = range.bounds;
    if (what === "in") show(range, start + width / 4, end - width / 4);
    if (what === "out") show(range, start - width / 2, end + width / 2);
    if (what === "left") show(range, start - width / 4, end - width / 4);
    if (what === "right") show(range, start + width / 4, end + width / 4);
    if (what === "all") show(range, first, last);
  }

  function finder(panel, plot) {
    const box = panel.querySelector("input[type=search]"), output = panel.querySelector("output");
    const { data } = part(plot, "boxes").data_source, found = part(plot, "found").data_source;
    const names = Array.from(data.name, (name) => name.toLowerCase());
    let hits = [], at = -1;
    const mark = () => {
      const columns = {};
      for (const key of Object.keys(data)) columns[key] = hits.slice(at, at + 1).map((hit) => data[key][hit]);
      found.data = columns;
    };
    const go = (step) => {
      if (!hits.length) return;
      at = (at + step + hits.length) % hits.length;
      mark();
      const hit = hits[at], range = plot.x_range;
      const [left, right] = [data.left[hit], data.right[hit]];
      const width = Math.min(range.end - range.start, Math.max((right - left) * 12, (range.bounds[1] - range.bounds[0]) / 200));
      show(range, (left + right - width) / 2, (left + right + width) / 2);
      const words = data.tooltip[hit] ? `, ${data.tooltip[hit]}` : "";
      output.value = `${at + 1} of ${hits.length}: ${data.name[hit]} (${data.kind[hit]}) on ${data.row[hit]}, ${number(left)} to ${number(right)}${words}`;
    };
    box.addEventListener("input", () => {
      const word = box.value.trim().toLowerCase();
      hits = word ? names.flatMap((name, place) => (name.includes(word) ? [place] : [])) : [];
      const whole = hits.filter((hit) => names[hit] === word);
      hits = whole.length ? [...whole, ...hits.filter((hit) => names[hit] !== word)] : hits;
      at = -1;
      output.value = word && !hits.length ? "nothing of this name" : "";
      mark();
      go(1);
    });
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
    });
    return go;
  }

  function tie(panel, plot) {
    const range = plot.x_range;
    const go = panel.querySelector("input[type=search]") ? finder(panel, plot) : () => {};
    panel.addEventListener("click", (event) => {
      const what = event.target.dataset?.do;
      if (what === "next" || what === "previous") go(what === "next" ? 1 : -1);
      else if (what === "critical") part(plot, "critical").visible = event.target.checked;
      else if (what) move(range, what);
    });
    const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", "0": "all" };
    panel.querySelector(".plot").addEventListener("keydown", (event) => {
      if (!(event.key in keys) || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      move(range, keys[event.key]);
    });
  }

  function begin() {
    const panels = [...document.querySelectorAll(".panel")];
    if (panels.length && !(window.Bokeh?.documents.length)) return void setTimeout(begin, 20);
    const plots = panels.map((panel) => Bokeh.documents[0].get_model_by_name(panel.dataset.plot));
    panels.forEach((panel, place) => tie(panel, plots[place]));
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const theme = document.getElementById("theme");
    const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
    const repaint = () => { theme.setAttribute("aria-pressed", isDark()); paint(plots); };
    theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; repaint(); });
    dark.addEventListener("change", repaint);
    repaint();
    root.dataset.ready = "yes";
  }
  begin();
})();
