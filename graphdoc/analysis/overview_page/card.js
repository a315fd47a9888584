// The card of the selected document, and of the pair that it makes with the one selected before.

const reports = new Map(data.reports.map(([a, b, link]) => [`${Math.min(a, b)} ${Math.max(a, b)}`, link]));
const reportOf = (a, b) => reports.get(`${Math.min(a, b)} ${Math.max(a, b)}`);
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) && !text.startsWith('-') ? text : `'${(text.startsWith('-') ? `./${text}` : text).replaceAll("'", "'\\''")}'`);
const placeOf = (row) => {
  const rest = data.command?.places.rest[row];
  return rest === null || rest === undefined ? null : data.command.places.start + rest;
};
const commandFor = (a, b) => {
  if (placeOf(a) === null || placeOf(b) === null) return null;
  return `graphdoc compare ${quoted(placeOf(a))} ${quoted(placeOf(b))} ${data.command.options}`.trim();
};

const documentButton = (row, className = 'doc') => {
  const button = make('button', className);
  button.type = 'button';
  button.dataset.doc = row;
  button.append(make('bdi', '', data.titles[row]));
  return button;
};

const pairPart = (a, b) => {
  const part = make('div', 'pair-of-two');
  const score = scoreOf(a, b);
  const head = make('p', 'pair-head');
  head.append('With ', documentButton(a));
  part.append(head, make('p', 'note', score === null ? 'Neither is among the nearest documents of the other; the report has their score.' : `Cosine ${formatScore(score)}`));
  const link = reportOf(a, b);
  const command = commandFor(a, b);
  if (link) {
    const open = make('a', 'plain strong', 'Open the report');
    open.href = link;
    part.append(open);
  } else if (command) {
    const code = make('code', 'command', command);
    code.tabIndex = 0;
    const copy = make('button', 'plain strong', 'Copy the command for the report');
    copy.type = 'button';
    copy.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(command);
        copy.textContent = 'Copied';
      } catch {
        // Pages from a file may not write to the clipboard everywhere: the text is selected instead.
        getSelection().selectAllChildren(code);
        copy.textContent = 'Selected: copy it with the keyboard';
      }
    });
    part.append(copy, code);
  }
  return part;
};

const showCard = () => {
  const card = find('#card');
  const row = state.selected;
  card.hidden = row === null;
  card.replaceChildren();
  if (row === null) return;
  const head = make('div', 'card-head');
  const title = make('h2', '', data.titles[row]);
  title.dir = 'auto';
  const close = make('button', 'icon', '×');
  close.type = 'button';
  close.setAttribute('aria-label', 'Close');
  close.addEventListener('click', () => { act.clear(); find('#map').focus({ preventScroll: true }); });
  head.append(title, close);
  card.append(head);
  if (data.ids[row] !== data.titles[row]) {
    const id = make('p', 'note id', data.ids[row]);
    id.dir = 'auto';
    card.append(id);
  }
  if (state.before !== null) card.append(pairPart(state.before, row));
  const facts = make('ul', 'facts');
  const fact = (name, value, group) => {
    if (!value) return;
    const item = make('li');
    const inner = group === undefined ? item : make('button', 'fact-group');
    if (group !== undefined) { inner.type = 'button'; inner.dataset.pick = group; const chip = make('span', 'chip'); chip.dataset.chip = group; inner.append(chip); item.append(inner); }
    else item.append(make('span', '', `${name} `));
    inner.append(make('bdi', '', value));
    facts.append(item);
  };
  const group = documents.group[row];
  if (group >= 0) fact('group', groupNames[group], group);
  else if (groupNames.length) fact('group', 'none');
  for (const [name, field] of fields) if (field.kind !== 'group') fact(name, valueIn(field, row));
  if (documents.length[row]) fact('words', formatCount(documents.length[row]));
  card.append(facts);
  if (data.openings[row]) {
    const opening = make('p', 'opening', data.openings[row]);
    opening.dir = 'auto';
    card.append(opening);
  }
  const words = wordsOf(row).slice(0, 10);
  if (words.length) {
    const telling = make('p', 'telling', words.join(' · '));
    telling.dir = 'auto';
    card.append(telling);
  }
  const list = make('ol', 'near');
  for (let i = row * near.width; i < (row + 1) * near.width; i += 1) {
    const item = make('li');
    const bar = make('span', 'score-bar');
    bar.style.setProperty('--part', String(Math.max(0, near.scores[i]) / 10000));
    item.append(make('span', 'score', formatScore(near.scores[i])), bar, documentButton(near.rows[i]));
    const link = reportOf(row, near.rows[i]);
    if (link) { const open = make('a', 'report', 'Report'); open.href = link; item.append(open); }
    list.append(item);
  }
  card.append(make('h3', '', 'Nearest documents'), list);
  showChips();
};
