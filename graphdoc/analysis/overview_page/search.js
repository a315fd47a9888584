// Search over titles, ids, labels and the telling words of documents, all in the page.

const LISTED = 100;
const folded = (text) => text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
let haystack = null;

// Words begin after a space, so that a part of a word is found where the word begins.
const haystacks = () => {
  if (haystack) return haystack;
  const words = data.words.list.map(folded);
  const named = [...fields.values()].filter((field) => field.kind !== 'group');
  haystack = data.titles.map((title, row) => {
    const telling = Array.from(wordPlaces.subarray(wordEnds[row], wordEnds[row + 1]), (place) => words[place]);
    const values = named.map((field) => valueIn(field, row));
    return ` ${folded([title, data.ids[row], ...values].join(' ')).replace(/[^\p{L}\p{N}]+/gu, ' ')} ${telling.join(' ')}`;
  });
  return haystack;
};

const search = (text) => {
  const asked = folded(text).replace(/[^\p{L}\p{N}]+/gu, ' ').trim().split(' ').filter(Boolean);
  if (!asked.length) return null;
  // Scripts without spaces between words are found anywhere.
  const parts = asked.map((word) => (/[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]/.test(word) ? word : ` ${word}`));
  const found = [];
  haystacks().forEach((hay, row) => { if (parts.every((part) => hay.includes(part))) found.push(row); });
  // Titles that have all the words come first.
  const inTitle = (row) => { const title = ` ${folded(data.titles[row]).replace(/[^\p{L}\p{N}]+/gu, ' ')}`; return parts.every((part) => title.includes(part)); };
  const titled = new Set(found.filter(inTitle));
  return [...titled, ...found.filter((row) => !titled.has(row))];
};

const showFound = (rows) => {
  state.found = rows && new Set(rows);
  const tab = find('#tab-found');
  tab.hidden = rows === null;
  find('#found').textContent = rows === null ? '' : formatCount(rows.length);
  find('#found').setAttribute('aria-label', rows === null ? '' : `${formatCount(rows.length)} documents found`);
  find('#found-count').textContent = rows === null ? '' : formatCount(rows.length);
  const list = find('#results');
  list.replaceChildren();
  if (rows === null) {
    if (tab.getAttribute('aria-selected') === 'true') openTab('groups');
    return;
  }
  for (const row of rows.slice(0, LISTED)) {
    const item = make('li');
    item.append(documentButton(row));
    list.append(item);
  }
  if (!rows.length) list.append(make('li', 'note', 'No title and no telling word begins so.'));
  if (rows.length > LISTED) list.append(make('li', 'note', `and ${formatCount(rows.length - LISTED)} more; the table lists all`));
  openTab('found');
};
