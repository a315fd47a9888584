// Numbers and scales.

const MISSING = -32768;
const SLIDER_STEPS = 200;
// The share of the colours that is for what unrelated passages reach.
const PALE = 0.2;

const formatSmall = (value) =>
  Number.isFinite(value) ? (value === 0 ? '0' : value.toPrecision(3).replace(/-/g, '−')) : 'no value';

const formatShare = (value, whole) => {
  if (!Number.isFinite(value) || whole === null || Math.abs(whole) < 0.01) return '';
  const percent = (100 * value) / whole;
  const size = Math.abs(percent);
  return `${percent.toFixed(size >= 10 ? 0 : size >= 1 ? 1 : size >= 0.01 ? 2 : 4).replace('-', '−')} %`;
};

const decode = ({ step, values }) => Float32Array.from(unpack(values, Int16Array), (cell) => (cell === MISSING ? NaN : cell * step));

// A matrix with its scale. Where it is known which similarity unrelated passages seldom exceed, the scale is that of every
// page, from 0 to 1, and pale up to there; else it runs from the 1st percentile to the maximum.
class Measure {
  constructor(name, values, rows, columns, within, unrelated = null) {
    this.name = name;
    this.unrelated = unrelated;
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
    const isFixed = unrelated !== null || !count;
    this.high = isFixed ? 1 : this.sorted[count - 1];
    this.low = isFixed ? 0 : this.sorted[Math.floor(0.01 * count)];
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
    const known = this.unrelated;
    let part = (value - this.low) / (this.high - this.low);
    if (known !== null) part = value <= known ? (PALE * value) / known : PALE + ((1 - PALE) * (value - known)) / (1 - known);
    return Math.max(0, Math.min(255, Math.round(255 * part)));
  }

  format(value) {
    if (this.name === 'contribution') return formatSmall(value);
    // Where attention is spread over many passages, three decimals would make all of it one number.
    return formatNumber(value, this.name === 'attention' && this.high < 0.1 ? 4 : 3);
  }
}

// Attention between passages in the chosen direction: of the chosen head, or the mean of all; unpacked when it is first looked at.
const unpackedAttention = new Map();
const attentionOf = (packed, rows, columns) => {
  const { direction, head } = state;
  const key = `${direction} ${head}`;
  if (!unpackedAttention.has(key)) {
    const own = (head === 'mean' ? packed[direction] : [packed[direction][head - 1]]).map(decode);
    const values = own[0].map((_, i) => own.reduce((sum, weights) => sum + weights[i], 0) / own.length);
    const heads = head !== 'mean' ? `head ${head}` : packed.heads > 1 ? `mean of ${packed.heads} heads` : '';
    const measure = new Measure('attention', values, rows, columns, false);
    unpackedAttention.set(key, Object.assign(measure, { direction, heads, isWithin: !packed.to_a }));
  }
  return unpackedAttention.get(key);
};

// What the numbers of a measure are, in a few words.
const describe = (measure) => {
  if (measure.name !== 'attention') return measure.name;
  const [looks, seen] = measure.isWithin ? ['rows', 'columns'] : measure.direction === 'to_b' ? ['A', 'B'] : ['B', 'A'];
  return [`attention of ${looks} to ${seen}`, measure.heads].filter(Boolean).join(', ');
};

const explain = (measure) => {
  if (measure.name === 'contribution') return 'How much of the score of the documents is due to a pair; below 0 it lowers it.';
  if (measure.name !== 'attention' && measure.unrelated === null) return 'Colours span this page alone, and dark need not mean alike: how alike unrelated passages are to this model is not known.';
  if (measure.name !== 'attention') return `Pale up to ${measure.format(measure.unrelated)}, which 1 in 100 pairs of unrelated passages exceeds.`;
  const ofRows = measure.direction === 'to_b';
  const title = describe(measure).replace('a', 'A');
  if (measure.isWithin) {
    return `${title}: how much attention every passage (row) pays to each of the next section (columns), the last section to the first; the only passage of a section gets all of it, whatever the model learned.`;
  }
  const [looks, seen] = ofRows ? ['A', 'B'] : ['B', 'A'];
  const count = ofRows ? measure.columns : measure.rows;
  // The colours span the weights there are, so the page says how little they may differ.
  const isEven = measure.high < 1.1 / count && count > 1;
  return `${title}: how much attention every passage of ${looks} pays to each of ${seen}; every ${ofRows ? 'row' : 'column'} adds up to 1. `
    + `Spread evenly, every weight would be ${measure.format(1 / count)}${isEven ? ': these are nearly even, and hardly separate passages' : ''}.`;
};

