// The alignment: pairs of paragraphs that a score by sentences is the sum of, and the sentence pairs of the open one.

const alignedLinks = [...document.querySelectorAll('a.pair[data-pair]')];
const alignedColour = (score, least = 0) => palette().ramp[Math.max(least, levels.passages.similarity.shade(score))];

const sentenceItem = (number, [a, b, cosine, contribution]) => {
  const score = make('span', 'pair-score', make('span', 'score', formatNumber(cosine)), make('small', 'pair-share', `adds ${formatSmall(contribution)}`));
  const end = (side, index) => make('span', 'pair-end', badge(side, index), makeText('span', 'pair-text', excerptOf(side, 'sentences', index)));
  const link = make('a', 'pair sentence-pair', score, end('a', a), end('b', b));
  Object.assign(link.dataset, { level: 'sentences', a, b, pair: number });
  link.href = `#a-p${data.documents.a.sentences[a] + 1}`;
  return make('li', '', link);
};

const sentenceList = (number) => {
  const { sentences, total } = data.alignment[number];
  const note = total > sentences.length
    ? `The ${sentences.length} that add most of ${formatCount(total)} sentence pairs are listed and marked; the rest are in the comparison’s JSON.`
    : `${total === 1 ? 'The sentence pair' : `The ${total} sentence pairs`} of these paragraphs; click one to read it.`;
  return make('div', 'sentence-pairs', make('p', 'note', note), make('ol', '', ...sentences.map((pair) => sentenceItem(number, pair))));
};

// Sentence pairs are listed below the pair of paragraphs that is open, and marked in both texts.
const showAligned = () => {
  for (const link of alignedLinks) {
    const number = Number(link.dataset.pair);
    const isOpen = number === state.aligned;
    link.setAttribute('aria-expanded', String(isOpen));
    link.querySelector('.chip').style.setProperty('--chip', css(alignedColour(data.alignment[number].score)));
    const item = link.closest('li');
    const list = item.querySelector('.sentence-pairs');
    if (isOpen && !list) item.append(sentenceList(number));
    if (!isOpen && list) list.remove();
  }
  const { selection } = state;
  const pair = state.aligned === null ? selection?.level === 'paragraphs' && selection : data.alignment[state.aligned];
  for (const [place, side] of ['a', 'b'].entries()) {
    panes[side].markParagraph(pair ? pair[side] : null, (pair?.sentences || []).map((one) => one[place]));
  }
};

// A paragraph may be longer than the window.
const revealStrongest = ({ sentences: [strongest] }) => {
  if (strongest) for (const [place, side] of ['a', 'b'].entries()) panes[side].reveal('sentences', strongest[place]);
};

const openPair = (number, a, b) => {
  const { selection } = state;
  const pair = data.alignment[number];
  if (a !== undefined) { select('sentences', a, b, number); return; }
  if (state.aligned === number && selection?.level === 'paragraphs') { clear(); return; }
  select('paragraphs', pair.a, pair.b, number);
  revealStrongest(pair);
  const count = pair.total === 1 ? '1 sentence pair' : `${pair.total} sentence pairs`;
  find('#announcement').textContent = `A ${pair.a + 1} and B ${pair.b + 1}: ${count}`;
};

// The pair of the paragraph that a sentence of a text is in: the one that was looked for, if it is listed.
const openPairOf = (side, sentence) => {
  const paragraph = data.documents[side].paragraphs.findIndex(([, last]) => sentence < last);
  const direction = side === 'a' ? 'source' : 'candidate';
  const link = alignedLinks.find(({ dataset }) => dataset.direction === direction && Number(dataset[side]) === paragraph);
  if (!link) return;
  if (Number(link.dataset.pair) !== state.aligned) openPair(Number(link.dataset.pair));
  link.scrollIntoView({ block: 'nearest' });
};

const alignedRibbons = (colours) => {
  const pale = state.selection ? 0.1 : 0.22;
  const ribbons = data.alignment.map(({ a, b, score }) => (
    { level: 'paragraphs', a, b, colour: alignedColour(score, colours.dark ? 40 : 70), alpha: pale }));
  const open = state.aligned === null ? null : data.alignment[state.aligned];
  if (open) {
    ribbons.push({ level: 'paragraphs', a: open.a, b: open.b, colour: colours.accent, alpha: 0.1, edge: true });
    for (const [a, b] of open.sentences) ribbons.push({ level: 'sentences', a, b, colour: colours.accent, alpha: 0.16 });
  }
  return ribbons;
};

// Subtopics: sentences of both texts in the colour of their subtopic, and those of the one that is chosen.

const subtopicButtons = [...document.querySelectorAll('button.subtopic')];
// The chosen subtopic; null for all.
let chosenSubtopic = null;

// Neighbouring numbers get hues that are far apart: steps of the golden angle.
const subtopicHue = (number) => Math.round((number * 137.508 + 18) % 360);
const subtopicColour = (number) => {
  const { dark } = palette();
  return css(toRgb(dark ? 0.42 : 0.9, dark ? 0.075 : 0.065, subtopicHue(number)));
};
const subtopicEdge = (number) => css(toRgb(palette().dark ? 0.76 : 0.5, 0.13, subtopicHue(number)));

const showSubtopics = () => {
  const { alone } = data.subtopics;
  const coloured = state.tool === 'subtopics' && find('#colour-sentences').checked;
  for (const side of ['a', 'b']) {
    for (const [sentence, number] of data.subtopics[side].entries()) {
      const span = panes[side].sentences[sentence];
      if (!span) continue;
      span.classList.toggle('has-subtopic', coloured);
      span.classList.toggle('is-alone', coloured && alone.includes(number));
      span.classList.toggle('is-other', coloured && chosenSubtopic !== null && chosenSubtopic !== number);
      span.style.setProperty('--subtopic', subtopicColour(number));
      span.style.setProperty('--subtopic-edge', subtopicEdge(number));
    }
  }
  for (const button of subtopicButtons) {
    const number = Number(button.dataset.subtopic);
    button.setAttribute('aria-pressed', String(number === chosenSubtopic));
    const chip = button.querySelector('.chip');
    chip.style.setProperty('--chip', subtopicColour(number));
    chip.style.setProperty('--edge', subtopicEdge(number));
  }
};

const chooseSubtopic = (number, reveal = true) => {
  chosenSubtopic = number === chosenSubtopic ? null : number;
  showSubtopics();
  if (chosenSubtopic === null || !reveal) return;
  for (const side of ['a', 'b']) {
    const first = data.subtopics[side].indexOf(chosenSubtopic);
    if (first >= 0) panes[side].reveal('sentences', first);
  }
  const button = subtopicButtons.find(({ dataset }) => Number(dataset.subtopic) === chosenSubtopic);
  find('#announcement').textContent = button ? button.textContent.replace(/\s+/g, ' ').trim() : '';
};

// The subtopic of a sentence that is clicked in a text.
const chooseSubtopicOf = (side, sentence) => {
  const number = data.subtopics[side][sentence];
  if (number === undefined) return;
  if (number !== chosenSubtopic) chooseSubtopic(number, false);
  const button = subtopicButtons.find(({ dataset }) => Number(dataset.subtopic) === number);
  button?.scrollIntoView({ block: 'nearest' });
};

if (data.subtopics) {
  for (const button of subtopicButtons) button.addEventListener('click', () => chooseSubtopic(Number(button.dataset.subtopic)));
  find('#colour-sentences').addEventListener('change', showSubtopics);
}
