// Panels, controls, keys and printing: how the page is wired up.

const setLevel = (level) => {
  state.level = level;
  state.pointed = null;
  showAll();
};

const openPanel = (panel, focusIt = false) => {
  state.panel = panel;
  if (panel !== 'a' && panel !== 'b') state.tool = panel;
  root.dataset.panel = state.panel;
  root.dataset.tool = state.tool;
  chooseTab(narrow.matches ? state.panel : state.tool);
  if (narrow.matches) {
    const pane = panes[panel];
    const { selection, focus } = state;
    if (pane && selection) pane.reveal(selection.level, selection[panel]);
    else if (pane && focus) pane.reveal('passages', focus.side === panel ? focus.index : (bestOf(focus.side, focus.index, 1)[0] || { other: 0 }).other);
    else if (!pane) window.scrollTo({ top: 0, behavior: 'instant' });
  }
  if (focusIt) find(panel === 'a' || panel === 'b' ? `#pane-${panel}` : panel === 'map' ? '#map' : `#panel-${panel}`).focus({ preventScroll: narrow.matches });
  showAll();
  if (data.subtopics) showSubtopics();
};

const readHash = () => {
  const pair = /^#(sections|passages|paragraphs|sentences)=(\d+),(\d+)$/.exec(location.hash);
  if (pair) {
    const [level, a, b] = [pair[1], Number(pair[2]) - 1, Number(pair[3]) - 1];
    if (!panes.a.target(level, a) || !panes.b.target(level, b)) {
      // A paragraph that was drawn by a search may lie behind the last encoded passage.
      if (level === 'paragraphs' && data.alignment) openPanel('alignment');
      return;
    }
    const aligned = level === 'paragraphs' && data.alignment ? data.alignment.findIndex((one) => one.a === a && one.b === b) : -1;
    if (aligned < 0) { select(level, a, b); return; }
    openPanel('alignment');
    openPair(aligned);
    alignedLinks[aligned].scrollIntoView({ block: 'nearest' });
    return;
  }
  if (location.hash === '#subtopics' && data.subtopics) { openPanel('subtopics'); return; }
  if (location.hash === '#alignment' && data.alignment) { openPanel('alignment'); return; }
  const passage = /^#([ab])-p(\d+)$/.exec(location.hash);
  if (passage && panes[passage[1]].passages[Number(passage[2]) - 1]) {
    focusPassage(passage[1], Number(passage[2]) - 1);
    panes[passage[1]].reveal('passages', Number(passage[2]) - 1);
  }
};

document.addEventListener('change', ({ target }) => {
  if (target.name === 'level') setLevel(target.value);
  if (target.name === 'measure') {
    state.measure = target.value;
    // What this level does not have is shown where it is.
    setLevel(map()[state.measure] ? state.level : 'passages');
  }
  if (target.name === 'direction') state.direction = target.value;
  if (target.id === 'head') state.head = target.value;
  if (target.name === 'direction' || target.id === 'head') showAll();
  showPairBar();
  if (target.id === 'print-texts') root.classList.toggle('print-texts', target.checked);
});
find('#threshold').addEventListener('input', ({ target }) => {
  measure().position = Number(target.value);
  showAll();
});
document.addEventListener('click', (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  const link = event.target.closest('a[data-level]');
  const section = event.target.closest('a[data-section]');
  const skip = event.target.closest('a[data-open]');
  if (link || section || skip) event.preventDefault();
  if (link) {
    const [a, b] = [Number(link.dataset.a), Number(link.dataset.b)];
    if (!link.dataset.pair) select(link.dataset.level, a, b);
    else openPair(Number(link.dataset.pair), ...(link.dataset.level === 'sentences' ? [a, b] : []));
  }
  if (section) {
    if (narrow.matches) openPanel(section.dataset.section);
    panes[section.dataset.section].reveal('sections', Number(section.dataset.index));
  }
  if (skip) openPanel(skip.dataset.open, true);
});
wireTabs(openPanel);
find('#zoom-in').addEventListener('click', () => heatMap.zoom(0.6));
find('#zoom-out').addEventListener('click', () => heatMap.zoom(1 / 0.6));
for (const name of ['focus', 'blur']) find('#map').addEventListener(name, () => heatMap.drawCursor());
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && data.subtopics && chosenSubtopic !== null) chooseSubtopic(chosenSubtopic);
  if (event.key === 'Escape' && (state.selection || state.focus || state.pointed || heatMap.cursor)) clear();
});
redraws.push(() => {
  showAll();
  showAligned();
  if (data.subtopics) showSubtopics();
});
const drawPrintMaps = () => {
  printing = true;
  showMatches();
  const place = find('#print-maps');
  place.replaceChildren();
  for (const level of ['sections', 'passages']) {
    const drawn = levels[level];
    const canvas = make('canvas');
    const [width, height] = [680, Math.max(200, Math.min(level === 'sections' ? 520 : 620, 130 + (560 * drawn.rows) / drawn.columns))];
    canvas.width = 2 * width;
    canvas.height = 2 * height;
    const context = canvas.getContext('2d');
    context.setTransform(2, 0, 0, 2, 0, 0);
    const shown = drawn[state.measure] || drawn.similarity;
    paintMap(context, width, height, drawn, { r0: 0, r1: drawn.rows, c0: 0, c1: drawn.columns }, shown, LIGHT);
    const limit = Number.isFinite(shown.threshold) ? `; cells below ${shown.format(shown.threshold)} are pale` : '';
    const caption = `${names[level]} of A (rows) by ${level} of B (columns), ${describe(shown)} from ${shown.format(shown.low)} to ${shown.format(shown.high)}${limit}.`;
    place.append(make('figure', '', make('figcaption', '', caption), canvas));
  }
};
window.addEventListener('beforeprint', drawPrintMaps);
window.addEventListener('afterprint', () => { printing = false; showAll(); });
narrow.addEventListener('change', () => openPanel(narrow.matches ? state.panel : state.tool));
window.addEventListener('hashchange', readHash);
new ResizeObserver(() => { showScale(); showRibbons(); }).observe(find('#histogram').parentElement);
new ResizeObserver(showRibbons).observe(find('#gutter'));
showAligned();
openPanel('map');
readHash();
