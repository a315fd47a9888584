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
    const found = map()[name];
    return found ? `${describe(found)} ${found.format(found.at(a, b))}` : '';
  };
  find('#announcement').textContent = [
    `A ${a + 1}, ${labelOf('a', state.level, a)}; B ${b + 1}, ${labelOf('b', state.level, b)}`, value('similarity'), value('contribution'), value('attention'),
  ].filter(Boolean).join('; ');
};

const badge = (side, index) => make('b', 'badge', `${letters[side]}${index + 1}`);
const chip = (colour) => {
  const element = make('i', 'chip');
  element.style.setProperty('--chip', colour);
  return element;
};
const labelled = (side, level, index, className) => {
  const line = make('span', className);
  line.append(badge(side, index), ' ', makeText('span', '', labelOf(side, level, index)));
  return line;
};
const scoreBlock = (level, a, b) => {
  const block = make('div', 'readout-score');
  const { similarity, contribution, attention } = levels[level];
  const found = attention && shownName() === 'attention' ? attention : similarity;
  const value = found.at(a, b);
  const number = make('p', 'number');
  if (Number.isFinite(value)) number.append(chip(colourOf(found, value)));
  const isSelf = data.self && a === b;
  number.append(make('span', '', Number.isFinite(value) ? found.format(value) : '–'));
  block.append(number, make('p', 'unit', Number.isFinite(value) ? describe(found) : isSelf ? `the same ${level.slice(0, -1)}` : 'no value'));
  if (found === attention) {
    block.append(make('p', 'unit', `similarity ${similarity.format(similarity.at(a, b))}`));
    return block;
  }
  if (contribution && Number.isFinite(contribution.at(a, b))) {
    const part = contribution.at(a, b);
    const share = formatShare(part, data.document);
    block.append(make('p', 'unit', share ? `${share} of the score` : `contributes ${formatSmall(part)}`));
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
    const end = make('div', 'readout-end');
    end.append(labelled(side, state.level, index, 'readout-label'), makeText('p', 'readout-text', excerptOf(side, state.level, index)));
    readout.append(end);
  }
  const actions = make('div', 'readout-actions');
  if (chosen && !state.pointed) {
    actions.append(button('‹ Stronger', () => step(-1)), button('Weaker ›', () => step(1)));
    if (state.level === 'sections' && levels.passages) actions.append(button('Passages of this pair', () => drillDown(a, b)));
    if (state.level === 'paragraphs' && levels.sentences) actions.append(button('Sentences of this pair', () => drillDown(a, b)));
    actions.append(button('Clear', clear));
  }
  readout.append(actions);
};

const rowOf = (side, index) => {
  const found = measureAt('passages');
  const count = side === 'a' ? found.columns : found.rows;
  return Array.from({ length: count }, (_, other) => (side === 'a' ? found.at(index, other) : found.at(other, index)));
};

// An amount as lists show it.
const amount = (found, value) => (found.name === 'contribution' && formatShare(value, data.document)) || found.format(value);

// How a passage of one side relates to the best of the other.
const closestTo = (side) => {
  const found = measureAt('passages');
  if (found.name !== 'attention') return 'Closest to';
  return found.direction === `to_${side}` ? 'Looking most at' : 'Most looked at by';
};

const bestOf = (side, index, count) => rowOf(side, index)
  .map((value, other) => ({ value, other })).filter(({ value }) => Number.isFinite(value))
  .sort((x, y) => y.value - x.value).slice(0, count);

const strongestList = () => {
  const heading = make('p', 'focus-title', `Point at a cell to compare, click to read. Strongest ${state.level}:`);
  const list = make('ol', 'focus-list strongest');
  for (const { dataset } of visibleMatches().slice(0, 4)) {
    const [a, b] = [Number(dataset.a), Number(dataset.b)];
    const found = measure();
    const item = make('li');
    const link = button('', () => select(dataset.level, a, b), 'focus-item');
    const score = make('span', 'score', amount(found, found.at(a, b)));
    link.append(chip(colourOf(found, found.at(a, b))), score,
      labelled('a', state.level, a, 'readout-label'), labelled('b', state.level, b, 'readout-label'));
    item.append(link);
    list.append(item);
  }
  return list.children.length ? [heading, list] : [make('p', 'hint', 'Point at a cell to compare, click to read. No match reaches the threshold.')];
};

const focusList = () => {
  const { side, index } = state.focus;
  const other = side === 'a' ? 'b' : 'a';
  const found = measureAt('passages');
  const heading = make('p', 'focus-title');
  heading.append(`${closestTo(side)} `, labelled(side, 'passages', index, 'readout-label'), button('Clear', clear));
  const list = make('ol', 'focus-list');
  for (const { value, other: match } of bestOf(side, index, 8)) {
    const item = make('li');
    const link = button('', () => (side === 'a' ? select('passages', index, match) : select('passages', match, index)), 'focus-item');
    link.append(chip(colourOf(found, value)), make('span', 'score', amount(found, value)), labelled(other, 'passages', match, 'readout-label'),
      makeText('span', 'focus-text', excerptOf(other, 'passages', match)));
    link.classList.toggle('below', value < found.threshold);
    item.append(link);
    list.append(item);
  }
  return [heading, list];
};
