// The table: all documents that are looked at, sorted by any column, a page at a time.

const PAGE = 100;
const numberColumn = (value, shown = (row) => formatCount(value(row))) => ({ value, shown, right: true });
const columns = [
  { name: 'Title', value: (row) => data.titles[row], wide: true },
  { name: 'Group', value: (row) => (documents.group[row] < 0 ? '' : groupNames[documents.group[row]]), group: true },
  ...[...fields].filter(([, field]) => field.kind !== 'group').map(([name, field]) => ({ name: name[0].toUpperCase() + name.slice(1), value: (row) => valueIn(field, row) })),
  { name: 'Words', ...numberColumn((row) => documents.length[row]) },
  ...(near.width ? [{ name: 'Nearest', ...numberColumn((row) => near.scores[row * near.width], (row) => formatScore(near.scores[row * near.width])) }] : []),
  { name: 'Closeness', ...numberColumn((row) => documents.closeness[row], (row) => formatScore(documents.closeness[row])) },
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
  const head = find('#columns');
  head.replaceChildren();
  columns.forEach((column, at) => {
    const cell = make('th', column.right ? 'right' : '');
    cell.scope = 'col';
    if (at === order.column) cell.setAttribute('aria-sort', order.falling ? 'descending' : 'ascending');
    const button = make('button', 'sort', column.name);
    button.type = 'button';
    button.addEventListener('click', () => {
      if (order.column === at) order.falling = !order.falling;
      else Object.assign(order, { column: at, falling: Boolean(column.right) });
      order.page = 0;
      showTable();
      find('#columns').children[at].firstChild.focus();
    });
    cell.append(button);
    head.append(cell);
  });
};

const showTable = () => {
  if (find('#table-view').hidden) return;
  showColumns();
  const rows = sortedRows();
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  order.page = Math.max(0, Math.min(order.page, pages - 1));
  const start = order.page * PAGE;
  const body = find('#rows');
  body.replaceChildren();
  for (const row of rows.slice(start, start + PAGE)) {
    const line = make('tr', row === state.selected ? 'is-selected' : '');
    for (const column of columns) {
      const cell = make(column.wide ? 'th' : 'td', column.right ? 'right' : column.wide ? 'wide' : '');
      if (column.wide) { cell.scope = 'row'; cell.append(documentButton(row)); }
      else if (column.shown) cell.textContent = column.shown(row);
      else {
        if (column.group && documents.group[row] >= 0) { const chip = make('span', 'chip'); chip.dataset.chip = documents.group[row]; cell.append(chip); }
        cell.append(make('bdi', '', column.value(row)));
      }
      line.append(cell);
    }
    body.append(line);
  }
  const group = state.group === null ? '' : ` in the group ${groupNames[state.group]}`;
  find('#table-count').textContent = rows.length === count ? `${formatCount(count)} documents` : `${formatCount(rows.length)} of ${formatCount(count)} documents${state.found ? ' found' : ''}${group}`;
  find('#page-number').textContent = rows.length ? `${formatCount(start + 1)} to ${formatCount(Math.min(rows.length, start + PAGE))}` : '';
  find('#page-before').disabled = order.page === 0;
  find('#page-after').disabled = order.page >= pages - 1;
  showChips();
};
const turnPage = (by) => {
  order.page += by;
  showTable();
  find('#table-view .scroll').scrollTop = 0;
};
find('#page-before').addEventListener('click', () => turnPage(-1));
find('#page-after').addEventListener('click', () => turnPage(1));