// The strongest pairs [row, column] of a measure.
const strongestPairs = (measure, count) => {
  if (!measure.strongest) {
    const cells = [];
    for (let i = 0; i < measure.values.length; i += 1) if (!Number.isNaN(measure.values[i])) cells.push(i);
    cells.sort((x, y) => measure.values[y] - measure.values[x] || x - y);
    measure.strongest = cells.slice(0, count).map((i) => [Math.floor(i / measure.columns), i % measure.columns]);
  }
  return measure.strongest;
};

// Colours: OKLab, so that equal steps of the value are equal steps of lightness, from the paper's to full ink.
const HUES = [[98, 0.018], [165, 0.085], [210, 0.105], [252, 0.125], [282, 0.12]];

const toRgb = (lightness, chroma, hue) => {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((linear) => {
    const value = Math.max(0, Math.min(1, linear));
    return Math.round(255 * (value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055));
  });
};

const makeRamp = (dark) => Array.from({ length: 256 }, (_, step) => {
  const t = step / 255;
  const place = (dark ? 1 - t : t) * (HUES.length - 1);
  const left = Math.min(Math.floor(place), HUES.length - 2);
  const [hue, chroma] = [0, 1].map((i) => HUES[left][i] + (HUES[left + 1][i] - HUES[left][i]) * (place - left));
  return toRgb(dark ? 0.27 + 0.68 * t : 0.965 - 0.685 * t, chroma, hue);
});

const css = ([red, green, blue], alpha = 1) => `rgb(${red} ${green} ${blue} / ${alpha})`;

const LIGHT = {
  dark: false, ramp: makeRamp(false), paper: [253, 252, 250], ink: [28, 27, 25], muted: [106, 102, 94],
  line: [222, 217, 207], accent: [201, 60, 18],
};
const DARK = {
  dark: true, ramp: makeRamp(true), paper: [22, 24, 28], ink: [236, 233, 227], muted: [158, 155, 148],
  line: [52, 56, 62], accent: [255, 139, 92],
};

// Half of the distance to the paper and more: the pattern stays visible, the strong cells stand out.
const dim = (colour, palette) => colour.map((part, i) => Math.round(part * 0.22 + palette.paper[i] * 0.78));

const inkOn = ([red, green, blue]) => (0.299 * red + 0.587 * green + 0.114 * blue > 140 ? [20, 20, 20] : [255, 255, 255]);

const fitCanvas = (canvas, width, height) => {
  const ratio = window.devicePixelRatio || 1;
  const [pixelWidth, pixelHeight] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== pixelWidth || canvas.height !== pixelHeight) {
    canvas.width = pixelWidth;
    canvas.height = pixelHeight;
  }
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
};

const drawHistogram = (canvas, measure, palette) => {
  const inset = 9; // half of the slider's handle, so that handle and bars share one axis
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width) return;
  const context = fitCanvas(canvas, width, height);
  const bins = Math.max(20, Math.min(80, Math.floor((width - 2 * inset) / 6)));
  const counts = new Uint32Array(bins);
  for (const value of measure.sorted) {
    const t = (value - measure.low) / (measure.high - measure.low);
    counts[Math.max(0, Math.min(bins - 1, Math.floor(t * bins)))] += 1;
  }
  const tallest = Math.max(...counts, 1);
  const step = (width - 2 * inset) / bins;
  const base = height - 10;
  const limit = measure.position / SLIDER_STEPS;
  for (let bin = 0; bin < bins; bin += 1) {
    const shade = measure.shade(measure.low + ((bin + 0.5) / bins) * (measure.high - measure.low));
    const colour = palette.ramp[shade];
    const x = inset + bin * step;
    // A square root keeps the few strong pairs visible among thousands of weak ones.
    const tall = counts[bin] ? Math.max(2, Math.sqrt(counts[bin] / tallest) * (base - 4)) : 0;
    const held = (bin + 1) / bins <= limit;
    context.fillStyle = css(held ? palette.line : palette.dark ? colour : palette.ramp[Math.max(60, shade)]);
    context.fillRect(x, base - tall, Math.max(1, step - 1), tall);
    context.fillStyle = css(colour);
    context.fillRect(x, base + 2, step + 0.5, 6);
  }
  context.strokeStyle = css(palette.line);
  context.strokeRect(inset - 0.5, base + 1.5, width - 2 * inset + 1, 7);
};
