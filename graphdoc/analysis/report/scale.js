// Numbers and scales.

const MISSING = -32768;
const SLIDER_STEPS = 200;

const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

const formatNumber = (value, decimals = 3) =>
  Number.isFinite(value) ? value.toFixed(decimals).replace('-', '−') : 'no value';

const formatSmall = (value) =>
  Number.isFinite(value) ? (value === 0 ? '0' : value.toPrecision(3).replace(/-/g, '−')) : 'no value';

const formatShare = (value, whole) => {
  if (!Number.isFinite(value) || whole === null || Math.abs(whole) < 0.01) return '';
  const percent = (100 * value) / whole;
  const size = Math.abs(percent);
  return `${percent.toFixed(size >= 10 ? 0 : size >= 1 ? 1 : size >= 0.01 ? 2 : 4).replace('-', '−')} %`;
};

const decode = (packed) => {
  if (!packed) return null;
  const text = atob(packed.values);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  const cells = new Int16Array(bytes.buffer);
  const values = new Float32Array(cells.length);
  for (let i = 0; i < cells.length; i += 1) values[i] = cells[i] === MISSING ? NaN : cells[i] * packed.step;
  return values;
};

// A matrix with its scale: the colours run from the 1st percentile to the maximum, the slider over the same range.
class Measure {
  constructor(name, values, rows, columns, within) {
    this.name = name;
    this.values = values;
    this.rows = rows;
    this.columns = columns;
    const kept = new Float32Array(values.length);
    let count = 0;
    for (let row = 0; row < rows; row += 1) {
      // Within one document a pair stands in the matrix twice and is counted once.
      for (let column = within ? row + 1 : 0; column < columns; column += 1) {
        const value = values[row * columns + column];
        if (!Number.isNaN(value)) { kept[count] = value; count += 1; }
      }
    }
    this.sorted = kept.subarray(0, count).sort();
    this.high = count ? this.sorted[count - 1] : 1;
    this.low = count ? this.sorted[Math.floor(0.01 * count)] : 0;
    if (!(this.high > this.low)) this.low = this.high - (Math.abs(this.high) || 1) / 10;
    // Few pairs are all worth seeing; of many, the strongest tenth makes the pattern.
    const shown = Math.max(10, Math.ceil(0.1 * count));
    this.position = count <= 12 ? 0 : Math.floor(this.toPosition(this.sorted[count - shown]));
  }

  toPosition(value) {
    return Math.max(0, Math.min(SLIDER_STEPS, ((value - this.low) / (this.high - this.low)) * SLIDER_STEPS));
  }

  // At the far left nothing is held back, not even what lies below the scale.
  get threshold() {
    if (this.position <= 0) return -Infinity;
    if (this.position >= SLIDER_STEPS) return this.high;
    return this.low + ((this.high - this.low) * this.position) / SLIDER_STEPS;
  }

  get countAbove() {
    const threshold = this.threshold;
    let low = 0;
    let high = this.sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.sorted[middle] < threshold) low = middle + 1; else high = middle;
    }
    return this.sorted.length - low;
  }

  at(row, column) { return this.values[row * this.columns + column]; }

  shade(value) {
    return Math.max(0, Math.min(255, Math.round(((value - this.low) / (this.high - this.low)) * 255)));
  }

  format(value) {
    if (this.name === 'contribution') return formatSmall(value);
    // Where attention is spread over many passages, three decimals would make all of it one number.
    return formatNumber(value, this.name === 'attention' && this.high < 0.1 ? 4 : 3);
  }
}
