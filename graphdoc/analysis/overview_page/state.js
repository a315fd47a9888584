// What the page knows: the documents, and what is shown, pointed at, selected and found.

const find = (selector) => document.querySelector(selector);
const data = JSON.parse(find('#data').textContent);
const root = document.documentElement;
const narrow = window.matchMedia('(max-width: 899.98px)');
const prefersDark = window.matchMedia('(prefers-color-scheme: dark)');
const isDark = () => (root.dataset.theme ? root.dataset.theme === 'dark' : prefersDark.matches);

const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

const unpack = (text, Kind) => {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) bytes[i] = raw.charCodeAt(i);
  return new Kind(bytes.buffer);
};

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

const formatCount = (value) => value.toLocaleString('en-US');
const formatScore = (tenThousandths) => (tenThousandths / 10000).toFixed(3).replace('-', '−');
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
