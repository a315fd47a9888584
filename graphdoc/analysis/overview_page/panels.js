// What colours mean, where the map is not coloured by groups; a click on a value looks at its documents alone.

const link = (className, text, href) => Object.assign(make('a', className, text), { href });

const showLegend = () => {
  const field = fields.get(state.field);
  const place = find('#legend');
  place.hidden = field.kind === 'group';
  place.replaceChildren();
  if (place.hidden) return;
  place.append(make('p', 'legend-title', field.name));
  if (field.kind === 'date') {
    const bar = make('div', 'dates');
    bar.style.background = `linear-gradient(to right, ${Array.from({ length: 9 }, (_, i) => dateColour(i / 8)).join(', ')})`;
    const ends = [field.low, field.high].map((date) => make('span', '', String(Math.floor(date / 1000))));
    place.append(bar, make('p', 'date-ends', ...ends));
    return;
  }
  const item = (colour, name, size) => make('li', '', chip(colour), make('bdi', '', name), make('span', 'size', formatCount(size)));
  const list = make('ul', '', ...field.list.slice(0, OTHERS).map((name, kind) => item(colourOfKind(field, kind), name, field.counts[kind])));
  const rest = field.counts.slice(OTHERS).reduce((sum, size) => sum + size, 0);
  if (rest) list.append(item(muted(), `${formatCount(field.list.length - OTHERS)} others`, rest));
  place.append(list);
};

const showChips = () => {
  for (const element of document.querySelectorAll('[data-chip]')) element.style.background = shade(hueOfGroup[Number(element.dataset.chip)]);
};

// The card of the selected document, and of the pair that it makes with the one selected before.

const reports = new Map(data.reports.map(([a, b, link]) => [`${Math.min(a, b)} ${Math.max(a, b)}`, link]));
const reportOf = (a, b) => reports.get(`${Math.min(a, b)} ${Math.max(a, b)}`);

const documentButton = (row) => {
  const element = button('', null, 'doc');
  element.dataset.doc = row;
  element.append(make('bdi', '', data.titles[row]));
  return element;
};

const pairPart = (a, b) => {
  const score = scoreOf(a, b);
  const told = score === null ? 'Neither is among the nearest documents of the other.' : `Cosine ${formatScore(score)}`;
  const part = make('div', 'pair-of-two', make('p', 'pair-head', 'With ', documentButton(a)), make('p', 'note', told));
  if (reportOf(a, b)) part.append(link('plain strong', 'Open the report', reportOf(a, b)));
  return part;
};

const showCard = () => {
  const card = find('#card');
  const row = state.selected;
  card.hidden = row === null;
  card.replaceChildren();
  if (row === null) return;
  const close = button('×', () => { act.clear(); find('#map').focus({ preventScroll: true }); }, 'icon');
  close.setAttribute('aria-label', 'Close');
  card.append(make('div', 'card-head', makeText('h2', '', data.titles[row]), close));
  const add = (tag, className, text) => { if (text) card.append(makeText(tag, className, text)); };
  if (data.ids[row] !== data.titles[row]) add('p', 'note id', data.ids[row]);
  if (state.before !== null) card.append(pairPart(state.before, row));
  const facts = make('ul', 'facts');
  const fact = (name, value) => { if (value) facts.append(make('li', '', make('span', '', `${name} `), make('bdi', '', value))); };
  const group = documents.group[row];
  if (group >= 0) {
    const pick = button('', null, 'fact-group');
    pick.dataset.pick = group;
    pick.append(chip(shade(hueOfGroup[group])), make('bdi', '', groupNames[group]));
    facts.append(make('li', '', pick));
  } else if (groupNames.length) fact('group', 'none');
  for (const [name, field] of fields) if (field.kind !== 'group') fact(name, valueIn(field, row));
  fact('words', documents.length[row] && formatCount(documents.length[row]));
  card.append(facts);
  add('p', 'opening', data.openings[row]);
  add('p', 'telling', wordsOf(row).slice(0, 10).join(' · '));
  const list = make('ol', 'near');
  for (let i = row * near.width; i < (row + 1) * near.width; i += 1) {
    const bar = make('span', 'score-bar');
    bar.style.setProperty('--part', String(Math.max(0, near.scores[i]) / 10000));
    const report = reportOf(row, near.rows[i]);
    list.append(make('li', '', make('span', 'score', formatScore(near.scores[i])), bar, documentButton(near.rows[i]), ...(report ? [link('report', 'Report', report)] : [])));
  }
  card.append(make('h3', '', 'Nearest documents'), list);
};

// Tabs, and the lists below them.

const openTab = (name) => {
  chooseTab(name);
  for (const tab of tabs) find(`#panel-${nameOfTab(tab)}`).hidden = nameOfTab(tab) !== name;
};

const showGroups = () => {
  for (const name of document.querySelectorAll('.group-name')) {
    const chosen = state.group !== null && Number(name.dataset.pick) === state.group;
    name.setAttribute('aria-pressed', String(chosen));
    name.closest('.group').classList.toggle('is-open', chosen);
  }
};

// Search over titles, ids, labels and the keywords of documents, all in the page.

const LISTED = 100;
const folded = (text) => text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase().replace(/[^\p{L}\p{N}]+/gu, ' ');
let haystack = null;

// Words begin after a space, so that a part of a word is found where the word begins.
const haystacks = () => {
  if (haystack) return haystack;
  const words = data.words.list.map((word) => word.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase());
  const named = [...fields.values()].filter((field) => field.kind !== 'group');
  haystack = data.titles.map((title, row) => {
    const telling = Array.from(wordPlaces.subarray(wordEnds[row], wordEnds[row + 1]), (place) => words[place]);
    const values = named.map((field) => valueIn(field, row));
    return ` ${folded([title, data.ids[row], ...values].join(' '))} ${telling.join(' ')}`;
  });
  return haystack;
};

