// Names on the map: those of groups, and titles where there is room; none covers another.

class Labels {
  constructor(context) { this.context = context; this.boxes = []; }

  start() { this.boxes = []; }

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
    const { context } = this;
    context.textBaseline = 'middle';
    context.lineJoin = 'round';
    middles.forEach(([x, y], group) => {
      const [sx, sy] = [camera.toScreenX(x), camera.toScreenY(y)];
      if (!camera.sees(sx, sy, 40) || (state.group !== null && state.group !== group)) return;
      const [first, ...others] = data.groups[group].words.length ? data.groups[group].words : [groupNames[group]];
      const size = Math.min(19, 10.5 + 1.3 * Math.log2(1 + membersOf[group].length / (count / 200)) + Math.min(3, camera.zoom - 1)) * (camera.width < 600 ? 0.88 : 1);
      const more = others.slice(0, 2).join(', ');
      const large = `600 ${size}px ${fonts.sans}`;
      const small = `${Math.max(10.5, size - 3)}px ${fonts.sans}`;
      context.font = large;
      let width = context.measureText(first).width;
      context.font = small;
      width = Math.max(width, context.measureText(more).width);
      const height = more ? 2 * size + 2 : size + 4;
      // A name that would be cut at the edge is moved inside.
      const cx = Math.max(width / 2 + 4, Math.min(camera.width - width / 2 - 4, sx));
      for (const shift of [0, -height * 0.7, height * 0.7, -height * 1.3, height * 1.3]) {
        if (!this.take(cx - width / 2, sy + shift - height / 2, width, height)) continue;
        const colour = state.field === 'group' && !faint ? shade(hueOfGroup[group], 'text') : fonts.ink;
        context.font = large;
        this.write(first, cx, sy + shift - (more ? size / 2 : 0), colour, paper);
        context.font = small;
        if (more) this.write(more, cx, sy + shift + size / 2 + 1, colour, paper);
        break;
      }
    });
  }

  // Titles of documents, those with the closest neighbours first.
  titles(rows, camera, paper, must = false) {
    const { context } = this;
    context.textBaseline = 'middle';
    context.lineJoin = 'round';
    context.font = `${must ? '600 ' : ''}12px ${fonts.sans}`;
    for (const row of rows) {
      const [sx, sy] = [camera.toScreenX(documents.x[row]), camera.toScreenY(documents.y[row])];
      const title = data.titles[row].length > 44 ? `${data.titles[row].slice(0, 43)}…` : data.titles[row];
      const width = context.measureText(title).width;
      const side = sx + 9 + width > camera.width && sx > camera.width / 2 ? -1 : 1;
      const beside = side > 0 ? sx + 8 : sx - 8 - width;
      const left = must ? Math.max(4, Math.min(camera.width - width - 4, beside)) : beside;
      // What has to be named is named below or above where another name is in the way.
      const shift = (must ? [0, 17, -17, 34] : [0]).find((by) => this.take(left, sy + by - 8, width, 16));
      if (shift !== undefined) this.write(title, left, sy + shift, fonts.ink, paper, 'left');
    }
  }
}

const fonts = { sans: 'sans-serif', ink: '#000', paper: '#fff', accent: '#c00', focus: '#00f' };
const readFonts = () => {
  const style = getComputedStyle(root);
  for (const name of ['sans', 'ink', 'paper', 'accent', 'focus']) fonts[name] = style.getPropertyValue(`--${name}`).trim();
};
