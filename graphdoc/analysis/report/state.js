// What the page knows: the matrices, what is shown, pointed at and selected, and how parts are named.

const names = { sections: 'Sections', passages: 'Passages', paragraphs: 'Paragraphs', sentences: 'Sentences' };
const letters = { a: 'A', b: 'B' };

const levels = {};
for (const [name, { rows, columns, similarity, contribution, attention }] of Object.entries(data.levels)) {
  const measured = (kind, values) => values && new Measure(kind, decode(values), rows, columns, data.self, kind === 'similarity' ? data.unrelated : null);
  levels[name] = {
    level: name, rows, columns, rowGroups: groupsOf(name, data.documents.a), columnGroups: groupsOf(name, data.documents.b),
    similarity: measured('similarity', similarity),
    contribution: measured('contribution', contribution),
    // The head and direction that are chosen.
    get attention() { return attention && attentionOf(attention, rows, columns); },
  };
}

const severalSections = levels.sections.rows * levels.sections.columns > 3;
const state = {
  level: severalSections ? 'sections' : 'passages',
  measure: 'similarity', direction: 'to_b', head: 'mean', tool: 'map', pointed: null, selection: null, focus: null,
  // The pair of paragraphs whose sentence pairs are shown.
  aligned: null,
};

const palette = () => (isDark() ? DARK : LIGHT);
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
const colourOf = (matrix, value) => (Number.isFinite(value) ? css(palette().ramp[matrix.shade(value)]) : 'transparent');

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
