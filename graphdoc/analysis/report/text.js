// The two texts: marks next to the passages, highlights, scrolling, and the ribbons between matching passages.

const WORD = /[\p{L}\p{N}]{4,}/gu;
const isReduced = () => window.matchMedia('(prefers-reduced-motion: reduce)').matches;

class TextPane {
  // Paragraphs as numbers of their first sentence and of one past the last; none where there are no sentences.
  constructor(element, act, paragraphs = []) {
    this.element = element;
    this.side = element.dataset.side;
    this.paragraphs = paragraphs;
    this.sentences = [];
    for (const span of element.querySelectorAll('[data-sentence]')) this.sentences[Number(span.dataset.sentence)] = span;
    this.passages = [...element.querySelectorAll('.passage')];
    this.sections = [...element.querySelectorAll('.part')];
    this.pins = this.passages.map((passage) => passage.querySelector('.pin'));
    this.pins.forEach((pin, i) => { pin.tabIndex = i === 0 ? 0 : -1; });
    element.addEventListener('click', (event) => {
      const passage = event.target.closest('.passage');
      if (!passage || event.target.closest('.best') || event.ctrlKey || event.metaKey) return;
      const chosen = window.getSelection();
      const isPin = event.target.closest('.pin');
      if (!isPin && chosen && !chosen.isCollapsed) return;
      event.preventDefault();
      const sentence = isPin ? null : event.target.closest('[data-sentence]');
      act.focus(this.side, Number(passage.dataset.index), sentence && Number(sentence.dataset.sentence));
    });
    element.addEventListener('keydown', (event) => {
      const at = this.pins.indexOf(event.target);
      if (at < 0) return;
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.pins.length - 1 }[event.key];
      if (to === undefined || !this.pins[to]) return;
      event.preventDefault();
      this.rove(to);
      this.pins[to].focus();
    });
    element.addEventListener('scroll', act.scrolled, { passive: true });
    new ResizeObserver(() => { this.extents = null; act.scrolled(); }).observe(element.querySelector('.text'));
  }

  rove(index) {
    this.pins.forEach((pin, i) => { pin.tabIndex = i === index ? 0 : -1; });
  }

  get scrolls() { return getComputedStyle(this.element).overflowY !== 'visible'; }

  textOf(index) { return this.passages[index].querySelector('p').textContent; }

  target(level, index) {
    if (level === 'sections') return this.sections[index];
    if (level === 'passages') return this.passages[index];
    return level === 'paragraphs' ? this.sentencesOf(index)[0] : this.sentences[index];
  }

  sentencesOf(paragraph) {
    return this.paragraphs[paragraph] ? this.sentences.slice(...this.paragraphs[paragraph]).filter(Boolean) : [];
  }

  // A paragraph and the sentences of it that are in pairs; null for none.
  markParagraph(paragraph, paired) {
    for (const name of ['is-of-paragraph', 'is-paired']) for (const old of this.element.querySelectorAll(`.${name}`)) old.classList.remove(name);
    for (const span of this.sentencesOf(paragraph)) span.classList.add('is-of-paragraph');
    for (const index of paired) this.sentences[index]?.classList.add('is-paired');
  }

  mark(values, measure, palette) {
    this.passages.forEach((passage, i) => {
      const value = values[i];
      passage.classList.toggle('is-marked', Number.isFinite(value) && value >= measure.threshold);
      passage.style.setProperty('--mark', Number.isFinite(value) ? css(palette.ramp[measure.shade(value)]) : 'transparent');
    });
  }

  highlight(level, index, className) {
    for (const old of this.element.querySelectorAll(`.${className}`)) old.classList.remove(className);
    // The sentences of a paragraph are marked instead.
    if (index === null || level === 'paragraphs') return;
    const target = this.target(level, index);
    if (!target) return;
    target.classList.add(className);
    if (level === 'sentences') target.closest('.passage').classList.add(className);
  }

  reveal(level, index) {
    const target = this.target(level, index);
    if (!target?.getClientRects().length) return;
    const scroller = this.scrolls ? this.element : document.scrollingElement;
    const height = this.scrolls ? this.element.clientHeight : window.innerHeight;
    const offset = this.scrolls ? this.element.getBoundingClientRect().top : 0;
    const size = target.getBoundingClientRect().height;
    const margin = Math.max(64, Math.min(height * 0.28, (height - size) / 2));
    const top = Math.max(0, scroller.scrollTop + target.getBoundingClientRect().top - offset - margin);
    // A long way is jumped but for its last part, so that the eye sees where it arrives and waits for nothing.
    const distance = top - scroller.scrollTop;
    if (!isReduced() && Math.abs(distance) > height) scroller.scrollTo({ top: top - Math.sign(distance) * height * 0.5, behavior: 'instant' });
    scroller.scrollTo({ top, behavior: isReduced() ? 'instant' : 'smooth' });
  }

  // Top and bottom of a part in the pane's window; kept, because reading them forces a layout.
  extent(level, index) {
    this.extents ||= new Map();
    const key = `${level} ${index}`;
    if (!this.extents.has(key)) {
      const origin = this.element.getBoundingClientRect().top - this.element.scrollTop;
      const first = this.target(level, index);
      const last = level === 'paragraphs' ? this.sentencesOf(index).at(-1) : first;
      const place = (element, edge) => (element ? element.getBoundingClientRect()[edge] - origin : NaN);
      this.extents.set(key, [place(first, 'top'), place(last, 'bottom')]);
    }
    const [top, bottom] = this.extents.get(key);
    return [top - this.element.scrollTop, bottom - this.element.scrollTop];
  }
}

