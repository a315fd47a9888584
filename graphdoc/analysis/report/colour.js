// Colours, and the histogram that is at once the legend and the slider's track.

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
    const colour = palette.ramp[Math.round(((bin + 0.5) / bins) * 255)];
    const x = inset + bin * step;
    // A square root keeps the few strong pairs visible beside thousands of weak ones.
    const tall = counts[bin] ? Math.max(2, Math.sqrt(counts[bin] / tallest) * (base - 4)) : 0;
    const held = (bin + 1) / bins <= limit;
    context.fillStyle = css(held ? palette.line : palette.dark ? colour : palette.ramp[Math.max(60, Math.round(((bin + 0.5) / bins) * 255))]);
    context.fillRect(x, base - tall, Math.max(1, step - 1), tall);
    context.fillStyle = css(colour);
    context.fillRect(x, base + 2, step + 0.5, 6);
  }
  context.strokeStyle = css(palette.line);
  context.strokeRect(inset - 0.5, base + 1.5, width - 2 * inset + 1, 7);
  const zero = -measure.low / (measure.high - measure.low);
  if (zero > 0.02 && zero < 0.98) {
    context.fillStyle = css(palette.ink);
    context.fillRect(inset + zero * (width - 2 * inset), base, 1, 10);
  }
};
