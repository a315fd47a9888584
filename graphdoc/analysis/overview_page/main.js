// How the page is wired up: what a click, a key or a choice does to the map, the card, the lists and the table.

const tip = find('#tip');
const act = {
  point: (row, x, y) => {
    tip.hidden = row === null;
    if (row !== null) {
      const group = documents.group[row];
      tip.replaceChildren(makeText('b', '', data.titles[row]), make('span', 'note', group < 0 ? '' : groupNames[group]));
      const { width } = map.camera;
      tip.style.left = `${Math.max(6, Math.min(x + 14, width - tip.offsetWidth - 6))}px`;
      tip.style.top = `${y + 18 + tip.offsetHeight > map.camera.height ? y - tip.offsetHeight - 12 : y + 18}px`;
    }
    find('#map').style.cursor = row === null ? '' : 'pointer';
    if (row !== state.pointed) { state.pointed = row; map.draw(); }
  },
  select: (row) => {
    if (row !== state.selected) Object.assign(state, { before: state.selected, selected: row });
    showSelected();
    map.reveal(row);
  },
  pair: (a, b) => {
    Object.assign(state, { before: a, selected: b });
    showSelected();
    map.lookAt([a, b]);
  },
  pick: (group) => {
    state.group = state.group === group ? null : group;
    order.page = 0;
    showGroups();
    showTable();
    if (state.group === null) map.camera.all();
    else map.camera.lookAt(membersOf[group]);
    map.draw();
  },
  clear: () => {
    Object.assign(state, { selected: null, before: null, pointed: null });
    map.cursor = null;
    showCard();
    showTable();
    map.draw();
  },
  say: (row) => {
    const group = documents.group[row];
    find('#said').textContent = `${data.titles[row]}${group < 0 ? '' : `, group ${groupNames[group]}`}`;
  },
};
const map = new DocumentMap(find('#map'), act);
const showSelected = () => {
  showCard();
  showTable();
  act.say(state.selected);
  find('#side').scrollTop = 0;
};

const recolour = () => { map.recolour(); showLegend(); showChips(); };
const showView = (view) => {
  find('#main').dataset.view = view;
  find('#map-view').hidden = view !== 'map';
  find('#table-view').hidden = view !== 'table';
  find('#show-map').setAttribute('aria-pressed', String(view === 'map'));
  find('#show-table').setAttribute('aria-pressed', String(view === 'table'));
  showTable();
};

for (const [name] of fields) find('#colour').append(new Option(name, name));
find('#colour').addEventListener('change', ({ target }) => { state.field = target.value; recolour(); });
find('#show-map').addEventListener('click', () => showView('map'));
find('#show-table').addEventListener('click', () => showView('table'));
find('#zoom-in').addEventListener('click', () => { map.camera.zoomAt(1.6); map.draw(); });
find('#zoom-out').addEventListener('click', () => { map.camera.zoomAt(1 / 1.6); map.draw(); });
find('#zoom-all').addEventListener('click', () => { map.camera.all(); map.draw(); });

let typing = 0;
const searchNow = () => {
  clearTimeout(typing);
  order.page = 0;
  showFound(search(find('#find').value));
  showTable();
  map.draw();
};
find('#find').addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(searchNow, 120);
});
find('#find').addEventListener('keydown', (event) => {
  if (event.key === 'Enter') searchNow();
});

document.addEventListener('click', (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  const { doc, a, b, pick } = event.target.closest('[data-doc], [data-a], [data-pick]')?.dataset ?? {};
  if (doc !== undefined) act.select(Number(doc));
  if (a !== undefined) act.pair(Number(a), Number(b));
  if (pick !== undefined) act.pick(Number(pick));
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') {
    if (state.selected !== null || map.cursor !== null) act.clear();
    else if (state.group !== null) act.pick(state.group);
    else if (state.found !== null) { find('#find').value = ''; searchNow(); }
  }
  if (event.key === '/' && document.activeElement !== find('#find')) { event.preventDefault(); find('#find').focus(); }
});
redrawWith(() => { recolour(); showCard(); showTable(); });
wireTabs(openTab);
openTab('groups');
recolour();