const drawRibbons = (canvas, paneA, paneB, ribbons, palette) => {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width || !height || !paneA.scrolls) return;
  const context = fitCanvas(canvas, width, height);
  const head = 44; // height of the panes' headers, which cover what scrolls beneath them
  context.fillStyle = css(palette.line);
  context.fillRect(0, head - 1, width, 1);
  context.beginPath();
  context.rect(0, head, width, height - head);
  context.save();
  context.clip();
  for (const { level, a, b, colour, alpha, edge } of ribbons) {
    const [a0, a1] = paneA.extent(level, a);
    const [b0, b1] = paneB.extent(level, b);
    const isSeen = (top, bottom) => bottom > head && top < height;
    if (!isSeen(a0, a1) && !isSeen(b0, b1)) continue;
    // A ribbon to a place out of sight only hints at it.
    const strength = edge || (isSeen(a0, a1) && isSeen(b0, b1)) ? alpha : alpha * 0.4;
    const clamp = (value) => Math.max(-400, Math.min(height + 400, value));
    const [y0, y1, z0, z1] = [a0 + 2, a1 - 2, b0 + 2, b1 - 2].map(clamp);
    const half = width / 2;
    context.beginPath();
    context.moveTo(0, y0);
    context.bezierCurveTo(half, y0, half, z0, width, z0);
    context.lineTo(width, z1);
    context.bezierCurveTo(half, z1, half, y1, 0, y1);
    context.closePath();
    context.fillStyle = css(colour, strength);
    context.fill();
    if (edge) {
      context.strokeStyle = css(colour, 0.9);
      context.lineWidth = 1.25;
      context.stroke();
    }
  }
  context.restore();
};

const wordsOf = (text) => new Set(text.toLowerCase().match(WORD));

// How many passages of both documents use a word; a word of many passages says nothing about a pair.
const countWords = (texts) => {
  const counts = new Map();
  for (const text of texts) for (const word of wordsOf(text)) counts.set(word, (counts.get(word) || 0) + 1);
  return counts;
};

const underline = (elements, words) => {
  if (!('highlights' in CSS)) return;
  const highlight = new Highlight();
  for (const element of elements) {
    const walker = document.createTreeWalker(element.querySelector('p'), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      for (const match of walker.currentNode.data.matchAll(WORD)) {
        if (!words.has(match[0].toLowerCase())) continue;
        const range = new Range();
        range.setStart(walker.currentNode, match.index);
        range.setEnd(walker.currentNode, match.index + match[0].length);
        highlight.add(range);
      }
    }
  }
  CSS.highlights.set('shared-words', highlight);
};
