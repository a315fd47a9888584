// The heat map on the page: pointing, keys, zoom, and the cursor on a separate canvas above the cells.

class HeatMap {
  constructor(element, act) {
    this.element = element;
    this.cells = element.querySelector('#map-cells');
    this.overlay = element.querySelector('#map-cursor');
    this.act = act;
    this.hover = null;
    this.cursor = null;
    element.addEventListener('pointermove', (event) => this.onMove(event));
    element.addEventListener('pointerleave', () => this.setHover(null));
    element.addEventListener('pointerdown', (event) => this.onDown(event));
    element.addEventListener('click', (event) => this.onClick(event));
    element.addEventListener('keydown', (event) => this.onKey(event));
    element.addEventListener('wheel', (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.7 : 1 / 0.7, this.cellAt(event));
    }, { passive: false });
    new ResizeObserver(() => this.draw()).observe(element);
  }

  show(map, measure, palette) {
    if (this.map !== map) {
      this.map = map;
      this.cursor = null;
      this.hover = null;
      this.view = { r0: 0, r1: map.rows, c0: 0, c1: map.columns };
    }
    this.measure = measure;
    this.palette = palette;
    this.draw();
  }

  get zoomed() { return this.view.r1 - this.view.r0 < this.map.rows || this.view.c1 - this.view.c0 < this.map.columns; }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!this.map || !width || !height) return;
    this.box = paintMap(fitCanvas(this.cells, width, height), width, height, this.map, this.view, this.measure, this.palette);
    this.element.classList.toggle('zoomed', this.zoomed);
    // Where the cells are, for whoever drives the page from outside.
    const { left, top, cellWidth, cellHeight } = this.box;
    this.element.dataset.cells = [left, top, cellWidth, cellHeight].join(' ');
    this.drawCursor();
  }

  drawCursor() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!this.box || !width) return;
    const { box, view, palette } = this;
    const context = fitCanvas(this.overlay, width, height);
    const outline = ([row, column], colour, thickness) => {
      if (row < view.r0 || row >= view.r1 || column < view.c0 || column >= view.c1) return;
      const grow = Math.max(0, (7 - Math.min(box.cellWidth, box.cellHeight)) / 2);
      context.lineWidth = thickness + 2;
      context.strokeStyle = css(palette.paper);
      const rectangle = [box.left + (column - view.c0) * box.cellWidth - grow, box.top + (row - view.r0) * box.cellHeight - grow,
        box.cellWidth + 2 * grow, box.cellHeight + 2 * grow];
      context.strokeRect(...rectangle);
      context.lineWidth = thickness;
      context.strokeStyle = css(colour);
      context.strokeRect(...rectangle);
    };
    const cross = (row, column, colour, alpha) => {
      context.fillStyle = css(colour, alpha);
      if (row !== null && row >= view.r0 && row < view.r1) {
        const y = box.top + (row - view.r0) * box.cellHeight;
        context.fillRect(box.left - 4, y - 1, box.right - box.left + 8, 1.5);
        context.fillRect(box.left - 4, y + box.cellHeight - 0.5, box.right - box.left + 8, 1.5);
      }
      if (column !== null && column >= view.c0 && column < view.c1) {
        const x = box.left + (column - view.c0) * box.cellWidth;
        context.fillRect(x - 1, box.top - 4, 1.5, box.bottom - box.top + 8);
        context.fillRect(x + box.cellWidth - 0.5, box.top - 4, 1.5, box.bottom - box.top + 8);
      }
    };
    const { selected, focusRow, focusColumn } = this.marks || {};
    if (focusRow !== undefined && focusRow !== null) cross(focusRow, null, palette.accent, 0.9);
    if (focusColumn !== undefined && focusColumn !== null) cross(null, focusColumn, palette.accent, 0.9);
    if (selected) { cross(selected[0], selected[1], palette.accent, 0.55); outline(selected, palette.accent, 2.5); }
    const pointed = this.hover || (document.activeElement === this.element ? this.cursor : null);
    if (!pointed || String(pointed) === String(selected)) return;
    cross(pointed[0], pointed[1], palette.ink, 0.28);
    outline(pointed, palette.ink, 2);
  }

  cellAt(event) {
    if (!this.box) return null;
    const frame = this.element.getBoundingClientRect();
    const x = event.clientX - frame.left - this.element.clientLeft;
    const y = event.clientY - frame.top - this.element.clientTop;
    const { box, view } = this;
    if (x < box.left || x >= box.right || y < box.top || y >= box.bottom) return null;
    return [Math.min(view.r1 - 1, view.r0 + Math.floor((y - box.top) / box.cellHeight)),
      Math.min(view.c1 - 1, view.c0 + Math.floor((x - box.left) / box.cellWidth))];
  }

  setHover(cell) {
    const same = cell && this.hover && cell[0] === this.hover[0] && cell[1] === this.hover[1];
    if (same || (!cell && !this.hover)) return;
    this.hover = cell;
    this.drawCursor();
    this.act.point(cell);
  }

  onMove(event) {
    if (this.drag) {
      const rows = Math.round((this.drag.y - event.clientY) / this.box.cellHeight);
      const columns = Math.round((this.drag.x - event.clientX) / this.box.cellWidth);
      if (Math.hypot(this.drag.x - event.clientX, this.drag.y - event.clientY) > 5) this.drag.moved = true;
      if (this.drag.moved) {
        this.moveView(this.drag.view.r0 + rows, this.drag.view.c0 + columns);
        return;
      }
    }
    if (event.pointerType === 'mouse') this.setHover(event.target.closest('button') ? null : this.cellAt(event));
  }

  onDown(event) {
    if (event.target.closest('button') || !this.map || !this.zoomed || event.button !== 0) return;
    this.drag = { x: event.clientX, y: event.clientY, view: { ...this.view }, moved: false };
    const drop = () => { this.wasDragged = Boolean(this.drag?.moved); this.drag = null; };
    window.addEventListener('pointerup', drop, { once: true });
    window.addEventListener('pointercancel', drop, { once: true });
  }

  onClick(event) {
    if (event.target.closest('button')) return;
    if (this.wasDragged) { this.wasDragged = false; return; }
    const cell = this.cellAt(event);
    if (!cell) return;
    this.cursor = cell;
    this.act.select(cell);
  }

  moveView(row, column) {
    const { rows, columns } = this.map;
    const [tall, wide] = [this.view.r1 - this.view.r0, this.view.c1 - this.view.c0];
    const r0 = Math.max(0, Math.min(rows - tall, row));
    const c0 = Math.max(0, Math.min(columns - wide, column));
    this.view = { r0, r1: r0 + tall, c0, c1: c0 + wide };
    this.draw();
  }

  zoom(factor, around) {
    const { rows, columns } = this.map;
    const [row, column] = around || this.cursor || (this.marks?.selected)
      || [(this.view.r0 + this.view.r1) >> 1, (this.view.c0 + this.view.c1) >> 1];
    const size = (from, to, all) => Math.max(Math.min(all, 4), Math.min(all, Math.round((to - from) * factor)));
    const tall = size(this.view.r0, this.view.r1, rows);
    const wide = size(this.view.c0, this.view.c1, columns);
    const share = (value, from, to) => (value + 0.5 - from) / Math.max(1, to - from);
    const r0 = Math.round(row + 0.5 - share(row, this.view.r0, this.view.r1) * tall);
    const c0 = Math.round(column + 0.5 - share(column, this.view.c0, this.view.c1) * wide);
    this.view = { r0: 0, r1: tall, c0: 0, c1: wide };
    this.moveView(r0, c0);
  }

  setView(view) { this.view = view; this.draw(); }

  reset() { this.setView({ r0: 0, r1: this.map.rows, c0: 0, c1: this.map.columns }); }

  moveCursor(row, column) {
    const { rows, columns } = this.map;
    this.cursor = [Math.max(0, Math.min(rows - 1, row)), Math.max(0, Math.min(columns - 1, column))];
    this.hover = null;
    this.bringIntoView(this.cursor);
    this.drawCursor();
    this.act.point(this.cursor, true);
  }

  bringIntoView([row, column]) {
    const { view } = this;
    const [tall, wide] = [view.r1 - view.r0, view.c1 - view.c0];
    const shift = (value, from, size) => (value < from ? value : value >= from + size ? value - size + 1 : from);
    const [r0, c0] = [shift(row, view.r0, tall), shift(column, view.c0, wide)];
    if (r0 !== view.r0 || c0 !== view.c0) this.moveView(r0, c0);
  }

  nextGroup(groups, at, step) {
    const current = groups.findIndex((group) => at >= group.from && at < group.to);
    const group = groups[Math.max(0, Math.min(groups.length - 1, current + step))];
    return step < 0 && groups[current].from < at ? groups[current].from : group.from;
  }

  onKey(event) {
    if (event.target !== this.element || event.altKey || event.metaKey) return;
    const [row, column] = this.cursor || (this.marks?.selected) || [this.view.r0, this.view.c0];
    const first = !this.cursor && !(this.marks?.selected);
    const far = event.shiftKey && this.map.level !== 'sections';
    const { rowGroups, columnGroups, rows, columns } = this.map;
    const actions = {
      ArrowUp: () => this.moveCursor(far ? this.nextGroup(rowGroups, row, -1) : row - (first ? 0 : 1), column),
      ArrowDown: () => this.moveCursor(far ? this.nextGroup(rowGroups, row, 1) : row + (first ? 0 : 1), column),
      ArrowLeft: () => this.moveCursor(row, far ? this.nextGroup(columnGroups, column, -1) : column - (first ? 0 : 1)),
      ArrowRight: () => this.moveCursor(row, far ? this.nextGroup(columnGroups, column, 1) : column + (first ? 0 : 1)),
      Home: () => this.moveCursor(event.ctrlKey ? 0 : row, event.ctrlKey ? column : 0),
      End: () => this.moveCursor(event.ctrlKey ? rows - 1 : row, event.ctrlKey ? column : columns - 1),
      Enter: () => this.act.select([row, column]),
      ' ': () => this.act.select([row, column]),
      n: () => this.act.step(1),
      p: () => this.act.step(-1),
      '+': () => this.zoom(0.6),
      '=': () => this.zoom(0.6),
      '-': () => this.zoom(1 / 0.6),
      0: () => this.reset(),
    };
    const action = actions[event.key] || (event.ctrlKey ? null : actions[event.key.toLowerCase()]);
    if (!action || (event.ctrlKey && !['Home', 'End'].includes(event.key))) return;
    event.preventDefault();
    action();
  }
}
