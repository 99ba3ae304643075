// The page of a picture: draws the boxes and wires that Python placed, folds scopes, shows details.
// Everything that comes from the model is set as text, never as markup.
"use strict";

(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const GAP = 26, BETWEEN = 40, LINE = 14, HEAD = 5, BEND = 10, ROW = 12, STEP = 8, INSET = 6, MOST_RESULTS = 200, SWEEPS = 6;
  const COMFORTABLE = 160; // so many boxes can be taken in at first sight
  const picture = document.getElementById("picture");
  const details = document.getElementById("details");
  const results = document.getElementById("results");
  const search = document.getElementById("search");
  const folded = new Set();
  const view = { x: 0, y: 0, scale: 1 };
  let found = new Set();
  let chosen = null; // {box}, {scope} or {wire}
  let heat = null; // one of data.heats, by which boxes are coloured instead of by kind
  let units = []; // what is visible: boxes and folded scopes
  let unitOf = []; // of every box

  const chains = data.boxes.map((box) => {
    const chain = [];
    for (let scope = box.scope; scope >= 0; scope = data.scopes[scope].parent) chain.unshift(scope);
    return chain;
  });
  const members = data.scopes.map(() => []);
  chains.forEach((chain, box) => chain.forEach((scope) => members[scope].push(box)));
  const depthOf = (scope) => (scope < 0 ? 0 : 1 + depthOf(data.scopes[scope].parent));
  const deepest = Math.max(0, ...data.scopes.map((_, scope) => depthOf(scope)));
  const marksOf = data.boxes.map(() => []);
  data.marks.forEach((mark, place) => mark.boxes.forEach((box) => marksOf[box].push(place)));
  const madeBy = data.boxes.map(() => []);
  const readBy = data.boxes.map(() => []);
  data.wires.forEach((wire, place) => {
    madeBy[wire.source].push(place);
    wire.targets.forEach((target) => readBy[target].push(place));
  });
  const constants = new Map(Object.entries(data.constants)); // not an object: names may be "constructor"
  const wireOf = new Map(data.wires.map((wire, place) => [wire.value, place]));

  // --- small parts --------------------------------------------------------------------------

  function svg(parent, name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  function html(parent, name, text, className) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    parent.appendChild(made);
    return made;
  }

  function link(parent, text, action) {
    const made = html(parent, "button", text);
    made.type = "button";
    made.addEventListener("click", action);
    return made;
  }

  function figure(value) {
    return Number.isInteger(value) ? String(value) : value.toPrecision(5).replace(/\.?0+$/, "");
  }

  // --- what is visible, and where -----------------------------------------------------------

  function foldTo(depth) {
    folded.clear();
    data.scopes.forEach((_, scope) => {
      if (depthOf(scope) === depth + 1) folded.add(scope);
    });
  }

  function collect() {
    const ofScope = new Map();
    units = [];
    unitOf = data.boxes.map((box, place) => {
      const scope = chains[place].find((each) => folded.has(each));
      if (scope === undefined) {
        units.push({ box: place, boxes: [place], row: box.row, x: box.x, width: box.width, height: box.height });
        return units.length - 1;
      }
      if (!ofScope.has(scope)) {
        ofScope.set(scope, units.length);
        units.push({ scope, boxes: [] });
      }
      units[ofScope.get(scope)].boxes.push(place);
      return ofScope.get(scope);
    });
    for (const unit of units) {
      if (unit.scope === undefined) continue;
      const inside = unit.boxes.map((box) => data.boxes[box]);
      unit.row = Math.min(...inside.map((box) => box.row));
      unit.x = inside.reduce((sum, box) => sum + box.x, 0) / inside.length;
      const name = data.scopes[unit.scope].name;
      unit.width = Math.min(236, Math.max(110, 6.7 * name.length + 24));
      unit.height = LINE * 2 + 22;
    }
  }

  // The ascending positions nearest to the wishes: isotonic regression, as in columns.py.
  function pooled(wishes, weights) {
    const blocks = [];
    wishes.forEach((wish, place) => {
      let block = { total: wish * weights[place], weight: weights[place], count: 1 };
      while (blocks.length) {
        const before = blocks[blocks.length - 1];
        if (before.total / before.weight < block.total / block.weight) break;
        blocks.pop();
        block = {
          total: before.total + block.total,
          weight: before.weight + block.weight,
          count: before.count + block.count,
        };
      }
      blocks.push(block);
    });
    return blocks.flatMap((block) => new Array(block.count).fill(block.total / block.weight));
  }

  let tops = [], heights = [], bends = [];

  function place() {
    const rows = new Map();
    units.forEach((unit) => {
      if (!rows.has(unit.row)) rows.set(unit.row, []);
      rows.get(unit.row).push(unit);
    });
    // The bends that wires still need, in rows that still have boxes.
    bends = data.wires.map((wire) => {
      const start = units[unitOf[wire.source]].row;
      const last = Math.max(...wire.targets.map((target) => units[unitOf[target]].row));
      return wire.bends
        .filter(([row]) => row > start && row < last && rows.has(row))
        .map(([row, x]) => ({ row, x, width: BEND, bend: true }));
    });
    bends.flat().forEach((bend) => rows.get(bend.row).push(bend));
    const ordered = [...rows.keys()].sort((a, b) => a - b).map((row) => rows.get(row));
    tops = [];
    heights = [];
    let top = 0;
    ordered.forEach((all) => {
      const row = all[0].row;
      tops[row] = top;
      heights[row] = Math.max(...all.filter((each) => !each.bend).map((each) => each.height));
      top += heights[row] + BETWEEN;
      all.sort((a, b) => a.x - b.x);
      settle(all, (each) => each.x, (each) => (each.bend ? 1 : 8));
    });
    if (folded.size) align(ordered);
  }

  // Puts a row where it wants to be, as far as order and gaps allow.
  function settle(all, wish, weight) {
    let offset = 0;
    const offsets = all.map((each, at) => {
      offset += at ? (all[at - 1].width + each.width) / 2 + GAP : 0;
      return offset;
    });
    const placed = pooled(all.map((each, at) => wish(each) - offsets[at]), all.map(weight));
    all.forEach((each, at) => { each.x = placed[at] + offsets[at]; });
  }

  // What stands where it stood before others were folded is drawn together, as in columns.py.
  function align(ordered) {
    ordered.flat().forEach((each) => { each.above = []; each.below = []; });
    const join = (upper, lower) => {
      upper.below.push(lower);
      lower.above.push(upper);
    };
    data.wires.forEach((wire, place) => {
      if (wire.cut) return;
      const source = units[unitOf[wire.source]];
      const steps = [source, ...bends[place]];
      steps.slice(1).forEach((bend, at) => join(steps[at], bend));
      new Set(wire.targets.map((target) => units[unitOf[target]])).forEach((target) => {
        if (target.row > source.row) join(steps.filter((each) => each.row < target.row).pop(), target);
      });
    });
    const pull = (each, other) => [1, 0.1, 8][Number(Boolean(each.bend)) + Number(Boolean(other.bend))];
    const sum = (all, of) => all.reduce((total, each) => total + of(each), 0);
    const sweep = (rows, side) => rows.forEach((all) => {
      const weights = new Map(all.map((each) => [each, sum(each[side], (other) => pull(each, other))]));
      const wish = (each) => (weights.get(each) ? sum(each[side], (other) => pull(each, other) * other.x) / weights.get(each) : each.x);
      settle(all, wish, (each) => weights.get(each) || 0.001);
    });
    const upwards = [...ordered].reverse();
    for (let count = 0; count < SWEEPS; count += 1) {
      sweep(ordered, "above");
      sweep(upwards, "below");
    }
    const chained = (each) => each.above.length === 1 && each.above[0].below.length === 1;
    ordered.forEach((all) => settle(
      all,
      (each) => (chained(each) ? each.above[0].x : each.x),
      (each) => (!chained(each) ? 1 : each.bend ? 8 : 1000),
    ));
  }

  // --- drawing ------------------------------------------------------------------------------

  const curve = (x, y, endX, endY) => {
    const middle = (y + endY) / 2;
    return `M${x} ${y}C${x} ${middle} ${endX} ${middle} ${endX} ${endY}`;
  };

  function spread(unit, count) {
    const step = Math.min(22, (unit.width * 0.8) / Math.max(1, count));
    return Array.from({ length: count }, (_, each) => step * (each - (count - 1) / 2));
  }

  function ends() {
    const leaving = new Map(), arriving = new Map();
    data.wires.forEach((wire, place) => {
      const source = unitOf[wire.source];
      const targets = [...new Set(wire.targets.map((target) => unitOf[target]))].filter((unit) => unit !== source);
      if (!targets.length) return;
      if (!leaving.has(source)) leaving.set(source, []);
      leaving.get(source).push({ place, targets });
      targets.forEach((target) => {
        const before = bends[place].filter((bend) => bend.row < units[target].row).pop();
        if (!arriving.has(target)) arriving.set(target, []);
        arriving.get(target).push({ place, from: before ? before.x : units[source].x });
      });
    });
    return { leaving, arriving };
  }

  function drawWires(layer, labels) {
    const { leaving, arriving } = ends();
    const arrival = new Map();
    arriving.forEach((all, target) => {
      all.sort((a, b) => a.from - b.from || a.place - b.place);
      const shifts = spread(units[target], all.length);
      all.forEach((each, at) => arrival.set(`${target} ${each.place}`, units[target].x + shifts[at]));
    });
    leaving.forEach((all, source) => {
      const shifts = spread(units[source], all.length);
      all.forEach(({ place, targets }, at) => {
        const x = units[source].x + shifts[at];
        const y = tops[units[source].row] + units[source].height;
        const end = (target) => [arrival.get(`${target} ${place}`), tops[units[target].row] - HEAD];
        drawWire(layer, place, source, targets, x, y, end);
        svg(labels, "text", { x: x + 4, y: y + 15, class: "type" }, data.wires[place].short);
        if (data.wires[place].cut) {
          targets.forEach((target) => {
            const [endX, endY] = end(target);
            svg(labels, "text", { x: endX + 4, y: endY - 6, class: "type" }, data.wires[place].value.slice(-40));
          });
        }
      });
    });
  }

  function drawWire(layer, place, source, targets, x, y, end) {
    const tip = `m-3 0h6l-3 ${HEAD}z`;
    let path = "", back = false;
    if (data.wires[place].cut) {
      path = `M${x} ${y}v9m-4 0h8`;
      targets.forEach((target) => {
        const [endX, endY] = end(target);
        path += `M${endX} ${endY - 4}m-4 0h8m-4 0v9`;
      });
    } else {
      const steps = [...bends[place]];
      const below = targets.slice().sort((a, b) => units[a].row - units[b].row);
      let fromX = x, fromY = y;
      for (const target of below) {
        if (units[target].row <= units[source].row) {
          back = true;
          path += curve(x, y, ...end(target)) + tip;
          continue;
        }
        while (steps.length && steps[0].row < units[target].row) {
          const bend = steps.shift();
          path += `${curve(fromX, fromY, bend.x, tops[bend.row])}V${tops[bend.row] + heights[bend.row]}`;
          fromX = bend.x;
          fromY = tops[bend.row] + heights[bend.row];
        }
        path += curve(fromX, fromY, ...end(target)) + tip;
      }
    }
    const choose = (event) => { event.stopPropagation(); select({ wire: place }); };
    const group = svg(layer, "g", {});
    const line = svg(group, "path", { d: path, class: back ? "wire back" : "wire" });
    svg(group, "path", { d: path, class: "reach" }).addEventListener("click", choose);
    svg(group, "title", {}, `${data.wires[place].value}: ${data.wires[place].type}`);
    line.dataset.wire = place;
  }

  function drawUnit(layer, unit, number) {
    const top = tops[unit.row], left = unit.x - unit.width / 2;
    const group = svg(layer, "g", { class: "box" });
    const isScope = unit.scope !== undefined;
    const box = isScope ? null : data.boxes[unit.box];
    if (isScope) group.classList.add("scope");
    else if (box.port) group.classList.add("port");
    group.dataset.unit = number;
    const body = svg(group, "rect", { class: "body", x: left, y: top, width: unit.width, height: unit.height, rx: 5 });
    body.setAttribute("fill", fillOf(unit));
    const lines = isScope
      ? [`${unit.boxes.length} nodes`]
      : box.lines;
    const heading = isScope ? "▸ " + shortened(data.scopes[unit.scope].name, 30) : box.heading;
    svg(group, "text", { x: unit.x, y: top + LINE + 2, "text-anchor": "middle", "font-size": 11, "font-weight": "bold" }, heading);
    lines.forEach((line, at) => {
      svg(group, "text", { x: unit.x, y: top + LINE * (at + 2) + 1, "text-anchor": "middle", "font-size": 10 }, line);
    });
    if (box) drawRows(group, box, left, top + box.rowTop);
    if (isScope) drawShares(group, unit, left, top);
    drawMarks(group, unit, left, top);
    svg(group, "rect", { class: "halo", x: left - 3, y: top - 3, width: unit.width + 6, height: unit.height + 6, rx: 7 });
    const told = heat ? `\n${amount(heatOf(unit))} ${heat.unit}, ${share(heatOf(unit))} of all` : "";
    svg(group, "title", {}, (isScope ? data.scopes[unit.scope].path : box.full || box.name) + told);
  }

  // Alternatives and loops; coloured rows lie within one another.
  function drawRows(group, box, left, top) {
    box.rows.forEach(([words, depth, role, span], at) => {
      const x = left + INSET + STEP * depth, y = top + ROW * at;
      if (role) {
        const frame = { x, y, width: box.width - INSET - (x - left), height: ROW * span - 1, rx: 2, stroke: "#cccccc" };
        svg(group, "rect", { ...frame, fill: data.roles[role].fill });
      }
      const weight = role === "chosen" ? "bold" : "normal";
      svg(group, "text", { x: x + 3, y: y + ROW - 3, "font-size": 9, "font-weight": weight }, words);
    });
  }

  // --- heat ---------------------------------------------------------------------------------

  const heatOf = (unit) => unit.boxes.reduce((sum, box) => sum + heat.values[box], 0);
  const share = (value) => `${(heat.total ? (100 * value) / heat.total : 0).toFixed(1)} %`;

  function amount(value) {
    return value >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : figure(value);
  }

  // From white over orange to red, so that black text can be read on all of it.
  function warmth(part) {
    const stops = [[255, 255, 255], [255, 214, 140], [240, 110, 70]];
    const at = Math.min(1, Math.max(0, part)) * 2, first = Math.min(1, Math.floor(at));
    const mixed = stops[first].map((low, place) => Math.round(low + (stops[first + 1][place] - low) * (at - first)));
    return `rgb(${mixed.join(",")})`;
  }

  function fillOf(unit) {
    // Small parts of the whole are told apart, too.
    if (heat) return warmth(hottest ? Math.sqrt(heatOf(unit) / hottest) : 0);
    return unit.scope !== undefined ? "#ffffff" : data.kinds[data.boxes[unit.box].kind].fill;
  }

  let hottest = 0; // of the units that are visible

  function warmUp() {
    hottest = heat ? units.reduce((most, unit) => Math.max(most, heatOf(unit)), 0) : 0;
  }

  function colourBy(name) {
    heat = data.heats.find((each) => each.name === name) || null;
    if (heat) heat.total = heat.values.reduce((sum, value) => sum + value, 0);
    draw();
    legend();
  }

  function shortened(text, most) {
    return text.length <= most ? text : "…" + text.slice(text.length - most + 1);
  }

  // What kinds of nodes are inside a folded scope.
  function drawShares(group, unit, left, top) {
    const counts = new Map();
    unit.boxes.forEach((box) => {
      const kind = data.boxes[box].kind;
      counts.set(kind, (counts.get(kind) || 0) + 1);
    });
    let x = left + 8;
    const whole = unit.width - 16;
    [...counts].sort((a, b) => a[0] - b[0]).forEach(([kind, count]) => {
      const width = (whole * count) / unit.boxes.length;
      svg(group, "rect", { x, y: top + LINE * 2 + 8, width, height: 8, fill: data.kinds[kind].fill, stroke: "#777", "stroke-width": 0.5 });
      x += width;
    });
  }

  function drawMarks(group, unit, left, top) {
    const marks = [...new Set(unit.boxes.flatMap((box) => marksOf[box]))].sort((a, b) => a - b);
    marks.slice(0, 4).forEach((mark, at) => {
      const space = 4 * (at + 1);
      svg(group, "rect", {
        class: "marked", x: left - space, y: top - space, width: unit.width + 2 * space,
        height: unit.height + 2 * space, rx: 5 + space, fill: "none",
        stroke: data.marks[mark].colour, "stroke-width": 3,
      });
    });
  }

  function draw() {
    collect();
    place();
    warmUp();
    picture.replaceChildren();
    const all = svg(picture, "g", { id: "all" });
    const wires = svg(all, "g", {}), boxes = svg(all, "g", {}), labels = svg(all, "g", {});
    drawWires(wires, labels);
    units.forEach((unit, number) => drawUnit(boxes, unit, number));
    emphasize();
    drawMap();
    move();
    if (heat) legend();
  }

  // Shows what is found and chosen; draws nothing anew, so that a second click hits the same box.
  function emphasize() {
    picture.querySelectorAll(".box").forEach((group) => {
      const unit = units[Number(group.dataset.unit)];
      const is = chosen && (unit.scope !== undefined ? chosen.scope === unit.scope : chosen.box === unit.box);
      group.classList.toggle("chosen", Boolean(is));
      group.classList.toggle("found", unit.boxes.some((each) => found.has(each)));
    });
    picture.querySelectorAll(".wire").forEach((line) => {
      line.classList.toggle("chosen", Boolean(chosen && chosen.wire === Number(line.dataset.wire)));
    });
  }

  function move() {
    const all = document.getElementById("all");
    if (all) all.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
    showSeen();
  }

  // --- the map ------------------------------------------------------------------------------

  const map = document.getElementById("map");
  const MAP_WIDTH = 170, MAP_HEIGHT = 240, MAP_LEAST = 44;
  let onMap = null; // scale and offset of the map, and the frame around what is seen

  function drawMap() {
    map.querySelectorAll("rect").forEach((each) => each.remove());
    onMap = null;
    map.style.display = units.length ? "" : "none";
    if (!units.length) return;
    const { left, right, bottom } = extent();
    const scale = Math.min(MAP_WIDTH / (right - left + 40), MAP_HEIGHT / (bottom + 40));
    const width = Math.max(MAP_LEAST, scale * (right - left + 40)), height = Math.max(MAP_LEAST, scale * (bottom + 40));
    map.setAttribute("width", width);
    map.setAttribute("height", height);
    const x = width / 2 - (scale * (left + right)) / 2, y = (height - scale * bottom) / 2;
    units.forEach((unit) => svg(map, "rect", {
      x: x + scale * (unit.x - unit.width / 2), y: y + scale * tops[unit.row],
      width: Math.max(1, scale * unit.width), height: Math.max(0.8, scale * unit.height),
      fill: fillOf(unit), stroke: "#999", "stroke-width": 0.2,
    }));
    onMap = { scale, x, y, seen: svg(map, "rect", { class: "seen" }) };
  }

  function showSeen() {
    if (!onMap) return;
    const { scale, x, y, seen } = onMap;
    const part = scale / view.scale;
    seen.setAttribute("x", x - view.x * part);
    seen.setAttribute("y", y - view.y * part);
    seen.setAttribute("width", picture.clientWidth * part);
    seen.setAttribute("height", picture.clientHeight * part);
  }

  // Brings the place that was pointed at on the map to the middle of the picture.
  function goOnMap(event) {
    if (!onMap) return;
    const at = map.getBoundingClientRect();
    view.x = picture.clientWidth / 2 - (view.scale * (event.clientX - at.left - onMap.x)) / onMap.scale;
    view.y = picture.clientHeight / 2 - (view.scale * (event.clientY - at.top - onMap.y)) / onMap.scale;
    move();
  }

  // --- pictures to keep ---------------------------------------------------------------------

  const MOST_SIDE = 16000, MOST_PIXELS = 120e6;

  // The whole picture as an SVG that needs no page around it.
  function wholeSvg() {
    const { left, right, bottom } = extent();
    const width = right - left + 48, height = bottom + 72;
    const made = document.createElementNS(SVG, "svg");
    made.setAttribute("xmlns", SVG);
    made.setAttribute("viewBox", `${left - 24} -48 ${width} ${height}`);
    made.setAttribute("font-family", "sans-serif");
    svg(made, "style", {}, document.querySelector("style").textContent);
    svg(made, "rect", { x: left - 24, y: -48, width, height, fill: "#ffffff" });
    svg(made, "text", { x: left, y: -24, "font-size": 16, fill: "#222222" }, data.title + (heat ? `: ${heat.name}` : ""));
    const all = made.appendChild(document.getElementById("all").cloneNode(true));
    all.removeAttribute("transform");
    return { made, width, height };
  }

  function toPng(done) {
    const { made, width, height } = wholeSvg();
    const scale = Math.min(2, MOST_SIDE / width, MOST_SIDE / height, Math.sqrt(MOST_PIXELS / (width * height)));
    made.setAttribute("width", Math.ceil(width * scale));
    made.setAttribute("height", Math.ceil(height * scale));
    const text = new XMLSerializer().serializeToString(made);
    const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    const image = new Image();
    image.addEventListener("load", () => {
      const canvas = document.createElement("canvas");
      canvas.width = Math.ceil(width * scale);
      canvas.height = Math.ceil(height * scale);
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(address);
      canvas.toBlob(done, "image/png");
    });
    image.src = address;
  }

  function savePng() {
    toPng((blob) => {
      const anchor = document.createElement("a");
      anchor.download = `${data.title.replace(/[^\w.-]+/g, "_") || "network"}.png`;
      anchor.href = URL.createObjectURL(blob);
      anchor.click();
      setTimeout(() => URL.revokeObjectURL(anchor.href), 10000);
      document.documentElement.dataset.saved = `${anchor.download} ${blob.size}`;
    });
  }

  // --- moving about -------------------------------------------------------------------------

  function extent() {
    const all = [...units, ...bends.flat()];
    const lefts = all.map((each) => each.x - each.width / 2);
    const rights = all.map((each) => each.x + each.width / 2);
    const bottoms = units.map((unit) => tops[unit.row] + unit.height);
    const least = (numbers) => numbers.reduce((a, b) => Math.min(a, b), Infinity);
    const most = (numbers) => numbers.reduce((a, b) => Math.max(a, b), -Infinity);
    return { left: least(lefts), right: most(rights), bottom: most(bottoms) };
  }

  function whole() {
    if (!units.length) return;
    const { left, right, bottom } = extent();
    const width = picture.clientWidth, height = picture.clientHeight;
    view.scale = Math.min(1.5, width / (right - left + 60), height / (bottom + 60));
    view.x = width / 2 - (view.scale * (left + right)) / 2;
    view.y = height / 2 - (view.scale * bottom) / 2;
    move();
  }

  // The top of the network, large enough to read.
  function start() {
    if (!units.length) return;
    whole();
    if (view.scale >= 0.55) return;
    const { left, right } = extent();
    const first = units[0];
    view.scale = Math.max(0.55, Math.min(1, picture.clientWidth / (right - left + 60)));
    view.x = picture.clientWidth / 2 - view.scale * first.x;
    view.y = 120;
    move();
  }

  function zoom(factor, x, y) {
    const scale = Math.min(8, Math.max(0.01, view.scale * factor));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    move();
  }

  function goTo(box) {
    const unit = units[unitOf[box]];
    if (view.scale < 0.5) view.scale = 1;
    view.x = picture.clientWidth / 2 - view.scale * unit.x;
    view.y = picture.clientHeight / 2 - view.scale * (tops[unit.row] + unit.height / 2);
    move();
  }

  // Draws again after folding, with what was pointed at where it was.
  function redrawAround(box, change) {
    const place = () => {
      const unit = units[unitOf[box]];
      return [view.x + view.scale * unit.x, view.y + view.scale * tops[unit.row]];
    };
    const [x, y] = place();
    change();
    draw();
    const [newX, newY] = place();
    view.x += x - newX;
    view.y += y - newY;
    move();
  }

  function fold(scope) {
    redrawAround(members[scope][0], () => folded.add(scope));
    select({ scope });
  }

  function unfold(scope) {
    redrawAround(members[scope][0], () => folded.delete(scope));
    select({ scope });
  }

  function reveal(box) {
    if (chains[box].some((scope) => folded.has(scope))) {
      chains[box].forEach((scope) => folded.delete(scope));
      draw();
    }
    goTo(box);
    select({ box });
  }

  // --- details ------------------------------------------------------------------------------

  function select(what) {
    chosen = what;
    emphasize();
    details.replaceChildren();
    if (!what) return;
    const close = link(details, "×", () => select(null));
    close.className = "close";
    close.title = "close";
    if (what.box !== undefined) boxDetails(what.box);
    else if (what.scope !== undefined) scopeDetails(what.scope);
    else wireDetails(what.wire);
  }

  function rowsOf(parent, pairs) {
    const body = html(html(parent, "table"), "tbody");
    pairs.forEach(([name, value]) => {
      const row = html(body, "tr");
      html(row, "td", name);
      html(row, "td", value);
    });
  }

  function boxDetails(place) {
    const box = data.boxes[place];
    html(details, "h2", box.name);
    const heats = box.port ? [] : data.heats.map((each) => [each.name, `${amount(each.values[place])} ${each.unit}`]);
    const full = box.full ? [["name", box.full]] : [];
    rowsOf(details, [["op", box.op], ["kind", data.kinds[box.kind].name], ...heats, ...full]);
    section("attributes", box.attributes, (parent) => rowsOf(parent, box.attributes));
    section("inputs", box.inputs, (parent) => box.inputs.forEach((value) => valueLine(parent, value)));
    section("outputs", box.outputs, (parent) => box.outputs.forEach((value) => valueLine(parent, value)));
    section("made from", box.sources, (parent) => box.sources.forEach((name) => html(parent, "p", name)));
    section("by the rules", box.rules, (parent) => html(parent, "p", box.rules.join(", ")));
    section("marked", marksOf[place], (parent) =>
      marksOf[place].forEach((mark) => html(parent, "p", data.marks[mark].caption)));
    section("scopes", chains[place], (parent) =>
      chains[place].forEach((scope) => link(parent, "fold " + data.scopes[scope].path, () => fold(scope))));
    box.inputs.filter((value) => constants.get(value)).forEach((value) => constantDetails(value));
  }

  function section(title, all, fill) {
    if (!all.length) return;
    html(details, "h3", title);
    fill(details);
  }

  function valueLine(parent, value) {
    if (!value) {
      html(parent, "p", "(absent)");
    } else if (constants.get(value)) {
      html(parent, "p", `${value}: ${constants.get(value).type} constant`);
    } else if (wireOf.has(value)) {
      const wire = wireOf.get(value);
      link(parent, `${value}: ${data.wires[wire].type}`, () => select({ wire }));
    } else {
      html(parent, "p", `${value} (never read)`);
    }
  }

  function wireDetails(place) {
    const wire = data.wires[place];
    html(details, "h2", wire.value);
    html(details, "p", wire.type);
    html(details, "h3", "made by");
    link(details, data.boxes[wire.source].name, () => reveal(wire.source));
    html(details, "h3", "read by");
    wire.targets.forEach((target) => link(details, data.boxes[target].name, () => reveal(target)));
  }

  function scopeDetails(scope) {
    html(details, "h2", data.scopes[scope].path);
    html(details, "p", `${members[scope].length} nodes`);
    link(details, folded.has(scope) ? "unfold" : "fold", () => {
      if (folded.has(scope)) unfold(scope);
      else fold(scope);
    });
    const counts = new Map();
    members[scope].forEach((box) => counts.set(data.boxes[box].op, (counts.get(data.boxes[box].op) || 0) + 1));
    html(details, "h3", "ops");
    rowsOf(details, [...counts].sort((a, b) => b[1] - a[1]).map(([op, count]) => [op, String(count)]));
  }

  function constantDetails(value) {
    const constant = constants.get(value);
    html(details, "h3", value);
    html(details, "p", constant.type);
    if (constant.values.length) {
      html(details, "p", constant.values.map((each) => String(each)).join(", "));
      return;
    }
    if (!constant.sampled) return;
    if (constant.bins.length) histogram(constant);
    const parts = [
      `${figure(constant.low)} to ${figure(constant.high)}`,
      `mean ${figure(constant.mean)}`,
      `deviation ${figure(constant.deviation)}`,
      `${figure(100 * constant.zeros)} % zeros`,
    ];
    if (constant.strange) parts.push(`${constant.strange} not finite`);
    html(details, "p", parts.join(", "), "small");
    const number = (count) => count.toLocaleString("en");
    html(details, "p", constant.sampled === constant.size
      ? `${number(constant.size)} elements`
      : `${number(constant.sampled)} of ${number(constant.size)} elements, evenly spread`, "small");
  }

  function histogram(constant) {
    const drawing = svg(details, "svg", { class: "histogram", viewBox: `0 0 ${constant.bins.length} 100`, preserveAspectRatio: "none" });
    const highest = Math.max(...constant.bins);
    const width = (constant.high - constant.low) / constant.bins.length;
    constant.bins.forEach((count, at) => {
      const height = (96 * count) / highest;
      const bar = svg(drawing, "rect", { x: at + 0.05, y: 100 - height, width: 0.9, height });
      svg(bar, "title", {}, `${figure(constant.low + at * width)} to ${figure(constant.low + (at + 1) * width)}: ${count}`);
    });
  }

  // --- search -------------------------------------------------------------------------------

  const texts = data.boxes.map((box) =>
    [box.name, box.full, box.op, data.kinds[box.kind].name, ...box.attributes.map((pair) => pair.join("=")),
      ...box.inputs, ...box.outputs, ...box.sources, ...box.rules].join("\n").toLowerCase());

  let current = -1;

  function find() {
    const words = search.value.toLowerCase().split(/\s+/).filter((word) => word);
    const places = words.length
      ? data.boxes.map((_, place) => place).filter((place) => words.every((word) => texts[place].includes(word)))
      : [];
    found = new Set(places);
    current = -1;
    results.replaceChildren();
    if (words.length) html(results, "p", `${places.length} found`, "small");
    places.slice(0, MOST_RESULTS).forEach((place) => {
      link(results, `${data.boxes[place].op}  ${data.boxes[place].name}`, () => reveal(place));
    });
    emphasize();
  }

  function next() {
    const places = [...found];
    if (!places.length) return;
    current = (current + 1) % places.length;
    reveal(places[current]);
  }

  // --- the page -----------------------------------------------------------------------------

  function legend() {
    const parent = document.getElementById("legend");
    parent.replaceChildren();
    if (heat) heatLegend(parent);
    else data.kinds.forEach((kind) => {
      const entry = html(parent, "span");
      html(entry, "i").style.background = kind.fill;
      entry.append(kind.name);
    });
    const there = new Set(data.boxes.flatMap((box) => box.rows.map(([, , role]) => role)));
    Object.entries(data.roles).filter(([role]) => there.has(role)).forEach(([, role]) => {
      const entry = html(parent, "span");
      html(entry, "i").style.background = role.fill;
      entry.append(role.name);
    });
    data.marks.forEach((mark) => {
      let at = -1;
      const entry = link(parent, undefined, () => {
        if (!mark.boxes.length) return;
        at = (at + 1) % mark.boxes.length;
        reveal(mark.boxes[at]);
      });
      entry.className = "mark";
      entry.title = "go to the next one";
      html(entry, "i").style.borderColor = mark.colour;
      entry.append(`${mark.caption} (${mark.boxes.length})`);
    });
  }

  function heatLegend(parent) {
    const entry = html(parent, "div");
    entry.id = "scale";
    html(entry, "span", `${heat.name}, a box: 0`);
    const canvas = html(entry, "canvas");
    canvas.width = 120;
    canvas.height = 11;
    const context = canvas.getContext("2d");
    for (let x = 0; x < canvas.width; x += 1) {
      context.fillStyle = warmth(Math.sqrt(x / (canvas.width - 1)));
      context.fillRect(x, 0, 1, canvas.height);
    }
    html(entry, "span", `${amount(hottest)} ${heat.unit}`);
    html(entry, "span", `${amount(heat.total)} in all`, "small");
  }

  function firstFolds() {
    for (let depth = deepest; depth > 0; depth -= 1) {
      foldTo(depth);
      collect();
      if (units.length <= COMFORTABLE) return;
    }
    if (deepest && data.boxes.length > COMFORTABLE) foldTo(0);
  }

  let level = deepest;

  function step(by) {
    level = Math.min(deepest, Math.max(0, level + by));
    foldTo(level);
    draw();
    start();
  }

  document.getElementById("heading").textContent = data.title;
  document.getElementById("less").addEventListener("click", () => step(-1));
  document.getElementById("more").addEventListener("click", () => step(1));
  document.getElementById("fit").addEventListener("click", whole);
  document.getElementById("png").addEventListener("click", savePng);
  const choice = document.getElementById("heat");
  data.heats.forEach((each) => { html(choice, "option", each.name).value = each.name; });
  if (!data.heats.length) document.getElementById("colours").style.display = "none";
  choice.addEventListener("change", () => colourBy(choice.value));
  map.addEventListener("pointerdown", (event) => {
    map.setPointerCapture(event.pointerId);
    goOnMap(event);
  });
  map.addEventListener("pointermove", (event) => { if (event.buttons) goOnMap(event); });
  window.addEventListener("resize", showSeen);
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") next();
    if (event.key === "Escape") { search.value = ""; find(); search.blur(); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.target === search || event.target === choice) return;
    if (event.key === "/") { event.preventDefault(); search.focus(); }
    if (event.key === "f") whole();
    if (event.key === "Escape") select(null);
    if (event.key === "+") zoom(1.25, picture.clientWidth / 2, picture.clientHeight / 2);
    if (event.key === "-") zoom(0.8, picture.clientWidth / 2, picture.clientHeight / 2);
  });
  picture.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 500), event.clientX, event.clientY);
  }, { passive: false });

  const unitAt = (event) => {
    const group = event.target.closest && event.target.closest(".box");
    return group ? units[Number(group.dataset.unit)] : null;
  };
  let drag = null;
  picture.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, moved: false };
  });
  window.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const byX = event.clientX - drag.x, byY = event.clientY - drag.y;
    if (!drag.moved && Math.abs(byX) + Math.abs(byY) < 4) return;
    drag = { x: event.clientX, y: event.clientY, moved: true };
    picture.classList.add("dragged");
    view.x += byX;
    view.y += byY;
    move();
  });
  let wasDragged = false;
  window.addEventListener("pointerup", () => {
    wasDragged = Boolean(drag && drag.moved);
    drag = null;
    picture.classList.remove("dragged");
  });
  picture.addEventListener("click", (event) => {
    if (wasDragged) return;
    const unit = unitAt(event);
    if (unit) select(unit.scope !== undefined ? { scope: unit.scope } : { box: unit.box });
    else select(null);
  });
  picture.addEventListener("dblclick", (event) => {
    const unit = unitAt(event);
    if (!unit) return;
    if (unit.scope !== undefined) {
      unfold(unit.scope);
    } else if (chains[unit.box].length) {
      fold(chains[unit.box][chains[unit.box].length - 1]);
    }
  });

  legend();
  firstFolds();
  level = folded.size ? depthOf([...folded][0]) - 1 : deepest;
  draw();
  start();
  if (data.marks.length && data.marks[0].boxes.length) goTo(data.marks[0].boxes[0]);
  document.documentElement.dataset.ready = "yes";
})();
