// The readout below the map: a pair of cells, the closest passages of one, or the strongest matches.

const textOf = (side, level, index) => {
  if (level === 'sections') {
    const first = panes[side].sections[index].querySelector('.passage p');
    return first ? first.textContent : '';
  }
  // More than the first sentences of a paragraph are never shown.
  if (level === 'paragraphs') return panes[side].sentencesOf(index).slice(0, 9).map((span) => span.textContent).join(' ');
  const target = panes[side].target(level, index);
  return level === 'passages' ? panes[side].textOf(index) : target ? target.textContent : '';
};
const excerptOf = (side, level, index) => {
  const line = textOf(side, level, index).slice(0, 1200).replace(/\s+/g, ' ').trim();
  return line.length > 260 ? `${line.slice(0, line.lastIndexOf(' ', 260))} …` : line;
};

const announce = ([a, b]) => {
  const value = (name) => {
    const matrix = map()[name];
    return matrix ? `${describe(matrix)} ${matrix.format(matrix.at(a, b))}` : '';
  };
  find('#announcement').textContent = [
    `A ${a + 1}, ${labelOf('a', state.level, a)}; B ${b + 1}, ${labelOf('b', state.level, b)}`, value('similarity'), value('contribution'), value('attention'),
  ].filter(Boolean).join('; ');
};

const badge = (side, index) => make('b', 'badge', `${letters[side]}${index + 1}`);
const labelled = (side, level, index, className) => make('span', className, badge(side, index), ' ', makeText('span', '', labelOf(side, level, index)));

const scoreBlock = (level, a, b) => {
  const { similarity, contribution, attention } = levels[level];
  const shown = attention && shownName() === 'attention' ? attention : similarity;
  const value = shown.at(a, b);
  const number = make('p', 'number', ...(Number.isFinite(value) ? [chip(colourOf(shown, value)), make('span', '', shown.format(value))] : [make('span', '', '–')]));
  const unit = Number.isFinite(value) ? describe(shown) : data.self && a === b ? `the same ${level.slice(0, -1)}` : 'no value';
  const block = make('div', 'readout-score', number, make('p', 'unit', unit));
  const part = contribution?.at(a, b);
  if (shown === attention) block.append(make('p', 'unit', `similarity ${similarity.format(similarity.at(a, b))}`));
  else if (Number.isFinite(part)) {
    const share = formatShare(part, data.total);
    block.append(make('p', 'unit', share ? `${share} of the score` : `adds ${formatSmall(part)} to the score`));
  }
  return block;
};

const showReadout = () => {
  const readout = find('#readout');
  const focused = readout.contains(document.activeElement) ? document.activeElement.textContent : null;
  fillReadout(readout);
  if (focused === null) return;
  // What was pressed is redrawn with the rest; the keyboard stays on it, or goes back to the map.
  const again = [...readout.querySelectorAll('button')].find((other) => other.textContent === focused);
  (again || find('#map')).focus({ preventScroll: true });
};

const fillReadout = (readout) => {
  const chosen = state.selection && state.selection.level === state.level ? [state.selection.a, state.selection.b] : null;
  const cell = state.pointed || chosen;
  readout.replaceChildren();
  readout.classList.toggle('is-list', !cell);
  readout.classList.toggle('is-selected', Boolean(chosen && (!state.pointed || String(state.pointed) === String(chosen))));
  if (!cell && state.focus) { readout.append(...focusList()); return; }
  if (!cell) { readout.append(...strongestList()); return; }
  const [a, b] = cell;
  readout.append(scoreBlock(state.level, a, b));
  for (const [side, index] of [['a', a], ['b', b]]) {
    readout.append(make('div', 'readout-end', labelled(side, state.level, index, 'readout-label'), makeText('p', 'readout-text', excerptOf(side, state.level, index))));
  }
  const actions = make('div', 'readout-actions');
  if (chosen && !state.pointed) {
    actions.append(button('‹ Stronger', () => step(-1)), button('Weaker ›', () => step(1)));
    if (state.level === 'sections') actions.append(button('Passages of this pair', () => drillDown(a, b)));
    if (state.level === 'paragraphs' && levels.sentences) actions.append(button('Sentences of this pair', () => drillDown(a, b)));
    actions.append(button('Clear', clear));
  }
  readout.append(actions);
};

const rowOf = (side, index) => {
  const matrix = measureAt('passages');
  const count = side === 'a' ? matrix.columns : matrix.rows;
  return Array.from({ length: count }, (_, other) => (side === 'a' ? matrix.at(index, other) : matrix.at(other, index)));
};

// An amount as lists show it.
const amount = (matrix, value) => (matrix.name === 'contribution' && formatShare(value, data.total)) || matrix.format(value);

// How a passage of one side relates to the best of the other.
const closestTo = (side) => {
  const matrix = measureAt('passages');
  if (matrix.name !== 'attention') return 'Closest to';
  return matrix.direction === `to_${side}` ? 'Looking most at' : 'Most looked at by';
};

const bestOf = (side, index, count) => rowOf(side, index)
  .map((value, other) => ({ value, other })).filter(({ value }) => Number.isFinite(value))
  .sort((x, y) => y.value - x.value).slice(0, count);

// A line of a list: a score with its colour, and what it is the score of.
const scoreItem = (matrix, value, action, ...rest) => {
  const link = button('', action, 'focus-item');
  link.append(chip(colourOf(matrix, value)), make('span', 'score', amount(matrix, value)), ...rest);
  return make('li', '', link);
};

const strongestList = () => {
  const matrix = measure();
  const items = visibleMatches().slice(0, 4).map(({ dataset }) => {
    const [a, b] = [Number(dataset.a), Number(dataset.b)];
    return scoreItem(matrix, matrix.at(a, b), () => select(dataset.level, a, b), labelled('a', state.level, a, 'readout-label'), labelled('b', state.level, b, 'readout-label'));
  });
  if (!items.length) return [make('p', 'hint', 'Point at a cell to compare, click to read. No pair reaches the threshold.')];
  return [make('p', 'focus-title', `Point at a cell to compare, click to read. Strongest ${state.level}:`), make('ol', 'focus-list strongest', ...items)];
};

const focusList = () => {
  const { side, index } = state.focus;
  const other = side === 'a' ? 'b' : 'a';
  const matrix = measureAt('passages');
  const items = bestOf(side, index, 8).map(({ value, other: match }) => {
    const open = () => (side === 'a' ? select('passages', index, match) : select('passages', match, index));
    const text = makeText('span', 'focus-text', excerptOf(other, 'passages', match));
    const item = scoreItem(matrix, value, open, labelled(other, 'passages', match, 'readout-label'), text);
    item.firstChild.classList.toggle('below', value < matrix.threshold);
    return item;
  });
  return [make('p', 'focus-title', `${closestTo(side)} `, labelled(side, 'passages', index, 'readout-label'), button('Clear', clear)), make('ol', 'focus-list', ...items)];
};
