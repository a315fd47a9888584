// How a heat map is painted: cells, section boundaries and labels.

const hatch = (context, palette) => {
  const tile = document.createElement('canvas');
  tile.width = 6;
  tile.height = 6;
  const pen = tile.getContext('2d');
  pen.strokeStyle = css(palette.muted, 0.55);
  pen.lineWidth = 1;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) { pen.moveTo(shift - 1, 7); pen.lineTo(shift + 7, -1); }
  pen.stroke();
  return context.createPattern(tile, 'repeat');
};

const fitText = (context, text, width) => {
  if (context.measureText(text).width <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle).trimEnd()}…`).width <= width) low = middle; else high = middle - 1;
  }
  return low > 0 ? `${text.slice(0, low).trimEnd()}…` : '';
};

// Sections as ranges of cells: [{label, section, from, to}], one a cell on the map of sections.
const groupsOf = (level, sideData) => {
  if (level === 'sections') return sideData.labels.map((label, i) => ({ label, section: i, from: i, to: i + 1 }));
  const passageOf = level === 'sentences' ? sideData.sentences : sideData.paragraphs.map(([first]) => sideData.sentences[first]);
  const sectionOf = level === 'passages' ? sideData.passages : passageOf.map((p) => sideData.passages[p]);
  const groups = [];
  sectionOf.forEach((section, i) => {
    const last = groups[groups.length - 1];
    if (last && last.section === section) last.to = i + 1;
    else groups.push({ label: sideData.labels[section], section, from: i, to: i + 1 });
  });
  return groups;
};

const FONT = '12px "Helvetica Neue", Arial, "Liberation Sans", sans-serif';
const SMALL_FONT = '11px "Helvetica Neue", Arial, "Liberation Sans", sans-serif';

const layOutMap = (context, width, height, map, view) => {
  const rows = view.r1 - view.r0;
  const columns = view.c1 - view.c0;
  context.font = FONT;
  const widest = (groups, from, to) => groups.filter((g) => g.to > from && g.from < to)
    .reduce((most, g) => Math.max(most, context.measureText(g.label).width), 0);
  const isSections = map.level === 'sections';
  const left = 22 + Math.min(widest(map.rowGroups, view.r0, view.r1) + 10, width * (isSections ? 0.34 : 0.26));
  const room = Math.max(40, width - left - 4);
  let cellWidth = Math.min(room / columns, isSections ? 120 : 72);
  const visible = map.columnGroups.filter((g) => g.to > view.c0 && g.from < view.c1);
  const narrowest = Math.min(...visible.map((g) => (Math.min(g.to, view.c1) - Math.max(g.from, view.c0)) * cellWidth));
  const level = narrowest >= 62;
  const top = 20 + (level ? 18 : Math.min(widest(map.columnGroups, view.c0, view.c1) + 10, height * 0.28));
  let cellHeight = Math.min(Math.max(20, height - top - 4) / rows, isSections ? 64 : 56);
  if (!isSections) {
    cellWidth = Math.min(cellWidth, cellHeight * 2.2);
    cellHeight = Math.min(cellHeight, cellWidth * 2.2);
  }
  return { left, top, cellWidth, cellHeight, rows, columns, level,
    right: left + cellWidth * columns, bottom: top + cellHeight * rows };
};

const paintCells = (context, box, view, measure, palette, patterned) => {
  const threshold = measure.threshold;
  const dimmed = palette.ramp.map((colour) => dim(colour, palette));
  const large = Math.min(box.cellWidth, box.cellHeight) >= 9 && box.rows * box.columns <= 20000;
  if (!large) {
    context.fillStyle = css(palette.line);
    context.fillRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
    context.fillStyle = patterned;
    context.fillRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
  }
  if (large) {
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.font = SMALL_FONT;
    const written = box.cellWidth >= 36 && box.cellHeight >= 19;
    for (let row = view.r0; row < view.r1; row += 1) {
      for (let column = view.c0; column < view.c1; column += 1) {
        const value = measure.at(row, column);
        const x = box.left + (column - view.c0) * box.cellWidth;
        const y = box.top + (row - view.r0) * box.cellHeight;
        const missing = Number.isNaN(value);
        const colour = missing ? null : (value >= threshold ? palette.ramp : dimmed)[measure.shade(value)];
        const cell = [x + 0.5, y + 0.5, box.cellWidth - 1, box.cellHeight - 1];
        context.fillStyle = missing ? css(palette.line, 0.5) : css(colour);
        context.fillRect(...cell);
        if (missing) { context.fillStyle = patterned; context.fillRect(...cell); }
        if (written && !missing) {
          context.fillStyle = value >= threshold ? css(inkOn(colour)) : css(palette.muted);
          const label = measure.name === 'contribution'
            ? formatShare(value, data.total) || formatSmall(value) : formatNumber(value, 2);
          context.fillText(label, x + box.cellWidth / 2, y + box.cellHeight / 2 + 0.5);
        }
      }
    }
    return;
  }
  const tile = document.createElement('canvas');
  tile.width = box.columns;
  tile.height = box.rows;
  const pen = tile.getContext('2d');
  const image = pen.createImageData(box.columns, box.rows);
  let at = 0;
  for (let row = view.r0; row < view.r1; row += 1) {
    for (let column = view.c0; column < view.c1; column += 1, at += 4) {
      const value = measure.at(row, column);
      if (!Number.isNaN(value)) {
        const colour = (value >= threshold ? palette.ramp : dimmed)[measure.shade(value)];
        image.data[at] = colour[0];
        image.data[at + 1] = colour[1];
        image.data[at + 2] = colour[2];
        image.data[at + 3] = 255;
      }
    }
  }
  pen.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = box.cellWidth < 0.5 || box.cellHeight < 0.5;
  context.drawImage(tile, box.left, box.top, box.right - box.left, box.bottom - box.top);
};

const paintFrame = (context, box, view, map, palette) => {
  const clip = (group, from, to) => [Math.max(group.from, from) - from, Math.min(group.to, to) - from];
  const placed = (groups, from, to, origin, size) => groups.filter((group) => group.to > from && group.from < to)
    .map((group) => { const [start, end] = clip(group, from, to); return { group, start: origin + start * size, end: origin + end * size }; });
  // Where not every label has room, the larger sections are named first.
  const named = (places, room) => {
    const taken = [];
    return [...places].sort((x, y) => (y.end - y.start) - (x.end - x.start)).filter(({ start, end }) => {
      const middle = (start + end) / 2;
      if (taken.some((other) => Math.abs(other - middle) < room)) return false;
      taken.push(middle);
      return true;
    });
  };
  const rows = placed(map.rowGroups, view.r0, view.r1, box.top, box.cellHeight);
  const columns = placed(map.columnGroups, view.c0, view.c1, box.left, box.cellWidth);
  const isSections = map.level === 'sections';
  context.strokeStyle = css(palette.dark ? palette.ink : palette.paper, palette.dark ? 0.35 : 1);
  // Over tiny cells a full line would hide what it divides.
  context.lineWidth = Math.max(0.4, Math.min(1, box.cellWidth / 3, box.cellHeight / 3));
  context.fillStyle = css(palette.ink);
  context.textBaseline = 'middle';
  context.beginPath();
  const ticks = new Path2D();
  for (const { start } of rows.slice(1)) {
    context.moveTo(box.left, start); context.lineTo(box.right, start);
    ticks.moveTo(box.left - 6, start); ticks.lineTo(box.left, start);
  }
  for (const { start } of columns.slice(1)) {
    context.moveTo(start, box.top); context.lineTo(start, box.bottom);
    ticks.moveTo(start, box.top - 6); ticks.lineTo(start, box.top);
  }
  if (!isSections) context.stroke();
  context.font = isSections && box.cellHeight >= 14 ? FONT : SMALL_FONT;
  context.textAlign = 'right';
  for (const { group, start, end } of named(rows, 10.5)) {
    context.fillText(fitText(context, group.label, box.left - 28), box.left - 8, (start + end) / 2);
  }
  context.font = isSections && box.cellWidth >= 14 ? FONT : SMALL_FONT;
  if (box.level) {
    context.textAlign = 'center';
    for (const { group, start, end } of columns) context.fillText(fitText(context, group.label, end - start - 8), (start + end) / 2, box.top - 9);
  } else {
    context.textAlign = 'left';
    for (const { group, start, end } of named(columns, 11.5)) {
      context.save();
      context.translate((start + end) / 2, box.top - 8);
      context.rotate(-Math.PI / 2);
      context.fillText(fitText(context, group.label, box.top - 26), 0, 0);
      context.restore();
    }
  }
  context.lineWidth = 1;
  context.strokeStyle = css(palette.line);
  context.stroke(ticks);
  context.font = `bold ${FONT}`;
  context.fillStyle = css(palette.muted);
  context.textAlign = 'left';
  context.fillText('B', box.left, 8);
  context.fillText('A', 2, box.top + 8);
  context.strokeStyle = css(palette.muted, 0.8);
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(box.left + 14, 8.5);
  context.lineTo(Math.min(box.right, box.left + 44), 8.5);
  context.moveTo(6.5, box.top + 20);
  context.lineTo(6.5, Math.max(box.top + 20, Math.min(box.bottom, box.top + 48)));
  context.stroke();
};

const paintMap = (context, width, height, map, view, measure, palette) => {
  const box = layOutMap(context, width, height, map, view);
  paintCells(context, box, view, measure, palette, hatch(context, palette));
  paintFrame(context, box, view, map, palette);
  return box;
};
