// Selecting a pair, following a passage, stepping through the matches, and the address that remembers it.

// Levels whose map may be too large for the file; their lists are there.
const WITHOUT_MAP = ['paragraphs', 'sentences'];

const remember = () => {
  const { selection, focus } = state;
  const hash = selection ? `#${selection.level}=${selection.a + 1},${selection.b + 1}`
    : focus ? `#${focus.side}-p${focus.index + 1}` : '';
  try { history.replaceState(null, '', hash || location.pathname + location.search); } catch { location.hash = hash; }
};

const showCurrent = () => {
  const { selection } = state;
  for (const link of document.querySelectorAll('.pair[aria-current]')) link.removeAttribute('aria-current');
  if (!selection) return;
  const same = `.pair[data-level="${selection.level}"][data-a="${selection.a}"][data-b="${selection.b}"]`;
  for (const link of document.querySelectorAll(same)) {
    // Two paragraphs can be a pair in both directions.
    if (state.aligned === null || !link.dataset.pair || Number(link.dataset.pair) === state.aligned) link.setAttribute('aria-current', 'true');
  }
};

// Words that both selected passages have, and few others.
const showSharedWords = () => {
  const { selection } = state;
  if (!selection || !['passages', 'sentences'].includes(selection.level)) { underline([], new Set()); return; }
  const all = Object.values(panes);
  wordCounts ||= countWords(all.flatMap((pane) => pane.passages.map((_, i) => pane.textOf(i))));
  const [ofA, ofB] = ['a', 'b'].map((side) => wordsOf(textOf(side, selection.level, selection[side])));
  const most = Math.max(3, (all[0].passages.length + all[1].passages.length) * 0.06);
  const passageOf = (side) => (selection.level === 'passages' ? selection[side] : data.documents[side].sentences[selection[side]]);
  underline(['a', 'b'].map((side) => panes[side].passages[passageOf(side)]), new Set([...ofB].filter((word) => ofA.has(word) && wordCounts.get(word) <= most)));
};

const refreshSelection = (reveal) => {
  const { selection, focus } = state;
  for (const side of ['a', 'b']) {
    panes[side].highlight(selection ? selection.level : 'passages', selection ? selection[side] : null, 'is-selected');
    panes[side].highlight('passages', focus && focus.side === side ? focus.index : null, 'is-focused');
  }
  showAligned();
  showCurrent();
  showSharedWords();
  if (reveal) {
    if (selection) for (const side of ['a', 'b']) panes[side].reveal(selection.level, selection[side]);
    else if (focus) revealFocus();
  }
  showMarks();
  showMap();
  showReadout();
  showRibbons();
  remember();
};

const revealFocus = () => {
  const { side, index } = state.focus;
  const other = side === 'a' ? 'b' : 'a';
  const [best] = bestOf(side, index, 1);
  if (best && panes[other].scrolls) panes[other].reveal('passages', best.other);
};

const select = (level, a, b, aligned = null) => {
  if (!levels[level] && !WITHOUT_MAP.includes(level)) return;
  Object.assign(state, { selection: { level, a, b }, aligned, focus: null, pointed: null });
  heatMap.hover = null;
  if (levels[level]) {
    if (state.level !== level) setLevel(level);
    heatMap.cursor = [a, b];
    heatMap.bringIntoView([a, b]);
    announce([a, b]);
  }
  refreshSelection(true);
};

const focusPassage = (side, index) => {
  const same = state.focus && state.focus.side === side && state.focus.index === index;
  Object.assign(state, { focus: same ? null : { side, index }, selection: null, aligned: null, pointed: null });
  panes[side].rove(index);
  if (state.level !== 'passages') setLevel('passages');
  if (state.tool !== 'map') openPanel('map');
  refreshSelection(!same);
  if (state.focus) {
    const [best] = bestOf(side, index, 1);
    if (best) find('#announcement').textContent = `${closestTo(side)} ${letters[side]} ${index + 1}: ${letters[side === 'a' ? 'b' : 'a']} ${best.other + 1}`;
  }
};

const clear = () => {
  Object.assign(state, { selection: null, aligned: null, focus: null, pointed: null });
  heatMap.cursor = null;
  find('#announcement').textContent = 'Selection cleared';
  refreshSelection(false);
};

const visibleMatches = () => [...document.querySelectorAll(`.match-list .pair[data-level="${state.level}"]`)]
  .filter((link) => link.closest('li') && !link.closest('li').hidden && !link.closest('.match-list').hidden);

const step = (by) => {
  const links = visibleMatches();
  if (!links.length) return;
  const at = links.findIndex((link) => link.hasAttribute('aria-current'));
  const next = links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + by))];
  select(next.dataset.level, Number(next.dataset.a), Number(next.dataset.b));
  if (state.tool === 'matches') next.scrollIntoView({ block: 'nearest' });
};

const drillDown = (a, b) => {
  const ofSections = state.level === 'sections';
  const within = (side, groups, index) => {
    const [from, to] = ofSections ? [] : data.documents[side].paragraphs[index];
    return ofSections ? groups.find((group) => group.section === index) : { from, to };
  };
  const rows = within('a', levels.passages.rowGroups, a);
  const columns = within('b', levels.passages.columnGroups, b);
  if (!rows || !columns) return;
  setLevel(ofSections ? 'passages' : 'sentences');
  state.selection = null;
  refreshSelection(false);
  heatMap.setView({ r0: rows.from, r1: rows.to, c0: columns.from, c1: columns.to });
  find('#map').focus();
};
