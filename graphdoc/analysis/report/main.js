// Panels, controls and keys: how the page is wired up.

const setLevel = (level) => {
  state.level = level;
  state.pointed = null;
  showAll();
};

const openPanel = (tool) => {
  state.tool = tool;
  root.dataset.tool = tool;
  chooseTab(tool);
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
});
find('#threshold').addEventListener('input', ({ target }) => {
  measure().position = Number(target.value);
  showAll();
});
document.addEventListener('click', (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  const link = event.target.closest('a[data-level]');
  const section = event.target.closest('a[data-section]');
  if (link || section) event.preventDefault();
  if (link) {
    const [a, b] = [Number(link.dataset.a), Number(link.dataset.b)];
    if (!link.dataset.pair) select(link.dataset.level, a, b);
    else openPair(Number(link.dataset.pair), ...(link.dataset.level === 'sentences' ? [a, b] : []));
  }
  if (section) panes[section.dataset.section].reveal('sections', Number(section.dataset.index));
});
wireTabs(openPanel);
find('#zoom-in').addEventListener('click', () => heatMap.zoom(0.6));
find('#zoom-out').addEventListener('click', () => heatMap.zoom(1 / 0.6));
for (const name of ['focus', 'blur']) find('#map').addEventListener(name, () => heatMap.drawCursor());
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && data.subtopics && chosenSubtopic !== null) chooseSubtopic(chosenSubtopic);
  if (event.key === 'Escape' && (state.selection || state.focus || state.pointed || heatMap.cursor)) clear();
});
redrawWith(() => {
  showAll();
  showAligned();
  if (data.subtopics) showSubtopics();
});
window.addEventListener('hashchange', readHash);
new ResizeObserver(() => { showScale(); showRibbons(); }).observe(find('#histogram').parentElement);
new ResizeObserver(showRibbons).observe(find('#gutter'));
showAligned();
openPanel('map');
readHash();
