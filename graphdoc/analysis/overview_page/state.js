// What the page knows: the documents, and what is shown, pointed at, selected and found.

const count = data.titles.length;
const places = (packed) => Float32Array.from(unpack(packed, Uint16Array), (value) => value / 32767.5 - 1);
const documents = {
  x: places(data.x),
  y: places(data.y),
  group: unpack(data.group, Int16Array),
  length: unpack(data.length, Uint32Array),
  closeness: unpack(data.closeness, Int16Array),
};
const near = {
  width: data.neighbours.width,
  rows: unpack(data.neighbours.rows, Uint32Array),
  scores: unpack(data.neighbours.scores, Int16Array),
};
const wordEnds = (() => {
  const ends = new Uint32Array(count + 1);
  unpack(data.words.counts, Uint16Array).forEach((own, row) => { ends[row + 1] = ends[row] + own; });
  return ends;
})();
const wordPlaces = unpack(data.words.places, Uint32Array);
const wordsOf = (row) => Array.from(wordPlaces.subarray(wordEnds[row], wordEnds[row + 1]), (place) => data.words.list[place]);
const groupNames = data.groups.map((group) => group.name);
const membersOf = groupNames.map(() => []);
documents.group.forEach((group, row) => { if (group >= 0) membersOf[group].push(row); });

const state = {
  // The document that was clicked last, and the one before it: a pair.
  selected: null, before: null,
  pointed: null, group: null, field: 'group',
  // Rows that a search has found, as a set; null without a search.
  found: null,
};

const formatScore = (tenThousandths) => formatNumber(tenThousandths / 10000);
// A cosine that the page knows: that of neighbours; null for others.
const scoreOf = (a, b) => {
  for (const [from, to] of [[a, b], [b, a]]) {
    for (let i = from * near.width; i < (from + 1) * near.width; i += 1) if (near.rows[i] === to) return near.scores[i];
  }
  return null;
};
// Whether a document is among those that are looked at: found by the search and of the picked group.
const isShown = (row) => (state.group === null || documents.group[row] === state.group) && (state.found === null || state.found.has(row));
const isFiltered = () => state.group !== null || state.found !== null;

// Colours of groups, names and dates, for light and for dark; close groups get different ones.

const HUES = [252, 40, 150, 310, 85, 200, 15, 120, 280, 60, 175, 340];
const OTHERS = 12;

const shade = (hue, part) => {
  const odd = HUES.indexOf(hue) % 2;
  if (part === 'text') return isDark() ? `oklch(0.84 0.09 ${hue})` : `oklch(0.43 0.13 ${hue})`;
  return isDark() ? `oklch(${odd ? 0.8 : 0.7} 0.13 ${hue})` : `oklch(${odd ? 0.66 : 0.56} 0.16 ${hue})`;
};
const muted = (part) => (isDark() ? (part === 'text' ? '#a19e97' : '#6d7178') : part === 'text' ? '#635f57' : '#b3ada1');

// Dates run from blue over green to yellow.
const dateColour = (share) => (isDark() ? `oklch(${0.45 + 0.45 * share} 0.13 ${280 - 190 * share})` : `oklch(${0.34 + 0.44 * share} 0.14 ${280 - 190 * share})`);
const DATE_STEPS = 32;

const middles = membersOf.map((rows) => {
  const middle = (values) => Float32Array.from(rows, (row) => values[row]).sort()[rows.length >> 1];
  return [middle(documents.x), middle(documents.y)];
});

// The largest groups choose first: the hue whose groups are farthest away.
const hueOfGroup = (() => {
  const chosen = [];
  middles.forEach(([x, y], group) => {
    const distances = HUES.map((hue, order) => Math.min(10 - order / 1000, ...chosen.flatMap((other, at) => (other === hue ? [Math.hypot(x - middles[at][0], y - middles[at][1])] : []))));
    chosen[group] = HUES[distances.indexOf(Math.max(...distances))];
  });
  return chosen;
})();

const fields = new Map([['group', { name: 'group', kind: 'group' }]]);
for (const field of data.fields) {
  const values = unpack(field.values, field.kind === 'date' ? Uint32Array : Uint16Array);
  const unpacked = { ...field, values };
  if (field.kind === 'date') {
    const there = values.filter((value) => value > 0);
    unpacked.low = there.reduce((least, value) => Math.min(least, value), Infinity);
    unpacked.high = there.reduce((most, value) => Math.max(most, value), 0);
  }
  fields.set(field.name === 'group' ? 'group (metadata)' : field.name, unpacked);
}

// The kind of a document in the chosen field, a small number that stands for a colour; -1 for none.
const kindsOf = (field) => {
  const kinds = new Int16Array(count);
  for (let row = 0; row < count; row += 1) {
    if (field.kind === 'group') kinds[row] = documents.group[row];
    else if (field.kind === 'date') kinds[row] = field.values[row] ? Math.round((DATE_STEPS - 1) * (field.values[row] - field.low) / (field.high - field.low || 1)) : -1;
    else kinds[row] = field.values[row] === 65535 ? -1 : Math.min(OTHERS, field.values[row]);
  }
  return kinds;
};
const colourOfKind = (field, kind, part) => {
  if (kind < 0 || (field.kind === 'names' && kind >= OTHERS)) return muted(part);
  if (field.kind === 'group') return shade(hueOfGroup[kind], part);
  return field.kind === 'date' ? dateColour(kind / (DATE_STEPS - 1)) : shade(HUES[kind], part);
};
const valueIn = (field, row) => {
  if (field.kind === 'group') return documents.group[row] < 0 ? '' : groupNames[documents.group[row]];
  if (field.kind === 'date') return field.shown[row];
  return field.values[row] === 65535 ? '' : field.list[field.values[row]];
};
