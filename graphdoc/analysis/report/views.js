// Everything that is redrawn when the state changes.

const showMap = () => {
  const { selection, focus } = state;
  heatMap.marks = {
    selected: selection && selection.level === state.level ? [selection.a, selection.b] : null,
    focusRow: focus && focus.side === 'a' && state.level === 'passages' ? focus.index : null,
    focusColumn: focus && focus.side === 'b' && state.level === 'passages' ? focus.index : null,
  };
  heatMap.show(map(), measure(), palette());
  find('#map').setAttribute('aria-label', `${names[state.level]} of A by ${state.level} of B, ${describe(measure())}: ${map().rows} rows, ${map().columns} columns`);
};

const showMarks = () => {
  const matrix = measureAt('passages');
  const highest = (values) => values.reduce((most, value) => (Number.isNaN(value) || most >= value ? most : value), NaN);
  for (const side of ['a', 'b']) {
    const isOther = state.focus && state.focus.side !== side;
    const best = isOther ? rowOf(state.focus.side, state.focus.index) : panes[side].passages.map((_, index) => highest(rowOf(side, index)));
    panes[side].mark(best, matrix, palette());
  }
};

const showRibbons = () => {
  // Ribbons of other pairs would hide which sentences have one colour.
  if (state.tool === 'subtopics') { drawRibbons(find('#gutter'), panes.a, panes.b, [], palette()); return; }
  const level = state.level === 'paragraphs' && !state.focus ? 'paragraphs' : 'passages';
  const matrix = measureAt(level);
  const colours = palette();
  const ribbons = [];
  const add = (a, b, alpha) => {
    const value = matrix.at(a, b);
    if (!(value >= matrix.threshold)) return;
    ribbons.push({ level, a, b, colour: colours.ramp[Math.max(colours.dark ? 40 : 70, matrix.shade(value))], alpha });
  };
  if (state.focus) {
    for (const { other } of bestOf(state.focus.side, state.focus.index, 5)) {
      if (state.focus.side === 'a') add(state.focus.index, other, 0.5); else add(other, state.focus.index, 0.5);
    }
  } else if (data.alignment && state.tool === 'alignment') {
    ribbons.push(...alignedRibbons(colours));
  } else {
    for (const link of matrix.name === 'attention' ? listOf(matrix).links : linksOf[level]) add(Number(link.dataset.a), Number(link.dataset.b), state.selection ? 0.1 : 0.22);
  }
  const { selection } = state;
  if (selection && state.aligned === null) {
    // A sentence stands for its passage.
    const isSentence = selection.level === 'sentences';
    const shown = isSentence ? 'passages' : selection.level;
    const place = (side) => (isSentence ? data.documents[side].sentences[selection[side]] : selection[side]);
    ribbons.push({ level: shown, a: place('a'), b: place('b'), colour: colours.accent, alpha: shown === 'passages' ? 0.28 : 0.16, edge: true });
  } else if (selection?.level === 'sentences') ribbons.push({ ...selection, colour: colours.accent, alpha: 0.5, edge: true });
  drawRibbons(find('#gutter'), panes.a, panes.b, ribbons, colours);
};
const linksOf = {};
for (const level of ['passages', 'paragraphs']) linksOf[level] = [...document.querySelectorAll(`.match-list .pair[data-level="${level}"]`)];

// The list of a head and direction; those of similarity came with the page.
const attentionLists = new Map();
const listOf = (matrix) => {
  if (!attentionLists.has(matrix)) {
    const items = strongestPairs(matrix, 20).map(([a, b]) => {
      const item = make('li', '', find('#pair').content.cloneNode(true));
      const link = item.querySelector('.pair');
      Object.assign(link.dataset, { a, b });
      link.href = `#a-p${a + 1}`;
      link.querySelector('.score').textContent = matrix.format(matrix.at(a, b));
      for (const [place, [side, index]] of [['a', a], ['b', b]].entries()) {
        const end = link.querySelectorAll('.pair-end')[place];
        end.firstElementChild.replaceWith(labelled(side, 'passages', index, 'pair-label'));
        end.lastElementChild.textContent = excerptOf(side, 'passages', index);
      }
      return item;
    });
    attentionLists.set(matrix, { items, links: items.map((item) => item.querySelector('.pair')) });
  }
  return attentionLists.get(matrix);
};

const showControls = () => {
  const chosen = [state.level, shownName()];
  for (const input of document.querySelectorAll('[name="level"], [name="measure"]')) input.checked = chosen.includes(input.value);
  find('#scale-meaning').textContent = explain(measure());
  const choice = find('#attention-choice');
  if (choice) choice.hidden = shownName() !== 'attention';
};

const showScale = () => {
  const matrix = measure();
  const threshold = find('#threshold');
  threshold.value = String(matrix.position);
  const text = Number.isFinite(matrix.threshold) ? matrix.format(matrix.threshold) : 'all';
  threshold.setAttribute('aria-valuetext', text);
  // What lies below the scale shares the first colour.
  find('#scale-low').textContent = (matrix.sorted[0] < matrix.low ? '≤ ' : '') + matrix.format(matrix.low);
  find('#scale-high').textContent = matrix.format(matrix.high);
  const [count, total] = [matrix.countAbove, matrix.sorted.length].map(formatCount);
  const pairs = `${total === '1' ? 'pair' : 'pairs'} of ${state.level}`;
  if (Number.isFinite(matrix.threshold)) find('#count').replaceChildren(make('b', '', count), ` of ${total} ${pairs} at `, make('b', '', text), ' or more');
  else find('#count').replaceChildren(total === '1' ? '' : 'all ', make('b', '', total), ` ${pairs}`);
  drawHistogram(find('#histogram'), matrix, palette());
};

const showMatches = () => {
  let shown = 0;
  const ofAttention = find('.match-list[data-measure] ol');
  if (ofAttention && shownName() === 'attention') ofAttention.replaceChildren(...listOf(measure()).items);
  showCurrent();
  for (const list of document.querySelectorAll('.match-list')) {
    const { matches: level, measure: only } = list.dataset;
    const isOther = level === 'passages' && (only === 'attention') !== (shownName() === 'attention');
    list.hidden = isOther || (level !== state.level && Boolean(levels[level]));
    if (isOther) continue;
    const matrix = levels[level] && measureAt(level);
    const items = [...list.querySelectorAll('ol > li')];
    for (const item of items) {
      const link = item.firstElementChild;
      const [a, b] = [Number(link.dataset.a), Number(link.dataset.b)];
      item.hidden = Boolean(matrix) && matrix.at(a, b) < matrix.threshold;
      if (matrix) link.querySelector('.chip').style.setProperty('--chip', colourOf(matrix, matrix.at(a, b)));
    }
    if (!list.hidden) {
      const sorted = items.map((item, i) => ({ item, i, link: item.firstElementChild }));
      if (matrix) {
        const value = ({ link }) => matrix.at(Number(link.dataset.a), Number(link.dataset.b));
        sorted.sort((x, y) => value(y) - value(x) || x.i - y.i);
        list.querySelector('ol').append(...sorted.map(({ item }) => item));
      }
      shown += items.filter((item) => !item.hidden).length;
    }
  }
  find('#panel-matches > .empty').hidden = shown > 0 || !document.querySelector('.match-list:not([hidden]) ol > li');
  find('#tab-matches').dataset.count = String(shown);
};

const showAll = () => { showControls(); showMap(); showScale(); showMatches(); showMarks(); showReadout(); showRibbons(); };
