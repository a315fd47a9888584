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

const isColoured = () => state.tool === 'subtopics' && find('#colour-sentences').checked;

const showSubtopics = () => {
  const { alone } = data.subtopics;
  for (const side of ['a', 'b']) {
    for (const [sentence, number] of data.subtopics[side].entries()) {
      const span = panes[side].sentences[sentence];
      if (!span) continue;
      const coloured = isColoured();
      span.classList.toggle('has-subtopic', coloured);
      span.classList.toggle('is-alone', coloured && alone.includes(number));
      span.classList.toggle('is-other', coloured && chosenSubtopic !== null && chosenSubtopic !== number);
      span.style.setProperty('--subtopic', coloured ? subtopicColour(number) : 'transparent');
      span.style.setProperty('--subtopic-edge', coloured ? subtopicEdge(number) : 'transparent');
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
