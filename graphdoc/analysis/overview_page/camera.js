// Where the map is looked at from: scale and place, moved by dragging, wheel, pinch and keys.

class Camera {
  constructor() { this.width = 1; this.height = 1; this.all(); }

  all() { this.zoom = 1; this.x = 0; this.y = 0; }

  get scale() { return (Math.min(this.width, this.height) / 2 - 26) * this.zoom; }

  toScreenX(x) { return (x - this.x) * this.scale + this.width / 2; }

  toScreenY(y) { return (y - this.y) * this.scale + this.height / 2; }

  pan(dx, dy) {
    this.x = Math.max(-1.2, Math.min(1.2, this.x - dx / this.scale));
    this.y = Math.max(-1.2, Math.min(1.2, this.y - dy / this.scale));
  }

  // Zoom so that what is at a place of the screen stays there.
  zoomAt(factor, sx, sy) {
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

  sees(x, y, margin = 0) {
    return x >= -margin && y >= -margin && x <= this.width + margin && y <= this.height + margin;
  }
}