const search = (text) => {
  const asked = folded(text).trim().split(' ').filter(Boolean);
  if (!asked.length) return null;
  // Scripts without spaces between words are found anywhere.
  const parts = asked.map((word) => (/[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]/.test(word) ? word : ` ${word}`));
  const found = [];
  haystacks().forEach((hay, row) => { if (parts.every((part) => hay.includes(part))) found.push(row); });
  // Titles that have all the words come first.
  const inTitle = (row) => { const title = ` ${folded(data.titles[row])}`; return parts.every((part) => title.includes(part)); };
  const titled = new Set(found.filter(inTitle));
  return [...titled, ...found.filter((row) => !titled.has(row))];
};

const showFound = (rows) => {
  state.found = rows && new Set(rows);
  const tab = find('#tab-found');
  tab.hidden = rows === null;
  const size = rows === null ? '' : formatCount(rows.length);
  find('#found').textContent = size;
  find('#found').setAttribute('aria-label', size && `${size} documents found`);
  find('#found-count').textContent = size;
  const list = find('#results');
  list.replaceChildren();
  if (rows === null) {
    if (tab.getAttribute('aria-selected') === 'true') openTab('groups');
    return;
  }
  list.append(...rows.slice(0, LISTED).map((row) => make('li', '', documentButton(row))));
  if (!rows.length) list.append(make('li', 'note', 'No title and no telling word begins so.'));
  if (rows.length > LISTED) list.append(make('li', 'note', `and ${formatCount(rows.length - LISTED)} more; the table lists all`));
  openTab('found');
};

// The table: all documents that are looked at, sorted by any column, a page at a time.

const PAGE = 100;
const numberColumn = (value, shown = (row) => formatCount(value(row))) => ({ value, shown, right: true });
const columns = [
  { name: 'Title', value: (row) => data.titles[row], wide: true },
  { name: 'Group', value: (row) => (documents.group[row] < 0 ? '' : groupNames[documents.group[row]]), group: true },
  ...[...fields].filter(([, field]) => field.kind !== 'group').map(([name, field]) => ({ name: name[0].toUpperCase() + name.slice(1), value: (row) => valueIn(field, row) })),
  { name: 'Words', ...numberColumn((row) => documents.length[row]) },
  ...(near.width ? [{ name: 'Nearest: cosine', ...numberColumn((row) => near.scores[row * near.width], (row) => formatScore(near.scores[row * near.width])) }] : []),
  { name: 'Five nearest: mean cosine', ...numberColumn((row) => documents.closeness[row], (row) => formatScore(documents.closeness[row])) },
];
const order = { column: 0, falling: false, page: 0 };
const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

const sortedRows = () => {
  const rows = [];
  for (let row = 0; row < count; row += 1) if (isShown(row)) rows.push(row);
  const { value } = columns[order.column];
  const values = rows.map(value);
  const places = rows.map((_, at) => at);
  const sign = order.falling ? -1 : 1;
  // Empty cells come last in both directions.
  const compare = (a, b) => (typeof a === 'number' ? sign * (a - b) : a === '' || b === '' ? (a === '') - (b === '') : sign * collator.compare(a, b));
  places.sort((a, b) => compare(values[a], values[b]) || rows[a] - rows[b]);
  return places.map((at) => rows[at]);
};

const showColumns = () => {
  find('#columns').replaceChildren(...columns.map((column, at) => {
    const sort = () => {
      if (order.column === at) order.falling = !order.falling;
      else Object.assign(order, { column: at, falling: Boolean(column.right) });
      order.page = 0;
      showTable();
      find('#columns').children[at].firstChild.focus();
    };
    const cell = make('th', column.right ? 'right' : '', button(column.name, sort, 'sort'));
    cell.scope = 'col';
    if (at === order.column) cell.setAttribute('aria-sort', order.falling ? 'descending' : 'ascending');
    return cell;
  }));
};

const cellOf = (column, row) => {
  if (column.wide) return Object.assign(make('th', 'wide', documentButton(row)), { scope: 'row' });
  if (column.shown) return make('td', 'right', column.shown(row));
  const hasChip = column.group && documents.group[row] >= 0;
  return make('td', '', ...(hasChip ? [chip(shade(hueOfGroup[documents.group[row]]))] : []), make('bdi', '', column.value(row)));
};

const showTable = () => {
  if (find('#table-view').hidden) return;
  showColumns();
  const rows = sortedRows();
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  order.page = Math.max(0, Math.min(order.page, pages - 1));
  const start = order.page * PAGE;
  const shown = rows.slice(start, start + PAGE);
  find('#rows').replaceChildren(...shown.map((row) => make('tr', row === state.selected ? 'is-selected' : '', ...columns.map((column) => cellOf(column, row)))));
  const group = state.group === null ? '' : ` in the group ${groupNames[state.group]}`;
  find('#table-count').textContent = rows.length === count ? `${formatCount(count)} documents` : `${formatCount(rows.length)} of ${formatCount(count)} documents${state.found ? ' found' : ''}${group}`;
  find('#page-number').textContent = rows.length ? `${formatCount(start + 1)} to ${formatCount(Math.min(rows.length, start + PAGE))}` : '';
  find('#page-before').disabled = order.page === 0;
  find('#page-after').disabled = order.page >= pages - 1;
};
const turnPage = (by) => {
  order.page += by;
  showTable();
  find('#table-view .scroll').scrollTop = 0;
};
find('#page-before').addEventListener('click', () => turnPage(-1));
find('#page-after').addEventListener('click', () => turnPage(1));
