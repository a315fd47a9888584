// Where the map is looked at from: scale and place, moved by dragging, wheel, pinch and keys.

class Camera {
  constructor() { this.width = 1; this.height = 1; this.all(); }

  all() { this.zoom = 1; this.x = 0; this.y = 0; }

  get scale() { return (Math.min(this.width, this.height) / 2 - 26) * this.zoom; }

  // Where a place of the map is on the screen, and where a document is.
  toScreen(x, y) { return [(x - this.x) * this.scale + this.width / 2, (y - this.y) * this.scale + this.height / 2]; }

  at(row) { return this.toScreen(documents.x[row], documents.y[row]); }

  pan(dx, dy) {
    this.x = Math.max(-1.2, Math.min(1.2, this.x - dx / this.scale));
    this.y = Math.max(-1.2, Math.min(1.2, this.y - dy / this.scale));
  }

  // Zoom so that what is at a place of the screen stays there.
  zoomAt(factor, sx = this.width / 2, sy = this.height / 2) {
    const [x, y] = [this.x + (sx - this.width / 2) / this.scale, this.y + (sy - this.height / 2) / this.scale];
    this.zoom = Math.max(0.7, Math.min(200, this.zoom * factor));
    this.x = x - (sx - this.width / 2) / this.scale;
    this.y = y - (sy - this.height / 2) / this.scale;
  }

  lookAt(rows) {
    if (!rows.length) return;
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const row of rows) {
      left = Math.min(left, documents.x[row]); right = Math.max(right, documents.x[row]);
      top = Math.min(top, documents.y[row]); bottom = Math.max(bottom, documents.y[row]);
    }
    this.x = (left + right) / 2;
    this.y = (top + bottom) / 2;
    this.zoom = 1;
    const room = Math.min((this.width - 120) / (right - left || 1e-6), (this.height - 120) / (bottom - top || 1e-6));
    this.zoom = Math.max(1, Math.min(12, room / this.scale));
  }

  sees([x, y], margin = 0) {
    return x >= -margin && y >= -margin && x <= this.width + margin && y <= this.height + margin;
  }
}

// Names on the map: those of groups, and titles where there is room; none covers another.

class Labels {
  constructor(context) { this.context = context; this.boxes = []; }

  start(camera) {
    this.boxes = [];
    // Of many documents, those of other groups would leave no place.
    this.dots = count > 1000 ? null : Array.from({ length: count }, (_, row) => camera.at(row));
    Object.assign(this.context, { textBaseline: 'middle', lineJoin: 'round' });
  }

  // Take a place if nothing is there yet.
  take(left, top, width, height) {
    const box = [left - 3, top - 2, left + width + 3, top + height + 2];
    if (this.boxes.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) return false;
    this.boxes.push(box);
    return true;
  }

  write(text, x, y, colour, paper, align = 'center') {
    const { context } = this;
    context.textAlign = align;
    context.lineWidth = 4;
    context.strokeStyle = paper;
    context.strokeText(text, x, y);
    context.fillStyle = colour;
    context.fillText(text, x, y);
  }

  groups(camera, paper, faint) {
    const { context, dots: all } = this;
    middles.forEach(([x, y], group) => {
      const [sx, sy] = camera.toScreen(x, y);
      if (!camera.sees([sx, sy], 40) || (state.group !== null && state.group !== group)) return;
      const [first, ...others] = groupNames[group].split(', ');
      const size = Math.min(19, 10.5 + 1.3 * Math.log2(1 + membersOf[group].length / (count / 200)) + Math.min(3, camera.zoom - 1)) * (camera.width < 600 ? 0.88 : 1);
      const more = others.slice(0, 2).join(', ');
      const [large, small] = [`600 ${size}px ${fonts.sans}`, `${Math.max(10.5, size - 3)}px ${fonts.sans}`];
      context.font = large;
      let width = context.measureText(first).width;
      context.font = small;
      width = Math.max(width, context.measureText(more).width);
      const height = more ? 2 * size + 2 : size + 4;
      const own = Array.from(membersOf[group], (row) => camera.at(row));
      for (let step = all ? -80 : 0; step < 40; step += 1) {
        // Around the middle where no document is; if there is no place, above or below where none of its group is.
        const [dots, far] = step < 0 ? [all, 14 * Math.sqrt(step + 80)] : [own, Math.ceil(step / 2) * height * 0.4];
        const [right, down] = step < 0 ? [Math.cos(2.4 * step), Math.sin(2.4 * step)] : [0, step % 2 ? -1 : 1];
        // A name that would be cut at the edge is moved inside.
        const cx = Math.max(width / 2 + 4, Math.min(camera.width - width / 2 - 4, sx + far * right));
        const cy = Math.max(height / 2 + 4, Math.min(camera.height - height / 2 - 4, sy + far * down));
        if (dots.some(([x, y]) => Math.abs(x - cx) < width / 2 + 4 && Math.abs(y - cy) < height / 2 + 4)) continue;
        if (!this.take(cx - width / 2, cy - height / 2, width, height)) continue;
        const colour = state.field === 'group' && !faint ? shade(hueOfGroup[group], 'text') : fonts.ink;
        context.font = large;
        this.write(first, cx, cy - (more ? size / 2 : 0), colour, paper);
        context.font = small;
        if (more) this.write(more, cx, cy + size / 2 + 1, colour, paper);
        break;
      }
    });
  }

