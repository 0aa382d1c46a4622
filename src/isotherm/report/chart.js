/* The figures of an Isotherm page. Each <figure class="chart"> carries its description as JSON; this draws it as SVG
   at the width there is, answers the pointer and the arrow keys, and lets the legend hide series. No library, no
   network. */
(() => {
  "use strict";
  const COLOURS = 8; // further series repeat the colours with other dashes and marks
  const TEXT = 12, CHARACTER = 6.6;

  const make = (name, attributes = {}, parent = null, text = null) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  };
  const html = (name, className, parent, text = null) => {
    const node = document.createElement(name);
    node.className = className;
    if (text !== null) node.textContent = text;
    parent.append(node);
    return node;
  };
  const there = v => v !== null && v !== undefined;
  const say = v => {
    if (!there(v)) return "–";
    const size = Math.abs(v);
    const text = size !== 0 && (size >= 1e6 || size < 1e-3) ? v.toExponential(2).replace(/\.?0+e/, "e") : String(Number(v.toPrecision(4)));
    return text.replaceAll("-", "−");
  };
  const clip = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
  /* a value with the digits that half of its interval leaves certain */
  const rounded = (v, half) => {
    if (!there(v) || !there(half) || half <= 0) return say(v);
    const power = Math.floor(Math.log10(half)), digits = (half < 3 * 10 ** power ? 1 : 0) - power;
    return v.toFixed(Math.max(0, Math.min(6, digits))).replaceAll("-", "−");
  };
  /* the colour of a series: its own, its place on the ramp of an ordered family, or its place among all */
  const place = (chart, i) => chart.series[i].colour ?? i;
  const turn = (chart, i) => (chart.ramp ? 0 : Math.floor(place(chart, i) / COLOURS) % 4);
  const colour = (chart, i) => {
    if (chart.series[i].pale) return "--c:var(--pale)";
    if (!chart.ramp) return `--c:var(--c${place(chart, i) % COLOURS})`;
    if (chart.series[i].dashed) return "--c:var(--soft)";
    const family = chart.series.filter(s => !s.dashed);
    const along = family.length > 1 ? (3 * family.indexOf(chart.series[i])) / (family.length - 1) : 0;
    const k = Math.min(2, Math.floor(along));
    return `--c:color-mix(in oklab, var(--r${k + 1}) ${Math.round(100 * (along - k))}%, var(--r${k}))`;
  };
  const DASHES = ["", "2 3", "8 3 2 3", "12 4"];
  const dash = (chart, i) => (chart.series[i].dashed ? "6 4" : DASHES[turn(chart, i)]);
  const marked = s => s.x.length <= 40 && !s.dashed;

  /* scales and ticks */
  const scale = (lo, hi, from, to, log) => {
    const f = log ? Math.log10 : v => v;
    const start = f(lo), step = (to - from) / (f(hi) - f(lo));
    return v => from + (f(v) - start) * step;
  };
  const range = (values, { log = false, zero = false, pad = 0.04 } = {}) => {
    let lo = Infinity, hi = -Infinity;
    for (const v of values) if (there(v) && (!log || v > 0)) { lo = Math.min(lo, v); hi = Math.max(hi, v); }
    if (lo > hi) return log ? [0.1, 1] : [0, 1];
    if (zero) { lo = Math.min(lo, 0); hi = Math.max(hi, 0); }
    if (log) return lo === hi ? [lo / 2, hi * 2] : [lo / (hi / lo) ** pad, hi * (hi / lo) ** pad];
    const margin = lo === hi ? Math.abs(lo) / 10 || 0.5 : (hi - lo) * pad;
    return [zero && lo === 0 ? 0 : lo - margin, zero && hi === 0 ? 0 : hi + margin];
  };
  const ticks = (lo, hi, count, log) => {
    const found = [];
    if (log) {
      const decades = Math.log10(hi / lo);
      const every = Math.max(1, Math.ceil(decades / count));
      const within = decades < 1.2 ? [1, 2, 3, 5, 7] : decades < 2.5 ? [1, 2, 5] : [1];
      for (let e = Math.floor(Math.log10(lo)); e <= Math.log10(hi); e += every)
        for (const m of within) if (m * 10 ** e >= lo && m * 10 ** e <= hi) found.push(Number((m * 10 ** e).toPrecision(2)));
      if (found.length > 1) return found;
      return [lo, hi].map(v => Number(v.toPrecision(3)));
    }
    const rough = (hi - lo) / count, power = 10 ** Math.floor(Math.log10(rough));
    const off = s => Math.abs(Math.log(s / rough));
    const step = [1, 2, 2.5, 5, 10].map(m => m * power).reduce((a, b) => (off(b) < off(a) ? b : a));
    for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
    return found;
  };

  const KINDS = { lines: "line chart", scatter: "map of points", histogram: "histogram", dots: "dots on intervals", heat: "heat map" };
  const about = chart => {
    const names = (chart.series || []).map(s => s.name), of = chart.y ? ` of ${chart.y}` : "", against = chart.x ? ` against ${chart.x}` : "";
    return `${chart.title}: ${KINDS[chart.kind]}${of}${against}${names.length ? `; ${names.join(", ")}` : ""}`;
  };

  /* the frame: axes, grid, labels. Gives the scales and the layers to draw on. */
  const frame = (canvas, chart, xs, ys, options = {}) => {
    const axes = options.axes !== false;
    const width = canvas.clientWidth || 600;
    const height = options.height || Math.round(Math.min(380, Math.max(240, width * (axes ? 0.56 : 0.7))));
    const yTicks = options.yTicks || ticks(...ys, 5, chart.log_y);
    const words = options.yWords || yTicks.map(say);
    const left = axes ? Math.min(width * 0.4, 14 + CHARACTER * Math.max(...words.map(w => w.length), 1)) : 6;
    const top = chart.y ? 26 : 10, bottom = axes ? (chart.x ? 46 : 28) : 6, right = options.right || 14;
    const root = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": about(chart) });
    canvas.replaceChildren(root);
    const x = scale(...xs, left, width - right, chart.log_x);
    const y = scale(...ys, options.down ? top : height - bottom, options.down ? height - bottom : top, chart.log_y);
    const grid = make("g", { class: "grid" }, root);
    if (axes) {
      const xTicks = options.xTicks || ticks(...xs, Math.max(4, Math.min(8, width / 90)), chart.log_x);
      const xWords = options.xWords || xTicks.map(say);
      let free = -Infinity;
      xTicks.forEach((t, i) => {
        const wide = xWords[i].length * CHARACTER, at = Math.min(x(t), width - wide / 2);
        if (!options.xTicks) make("line", { x1: x(t), x2: x(t), y1: top, y2: height - bottom }, grid);
        if (at - wide / 2 < free) return;
        free = at + wide / 2 + 8;
        make("text", { x: at, y: height - bottom + 18, "text-anchor": "middle" }, grid, xWords[i]);
      });
      yTicks.forEach((t, i) => {
        if (!options.yTicks) make("line", { x1: left, x2: width - right, y1: y(t), y2: y(t) }, grid);
        const word = make("text", { x: left - 8, y: y(t) + TEXT / 3, "text-anchor": "end" }, grid);
        word.textContent = clip(words[i], Math.floor((left - 10) / CHARACTER) + 1);
        if (words[i] !== word.textContent) make("title", {}, word, words[i]);
      });
      make("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }, grid);
      if (chart.x) make("text", { class: "name", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, grid, chart.x);
      if (chart.y) make("text", { class: "name", x: 2, y: 14 }, grid, chart.y);
    }
    for (const span of chart.spans || []) {
      const a = Math.max(left, x(span.start)), b = Math.min(width - right, x(span.end));
      if (b <= a) continue;
      make("rect", { class: "span", x: a, y: top, width: b - a, height: height - bottom - top }, grid);
      const wide = span.label.length * CHARACTER, middle = Math.max(left + wide / 2, Math.min(width - right - wide / 2, (a + b) / 2));
      make("text", { class: "name", x: middle, y: top + 14, "text-anchor": "middle" }, grid, span.label);
    }
    return { root, x, y, left, right: width - right, top, bottom: height - bottom, width, height, drawn: make("g", {}, root), over: make("g", { class: "over" }, root) };
  };

  const path = (f, xs, ys) => {
    let d = "", pen = false;
    xs.forEach((v, i) => {
      const drawable = there(v) && there(ys[i]);
      if (drawable) d += `${pen ? "L" : "M"}${f.x(v).toFixed(1)} ${f.y(ys[i]).toFixed(1)}`;
      pen = drawable;
    });
    return d;
  };
  const marks = (f, xs, ys, shape, r) => xs.map((v, i) => {
    if (!there(v) || !there(ys[i])) return "";
    const X = f.x(v).toFixed(1), Y = f.y(ys[i]).toFixed(1);
    return [`M${X} ${Y}h0`, `M${X} ${Y}m${-r} ${-r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}`,
      `M${X} ${Y}m0 ${-r}l${r} ${2 * r}h${-2 * r}z`, `M${X} ${Y}m${-r} 0h${2 * r}m${-r} ${-r}v${2 * r}`][shape];
  }).join("");
  /* Where a line has a spread: whole stretches get a band, a point whose neighbours have none gets a whisker. */
  const spread = (s, k) => there(s.x[k]) && s.low && s.high && there(s.low[k]) && there(s.high[k]) && s.high[k] > s.low[k];
  const stretches = s => {
    const found = [];
    s.x.forEach((_, k) => {
      if (!spread(s, k)) return;
      if (k > 0 && spread(s, k - 1)) found[found.length - 1].push(k);
      else found.push([k]);
    });
    return found;
  };
  const positives = (values, log) => (log ? values.map(v => (v > 0 ? v : null)) : values);

  /* one function per kind of chart: draws, and gives what lies near a point of the picture */
  const kinds = {
    lines(canvas, chart, shown) {
      const series = chart.series.map(s => ({ ...s, x: positives(s.x, chart.log_x), y: positives(s.y, chart.log_y), low: s.low && positives(s.low, chart.log_y), high: s.high && positives(s.high, chart.log_y) }));
      const f = frame(canvas, chart, range(series.flatMap(s => s.x), { log: chart.log_x, pad: 0.02 }),
        range(series.flatMap(s => [...s.y, ...(s.low || []), ...(s.high || [])]), { log: chart.log_y }));
      series.forEach((s, i) => {
        if (!shown(i)) return;
        const group = make("g", { style: colour(chart, i), "data-series": s.name }, f.drawn);
        for (const part of stretches(s)) {
          const ring = [...part.map(k => [s.x[k], s.high[k]]), ...part.toReversed().map(k => [s.x[k], s.low[k]])];
          if (part.length > 1) make("path", { class: "band", d: path(f, ring.map(p => p[0]), ring.map(p => p[1])) + "Z" }, group);
          else make("path", { class: "reach", d: `M${f.x(ring[0][0])} ${f.y(ring[0][1])}V${f.y(ring[1][1])}m-4 0h8M${f.x(ring[0][0]) - 4} ${f.y(ring[0][1])}h8` }, group);
        }
        make("path", { class: "line", d: path(f, s.x, s.y), "stroke-dasharray": dash(chart, i) }, group);
        if (marked(s)) make("path", { class: "mark", d: marks(f, s.x, s.y, 0, 3) }, group);
      });
      const stops = new Map();
      series.forEach((s, i) => shown(i) && s.x.forEach((v, k) => there(v) && there(s.y[k]) && !stops.has(v) && stops.set(v, [f.x(v), f.y(s.y[k])])));
      return {
        f, stops: [...stops.values()].sort((a, b) => a[0] - b[0]), near(px, py) {
          let best = null;
          series.forEach((s, i) => shown(i) && s.x.forEach((v, k) => {
            if (!there(v) || !there(s.y[k])) return;
            const away = Math.abs(f.x(v) - px) * 1e4 + Math.abs(f.y(s.y[k]) - py);
            if (!best || away < best.away) best = { away, v, i, k };
          }));
          if (!best) return null;
          const rows = [], dots = [];
          series.forEach((s, i) => {
            const k = shown(i) ? (i === best.i ? best.k : s.x.indexOf(best.v)) : -1;
            if (k < 0 || !there(s.y[k])) return;
            const half = spread(s, k) ? (s.high[k] - s.low[k]) / 2 : null;
            const band = half === null ? "" : ` (${rounded(s.low[k], half)} to ${rounded(s.high[k], half)})`;
            rows.push([i, s.name, rounded(s.y[k], half) + band]);
            dots.push([f.x(best.v), f.y(s.y[k]), i]);
          });
          const label = (series[best.i].labels || [])[best.k];
          return { head: `${chart.x || "x"} ${say(best.v)}${label ? ` · ${label}` : ""}`, rows, dots, guide: f.x(best.v) };
        },
      };
    },

    scatter(canvas, chart, shown) {
      const f = frame(canvas, chart, range(chart.series.flatMap(s => s.x)), range(chart.series.flatMap(s => s.y)), { axes: Boolean(chart.axes) });
      const many = chart.series.reduce((n, s) => n + s.x.length, 0);
      const r = many > 3000 ? 1.6 : many > 600 ? 2.2 : 3;
      const order = chart.series.map((s, i) => i).sort((a, b) => Boolean(chart.series[b].pale) - Boolean(chart.series[a].pale)); // pale ones lie below
      order.filter(shown).forEach(i => {
        const s = chart.series[i], shape = turn(chart, i);
        const group = make("g", { style: colour(chart, i), "data-series": s.name }, f.drawn);
        make("path", { class: `cloud ${shape ? "open" : ""}`, d: marks(f, s.x, s.y, shape, r), "stroke-width": shape ? 1.3 : 2 * r }, group);
      });
      const stops = chart.series.flatMap((s, i) => (shown(i) ? s.x.map((v, k) => [v, s.y[k]]) : [])).filter(p => there(p[0]) && there(p[1])).map(p => [f.x(p[0]), f.y(p[1])]);
      return {
        f, stops, near(px, py) {
          let best = null;
          chart.series.forEach((s, i) => shown(i) && s.x.forEach((v, k) => {
            if (!there(v) || !there(s.y[k])) return;
            const away = (f.x(v) - px) ** 2 + (f.y(s.y[k]) - py) ** 2;
            if (away < 400 && (!best || away < best.away)) best = { away, i, k };
          }));
          if (!best) return null;
          const s = chart.series[best.i], label = (s.labels || [])[best.k];
          const rows = [[best.i, s.name, ""]];
          if (chart.axes) rows.push([null, `${chart.x || "x"} ${say(s.x[best.k])}, ${chart.y || "y"} ${say(s.y[best.k])}`, ""]);
          return { head: label || "", rows, dots: [[f.x(s.x[best.k]), f.y(s.y[best.k]), best.i]] };
        },
      };
    },

    histogram(canvas, chart, shown) {
      const edges = chart.edges;
      const f = frame(canvas, chart, [edges[0], edges[edges.length - 1]], range(chart.series.flatMap(s => s.values), { zero: true }));
      chart.series.forEach((s, i) => {
        if (!shown(i)) return;
        const group = make("g", { style: colour(chart, i), "data-series": s.name }, f.drawn);
        let d = `M${f.x(edges[0]).toFixed(1)} ${f.y(0).toFixed(1)}`;
        s.values.forEach((v, k) => { d += `V${f.y(v || 0).toFixed(1)}H${f.x(edges[k + 1]).toFixed(1)}`; });
        make("path", { class: "steps", d: d + `V${f.y(0).toFixed(1)}`, "stroke-dasharray": dash(chart, i) }, group);
      });
      const stops = edges.slice(1).map((e, k) => [(f.x(edges[k]) + f.x(e)) / 2, (f.top + f.bottom) / 2]);
      return {
        f, stops, near(px) {
          const k = edges.findIndex((e, j) => j + 1 < edges.length && px >= f.x(e) && px <= f.x(edges[j + 1]));
          if (k < 0) return null;
          const middle = (f.x(edges[k]) + f.x(edges[k + 1])) / 2;
          const rows = chart.series.map((s, i) => [i, s.name, say(s.values[k])]).filter(row => shown(row[0]));
          return { head: `${chart.x || "x"} ${say(edges[k])} to ${say(edges[k + 1])}`, rows, dots: [], guide: middle };
        },
      };
    },

    dots(canvas, chart, shown) {
      const visible = chart.series.map((s, i) => i).filter(shown);
      const thick = 18, gap = 10, each = Math.max(1, visible.length) * thick + gap;
      const names = chart.categories, middle = names.map((_, k) => k + 0.5);
      const half = (s, k) => (s.errors || [])[k] || 0;
      const high = v => (there(chart.most) ? Math.min(v, chart.most) : v), low = v => (there(chart.most) ? Math.max(v, 0) : v);
      const ends = chart.series.flatMap(s => s.values.flatMap((v, k) => (there(v) ? [high(v + half(s, k)), low(v - half(s, k))] : [])));
      const f = frame(canvas, chart, range(ends, { pad: 0.08 }), [0, names.length],
        { yTicks: middle, yWords: names, down: true, height: names.length * each + (chart.x ? 62 : 44), right: 58 });
      const own = (chart.colours || []).length && chart.series.length === 1;
      visible.forEach((i, row) => {
        const s = chart.series[i], group = make("g", { style: colour(chart, i), "data-series": s.name }, f.drawn);
        s.values.forEach((v, k) => {
          if (!there(v)) return;
          const y = f.y(k) + gap / 2 + (row + 0.5) * thick, error = half(s, k), style = own ? `--c:var(--c${chart.colours[k] % COLOURS})` : "";
          make("path", { class: "reach", d: `M${f.left} ${y}H${f.right}`, style: "--c:var(--rule)" }, group);
          const from = f.x(low(v - error)), to = f.x(high(v + error));
          if (error) make("path", { class: "whisker", style, d: `M${from} ${y}H${to}m0 -4v8M${from} ${y - 4}v8` }, group);
          make("circle", { class: "value", style, cx: f.x(v), cy: y, r: 5 }, group);
          make("text", { x: to + 9, y: y + 4 }, group, rounded(v, error));
        });
      });
      return {
        f, stops: middle.map(m => [(f.left + f.right) / 2, f.y(m)]), near(px, py) {
          const k = Math.floor(((py - f.top) / (f.bottom - f.top)) * names.length);
          if (k < 0 || k >= names.length) return null;
          const rows = visible.map(i => [i, chart.series[i], half(chart.series[i], k)])
            .map(([i, s, error]) => [i, s.name, rounded(s.values[k], error) + (error ? ` ± ${Number(error.toPrecision(2))}` : "")]);
          return { head: names[k], rows, dots: [] };
        },
      };
    },

    heat(canvas, chart) {
      const rows = chart.rows.length, columns = chart.columns.length, every = chart.values.flat().filter(there);
      const lo = Math.min(...every), hi = Math.max(...every);
      const high = Math.min(44, Math.max(16, ((canvas.clientWidth || 600) * 0.8) / Math.max(columns, 1)));
      const f = frame(canvas, chart, [0, columns], [0, rows], {
        yTicks: chart.rows.map((_, k) => k + 0.5), yWords: chart.rows, xTicks: chart.columns.map((_, k) => k + 0.5),
        xWords: chart.columns, down: true, height: rows * high + (chart.x ? 56 : 38) + (chart.y ? 16 : 0),
      });
      const wide = (f.right - f.left) / columns, tall = (f.bottom - f.top) / rows;
      chart.values.forEach((row, r) => row.forEach((v, c) => {
        if (!there(v)) return;
        const share = hi > lo ? (v - lo) / (hi - lo) : 0.5;
        const fill = `color-mix(in oklab, var(--c0) ${Math.round(8 + 92 * share)}%, var(--paper))`;
        make("rect", { class: "cell", x: f.left + c * wide, y: f.top + r * tall, width: wide, height: tall, style: `fill:${fill}` }, f.drawn);
        if (wide > CHARACTER * (say(v).length + 1) && tall > 15)
          make("text", { class: share > 0.7 ? "high" : share > 0.3 ? "middle" : "name", x: f.left + (c + 0.5) * wide, y: f.top + (r + 0.5) * tall + 4, "text-anchor": "middle" }, f.drawn, say(v));
      }));
      const stops = chart.values.flatMap((row, r) => row.map((_, c) => [f.left + (c + 0.5) * wide, f.top + (r + 0.5) * tall]));
      return {
        f, stops, near(px, py) {
          const c = Math.floor((px - f.left) / wide), r = Math.floor((py - f.top) / tall);
          if (c < 0 || r < 0 || c >= columns || r >= rows) return null;
          return { head: `${chart.rows[r]} · ${chart.columns[c]}`, rows: [[null, say(chart.values[r][c]), ""]], dots: [] };
        },
      };
    },
  };

  /* the sign of a series beside its name, as the chart draws it */
  const key = (chart, i, parent) => {
    const s = chart.series[i], root = make("svg", { class: "swatch", width: 22, height: 12, "aria-hidden": "true", style: colour(chart, i) }, parent);
    const at = { x: v => v, y: v => v };
    if (chart.kind === "lines") {
      make("path", { class: "line", d: "M1 6H21", "stroke-dasharray": dash(chart, i) }, root);
      if (marked(s)) make("path", { class: "mark", d: marks(at, [11], [6], 0, 3) }, root);
    } else if (chart.kind === "scatter") {
      const shape = turn(chart, i);
      make("path", { class: "cloud", d: marks(at, [11], [6], shape, 4), "stroke-width": shape ? 1.6 : 8 }, root);
    } else if (chart.kind === "histogram") make("path", { class: "steps", d: "M2 11V2H20V11", "stroke-dasharray": dash(chart, i) }, root);
    else {
      if ((s.errors || []).some(Boolean)) make("path", { class: "whisker", d: "M2 6H20M2 3v6M20 3v6" }, root);
      make("circle", { class: "value", cx: 11, cy: 6, r: 4.5 }, root);
    }
  };

  /* what lies under the pointer */
  const tip = html("div", "tip", document.body);
  tip.hidden = true;
  tip.setAttribute("role", "status");
  const leave = state => {
    tip.hidden = true;
    if (state.drawing) state.drawing.f.over.replaceChildren();
  };
  const point = (event, state) => {
    const { f, near } = state.drawing, box = f.root.getBoundingClientRect();
    const found = near(((event.clientX - box.left) * f.width) / box.width, ((event.clientY - box.top) * f.height) / box.height);
    leave(state);
    if (!found || !(found.rows.length || found.head)) return;
    if (there(found.guide)) make("line", { class: "guide", x1: found.guide, x2: found.guide, y1: f.top, y2: f.bottom }, f.over);
    for (const [x, y, i] of found.dots) make("circle", { class: "dot", cx: x, cy: y, r: 5, style: colour(state.chart, i) }, f.over);
    tip.replaceChildren();
    if (found.head) html("strong", "", tip, found.head);
    for (const [i, name, value] of found.rows.slice(0, 14)) {
      const row = html("div", "", tip);
      if (i !== null) key(state.chart, i, row);
      html("span", "", row, name);
      if (value) html("b", "", row, value);
    }
    if (found.rows.length > 14) html("div", "", tip, `and ${found.rows.length - 14} more`);
    tip.hidden = false;
    const wide = tip.offsetWidth, tall = tip.offsetHeight, page = document.documentElement.clientWidth;
    const right = event.clientX + 14 + wide < page ? event.clientX + 14 : event.clientX - 14 - wide;
    const above = event.clientY - tall - 12;
    tip.style.left = `${Math.max(4, Math.min(right, page - wide - 4))}px`;
    tip.style.top = `${above > 4 ? above : event.clientY + 18}px`;
  };

  /* the values one after the other, by keys */
  const walk = (event, state) => {
    const { stops, f } = state.drawing, last = stops.length - 1;
    const to = { ArrowRight: state.at + 1, ArrowDown: state.at + 1, ArrowLeft: state.at - 1, ArrowUp: state.at - 1, Home: 0, End: last }[event.key];
    if (event.key === "Escape") leave(state);
    if (to === undefined || last < 0) return;
    event.preventDefault();
    state.at = Math.max(0, Math.min(last, to));
    const [x, y] = stops[state.at], box = f.root.getBoundingClientRect();
    point({ clientX: box.left + (x * box.width) / f.width, clientY: box.top + (y * box.height) / f.height }, state);
  };

  const start = figure => {
    const chart = JSON.parse(figure.querySelector("script").textContent);
    const canvas = figure.querySelector(".canvas"), legend = figure.querySelector(".legend");
    const hidden = new Set(), state = { drawing: null, chart, at: -1 };
    const draw = () => { leave(state); state.at = -1; state.drawing = kinds[chart.kind](canvas, chart, i => !hidden.has(i)); };
    if ((chart.series || []).length > 1) chart.series.forEach((s, i) => {
      const button = html("button", "", legend);
      button.type = "button";
      key(chart, i, button);
      html("span", "", button, s.name);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        if (!hidden.delete(i)) hidden.add(i);
        button.setAttribute("aria-pressed", String(!hidden.has(i)));
        draw();
      });
    });
    draw();
    canvas.addEventListener("pointermove", event => point(event, state));
    canvas.addEventListener("pointerdown", event => point(event, state));
    canvas.addEventListener("pointerleave", () => leave(state));
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "group");
    canvas.setAttribute("aria-label", `${chart.title}; the arrow keys read its values`);
    canvas.addEventListener("keydown", event => walk(event, state));
    canvas.addEventListener("blur", () => leave(state));
    let width = canvas.clientWidth;
    new ResizeObserver(() => {
      if (canvas.clientWidth === width || !canvas.clientWidth) return;
      width = canvas.clientWidth;
      draw();
    }).observe(canvas);
  };
  document.querySelectorAll("figure.chart").forEach(start);
})();
