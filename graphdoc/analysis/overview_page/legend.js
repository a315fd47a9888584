// What colours mean, where the map is not coloured by groups; a click on a value looks at its documents alone.

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
    const ends = make('p', 'date-ends');
    ends.append(make('span', '', String(Math.floor(field.low / 1000))), make('span', '', String(Math.floor(field.high / 1000))));
    place.append(bar, ends);
    return;
  }
  const list = make('ul');
  field.list.slice(0, OTHERS).forEach((name, kind) => {
    const item = make('li');
    const chip = make('span', 'chip');
    chip.style.background = colourOfKind(field, kind);
    const value = make('bdi', '', name);
    item.append(chip, value, make('span', 'size', formatCount(field.counts[kind])));
    list.append(item);
  });
  const rest = field.counts.slice(OTHERS).reduce((sum, own) => sum + own, 0);
  if (rest) {
    const item = make('li');
    const chip = make('span', 'chip');
    chip.style.background = muted();
    item.append(chip, make('span', '', `${formatCount(field.list.length - OTHERS)} others`), make('span', 'size', formatCount(rest)));
    list.append(item);
  }
  place.append(list);
};

const showChips = () => {
  for (const chip of document.querySelectorAll('[data-chip]')) chip.style.background = shade(hueOfGroup[Number(chip.dataset.chip)]);
};