  // Titles of documents, those with the closest neighbours first.
  titles(rows, camera, paper, must = false) {
    const { context } = this;
    context.font = `${must ? '600 ' : ''}12px ${fonts.sans}`;
    for (const row of rows) {
      const [sx, sy] = camera.at(row);
      const title = data.titles[row].length > 44 ? `${data.titles[row].slice(0, 43)}…` : data.titles[row];
      const width = context.measureText(title).width;
      const side = sx + 9 + width > camera.width && sx > camera.width / 2 ? -1 : 1;
      const beside = side > 0 ? sx + 8 : sx - 8 - width;
      const left = must ? Math.max(4, Math.min(camera.width - width - 4, beside)) : beside;
      // What has to be named is named below or above where another name is in the way.
      const hides = (by) => !must && this.dots?.some(([x, y]) => x > left - 4 && x < left + width + 4 && Math.abs(y - sy - by) < 11);
      const shift = (must ? [0, 17, -17, 34] : [0, -9, 9]).find((by) => !hides(by) && this.take(left, sy + by - 8, width, 16));
      if (shift !== undefined) this.write(title, left, sy + shift, fonts.ink, paper, 'left');
    }
  }
}

const fonts = { sans: 'sans-serif', ink: '#000', paper: '#fff', accent: '#c00', focus: '#00f' };
const readFonts = () => {
  fonts.sans = getComputedStyle(root).getPropertyValue('--sans').trim();
  // A canvas wants colours as they are now, in light or in dark.
  const probe = document.body.appendChild(make('i'));
  for (const name of ['ink', 'paper', 'accent', 'focus']) {
    probe.style.color = `var(--${name})`;
    fonts[name] = getComputedStyle(probe).color;
  }
  probe.remove();
};

// The map: points on a canvas, redrawn whenever something changes, and what pointers and keys do on it.

class DocumentMap {
  constructor(canvas, act) {
    this.canvas = canvas;
    this.act = act;
    this.context = canvas.getContext('2d', { alpha: false });
    this.camera = new Camera();
    this.labels = new Labels(this.context);
    this.pointers = new Map();
    this.stamps = new Map();
    this.cursor = null;
    this.wire();
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
  }

  resize() {
    const { width, height } = this.canvas.parentElement.getBoundingClientRect();
    if (!width || !height) return;
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    Object.assign(this.camera, { width, height });
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    this.draw();
  }

