// What the page knows: the matrices, what is shown, pointed at and selected, and how parts are named.

const find = (selector) => document.querySelector(selector);
const data = JSON.parse(find('#data').textContent);
const root = document.documentElement;
const narrow = window.matchMedia('(max-width: 899.98px)');
const prefersDark = window.matchMedia('(prefers-color-scheme: dark)');
const names = { sections: 'Sections', passages: 'Passages', paragraphs: 'Paragraphs', sentences: 'Sentences' };
const letters = { a: 'A', b: 'B' };

const levels = {};
for (const [name, level] of Object.entries(data.levels)) {
  const [similarity, contribution] = [decode(level.similarity), decode(level.contribution)];
  const attention = level.attention && new ChunkwiseAttention(level.attention, level.rows, level.columns);
  const [a, b] = [data.documents.a, data.documents.b];
  levels[name] = {
    level: name, rows: level.rows, columns: level.columns, rowGroups: groupsOf(name, a), columnGroups: groupsOf(name, b),
    similarity: new Measure('similarity', similarity, level.rows, level.columns, data.self),
    contribution: contribution && new Measure('contribution', contribution, level.rows, level.columns, data.self),
    // The head and direction that are chosen.
    get attention() { return attention?.measure(state.direction, state.head); },
  };
  if (contribution) levels[name].contribution.whole = data.document;
}

const severalSections = levels.sections && levels.sections.rows * levels.sections.columns > 3;
const state = {
  level: severalSections || !levels.passages ? 'sections' : 'passages',
  measure: 'similarity', direction: 'to_b', head: 'mean', panel: 'map', tool: 'map', pointed: null, selection: null, focus: null,
  // The pair of paragraphs whose sentence pairs are shown.
  aligned: null,
};

let printing = false;
const palette = () => {
  if (printing) return LIGHT;
  const chosen = root.dataset.theme;
  return (chosen ? chosen === 'dark' : prefersDark.matches) ? DARK : LIGHT;
};
const map = () => levels[state.level];
// A level without the chosen measure shows similarity, and so does everything else then.
const shownName = () => (map()[state.measure] ? state.measure : 'similarity');
const measureAt = (level) => levels[level][shownName()] || levels[level].similarity;
const measure = () => measureAt(state.level);
const sectionOf = (side, level, index) => {
  const parts = data.documents[side];
  if (level === 'sections') return index;
  return parts.passages[level === 'passages' ? index : parts.sentences[level === 'paragraphs' ? parts.paragraphs[index][0] : index]];
};
const labelOf = (side, level, index) => data.documents[side].labels[sectionOf(side, level, index)];
const colourOf = (found, value) => (Number.isFinite(value) ? css(palette().ramp[found.shade(value)]) : 'transparent');
const nameOf = (level, count = 2) => (count === 1 ? level.slice(0, -1) : level);

let scheduled = false;
const act = {
  point: (cell, byKey) => { state.pointed = cell; showReadout(); if (byKey) announce(cell); },
  select: ([a, b]) => select(state.level, a, b),
  step: (by) => step(by),
  focus: (side, index, sentence) => {
    if (state.tool === 'alignment' && sentence !== null) openPairOf(side, sentence);
    else if (state.tool === 'subtopics' && sentence !== null) chooseSubtopicOf(side, sentence);
    else focusPassage(side, index);
  },
  scrolled: () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => { scheduled = false; showRibbons(); });
  },
};
const pane = (side) => new TextPane(find(`#pane-${side}`), act, data.documents[side].paragraphs);
const panes = { a: pane('a'), b: pane('b') };
const heatMap = new HeatMap(find('#map'), act);
let wordCounts = null;