  // Colours have changed: by another field, or by light and dark.
  recolour() {
    readFonts();
    this.stamps.clear();
    this.field = fields.get(state.field);
    this.kinds = kindsOf(this.field);
    this.draw();
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  radius() {
    const crowd = count > 8000 ? 1.7 : count > 2500 ? 2.3 : count > 600 ? 3.2 : 4.6;
    const room = Math.max(0.62, Math.min(1.15, Math.min(this.camera.width, this.camera.height) / 800));
    return Math.min(7, room * crowd * Math.min(2.6, 0.85 + 0.3 * Math.log2(1 + this.camera.zoom)));
  }

  // A dot in a colour is drawn once, and stamped wherever it is needed.
  stamp(colour, radius, faint) {
    const key = `${colour} ${radius.toFixed(1)} ${faint}`;
    let dot = this.stamps.get(key);
    if (!dot) {
      const size = Math.ceil((radius + 1) * this.ratio) * 2;
      dot = document.createElement('canvas');
      dot.width = size;
      dot.height = size;
      const context = dot.getContext('2d');
      context.globalAlpha = faint ? 0.16 : 0.86;
      context.fillStyle = colour;
      context.beginPath();
      context.arc(size / 2, size / 2, radius * this.ratio, 0, 2 * Math.PI);
      context.fill();
      if (radius > 2.6 && !faint) {
        context.globalAlpha = 0.9;
        context.lineWidth = 0.8 * this.ratio;
        context.strokeStyle = fonts.paper;
        context.stroke();
      }
      if (this.stamps.size > 400) this.stamps.clear();
      this.stamps.set(key, dot);
    }
    return dot;
  }

  paint() {
    const { context, camera, ratio } = this;
    if (!ratio || !this.kinds) return;
    const radius = this.radius();
    context.setTransform(1, 0, 0, 1, 0, 0);
    this.paintPoints(radius);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.labels.start(camera);
    this.paintSelection(radius);
    const filtered = isFiltered();
    const inView = [];
    if (!this.dragging) {
      for (let row = 0; row < count; row += 1) {
        if (isShown(row) && camera.sees(camera.at(row))) inView.push(row);
      }
    }
    const titled = camera.zoom > 1.6 || count <= 60 || (filtered && inView.length <= 30);
    if (this.dragging || (inView.length && (!titled || inView.length > 14))) this.labels.groups(camera, fonts.paper, filtered && state.group === null);
    if (titled && inView.length <= 220) {
      const first = inView.sort((a, b) => documents.closeness[b] - documents.closeness[a]).slice(0, 120);
      this.labels.titles(first, camera, fonts.paper);
    }
    this.canvas.dataset.zoom = camera.zoom.toFixed(3);
  }

  paintPoints(radius) {
    const { context, camera, ratio } = this;
    const { width, height } = this.canvas;
    context.fillStyle = fonts.paper;
    context.fillRect(0, 0, width, height);
    const filtered = isFiltered();
    const scale = camera.scale * ratio;
    const [left, top] = [width / 2 - camera.x * scale, height / 2 - camera.y * scale];
    const stamps = [];
    const room = 12 * ratio;
    // Documents in no group first, then all others; with a filter those that it leaves out before both.
    for (const pass of filtered ? [0, 1] : [1]) {
      for (const grey of [true, false]) {
        for (let row = 0; row < count; row += 1) {
          const kind = this.kinds[row];
          if ((kind < 0) !== grey || (filtered && Number(isShown(row)) !== pass)) continue;
          const [x, y] = [documents.x[row] * scale + left, documents.y[row] * scale + top];
          if (x < -room || y < -room || x > width + room || y > height + room) continue;
          const at = 2 * (kind + 1) + pass;
          stamps[at] ??= this.stamp(colourOfKind(this.field, kind), radius * (grey && !filtered ? 0.8 : 1), filtered && pass === 0);
          const dot = stamps[at];
          context.drawImage(dot, Math.round(x - dot.width / 2), Math.round(y - dot.width / 2));
        }
      }
    }
  }

  ring(row, radius, colour, width = 2.5) {
    const { context, camera } = this;
    context.beginPath();
    context.arc(...camera.at(row), radius, 0, 2 * Math.PI);
    context.lineWidth = width;
    context.strokeStyle = colour;
    context.stroke();
  }

  // Lines to the neighbours of the selected document, the line of a pair, and rings.
  paintSelection(radius) {
    const { context, camera } = this;
    const line = (from, to, strokeStyle, lineWidth, globalAlpha) => {
      Object.assign(context, { strokeStyle, lineWidth, globalAlpha });
      context.beginPath();
      context.moveTo(...camera.at(from));
      context.lineTo(...camera.at(to));
      context.stroke();
      context.globalAlpha = 1;
    };
    const { selected, before, pointed } = state;
    const named = [];
    if (selected !== null) {
      for (const other of near.rows.subarray(selected * near.width, (selected + 1) * near.width)) line(selected, other, fonts.ink, 1, 0.35);
      if (before !== null) {
        line(before, selected, fonts.accent, 2, 1);
        this.ring(before, radius + 3, fonts.accent);
        named.push(before);
      }
      this.ring(selected, radius + 4, fonts.accent, 3);
      named.unshift(selected);
    }
    const pointer = this.cursor !== null && document.activeElement === this.canvas ? this.cursor : pointed;
    if (pointer !== null && pointer !== selected) this.ring(pointer, radius + 4, fonts.focus);
    if (this.cursor !== null && pointer === this.cursor) named.push(pointer);
    this.labels.titles(named, camera, fonts.paper, true);
  }

  nearestTo(sx, sy, reach = 14) {
    const { camera } = this;
    let [best, least] = [null, reach * reach];
    const filtered = isFiltered();
    for (let row = 0; row < count; row += 1) {
      const [x, y] = camera.at(row);
      // What a filter leaves out is harder to hit.
      const distance = ((x - sx) ** 2 + (y - sy) ** 2) * (filtered && !isShown(row) ? 9 : 1);
      if (distance < least) { least = distance; best = row; }
    }
    return best;
  }

  place(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  wire() {
    const { canvas, camera, pointers } = this;
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button) return;
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, this.place(event));
      this.moved = pointers.size > 1 ? 99 : 0;
      this.cursor = null;
    });
    canvas.addEventListener('pointermove', (event) => {
      const [x, y] = this.place(event);
      if (!pointers.has(event.pointerId)) {
        if (event.pointerType !== 'touch') this.act.point(this.nearestTo(x, y), x, y);
        return;
      }
      const [beforeX, beforeY] = pointers.get(event.pointerId);
      const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      pointers.set(event.pointerId, [x, y]);
      this.moved += Math.hypot(x - beforeX, y - beforeY);
      if (others.length) {
        const [[ox, oy]] = others;
        camera.pan((x - beforeX) / 2, (y - beforeY) / 2);
        camera.zoomAt(Math.hypot(x - ox, y - oy) / Math.max(1, Math.hypot(beforeX - ox, beforeY - oy)), (x + ox) / 2, (y + oy) / 2);
      } else if (this.moved > 4) {
        camera.pan(x - beforeX, y - beforeY);
        this.dragging = true;
        this.act.point(null);
      }
      this.draw();
    });
    const lift = (event) => {
      if (!pointers.delete(event.pointerId)) return;
      const [x, y] = this.place(event);
      if (event.type === 'pointerup' && this.moved <= 4) {
        const row = this.nearestTo(x, y, event.pointerType === 'touch' ? 24 : 14);
        if (row === null) this.act.clear();
        else this.act.select(row);
      }
      this.dragging = false;
      this.draw();
    };
    canvas.addEventListener('pointerup', lift);
    canvas.addEventListener('pointercancel', lift);
    canvas.addEventListener('pointerleave', () => { if (!pointers.size) this.act.point(null); });
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      camera.zoomAt(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...this.place(event));
      this.act.point(null);
      this.draw();
    }, { passive: false });
    canvas.addEventListener('keydown', (event) => this.key(event));
    for (const name of ['focus', 'blur']) canvas.addEventListener(name, () => this.draw());
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { camera } = this;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) this.step(...step);
    else if (event.key === '+' || event.key === '=') camera.zoomAt(1.5);
    else if (event.key === '-') camera.zoomAt(1 / 1.5);
    else if (event.key === '0') camera.all();
    else if ((event.key === 'Enter' || event.key === ' ') && this.cursor !== null) this.act.select(this.cursor);
    else return;
    event.preventDefault();
    this.draw();
  }

  // The nearest document in a direction.
  step(dx, dy) {
    const { camera } = this;
    const from = this.cursor ?? state.selected ?? this.nearestTo(camera.width / 2, camera.height / 2, Infinity);
    let [best, least] = [this.cursor === null ? from : null, Infinity];
    if (this.cursor !== null) {
      for (let row = 0; row < count; row += 1) {
        if (row === from || !isShown(row)) continue;
        const [x, y] = [documents.x[row] - documents.x[from], documents.y[row] - documents.y[from]];
        const along = x * dx + y * dy;
        const across = Math.abs(x * dy) + Math.abs(y * dx);
        if (along <= 0 || across > along) continue;
        if (along + 2 * across < least) { least = along + 2 * across; best = row; }
      }
    }
    if (best === null) return;
    this.cursor = best;
    this.reveal(best);
    this.act.say(best);
  }

  lookAt(rows) { this.camera.lookAt(rows); this.draw(); }

  // Bring a document into view without a change of scale.
  reveal(row) {
    const { camera } = this;
    if (!camera.sees(camera.at(row), -30)) Object.assign(camera, { x: documents.x[row], y: documents.y[row] });
    this.draw();
  }
}
