// Attention between passages: a matrix per head and direction, and their mean.

class ChunkwiseAttention {
  constructor(packed, rows, columns) {
    this.heads = packed.heads;
    this.directions = ['to_b', 'to_a'].filter((direction) => packed[direction]);
    this.packed = packed;
    this.rows = rows;
    this.columns = columns;
    this.kept = new Map();
  }

  // Head by its number from 1, or 'mean'; unpacked when it is first looked at.
  measure(direction, head) {
    const key = `${direction} ${head}`;
    if (!this.kept.has(key)) {
      const own = head === 'mean' ? this.packed[direction].map(decode) : [decode(this.packed[direction][head - 1])];
      const values = own[0].map((_, i) => own.reduce((sum, weights) => sum + weights[i], 0) / own.length);
      const measure = new Measure('attention', values, this.rows, this.columns, false);
      const heads = head !== 'mean' ? `head ${head}` : this.heads > 1 ? `mean of ${this.heads} heads` : '';
      this.kept.set(key, Object.assign(measure, { direction, heads, isWithin: !this.packed.to_a }));
    }
    return this.kept.get(key);
  }
}

// What the numbers of a measure are, in a few words.
const describe = (measure) => {
  if (measure.name !== 'attention') return measure.name;
  const [looks, seen] = measure.isWithin ? ['rows', 'columns'] : measure.direction === 'to_b' ? ['A', 'B'] : ['B', 'A'];
  return [`attention of ${looks} to ${seen}`, measure.heads].filter(Boolean).join(', ');
};

// The colours span the weights there are, so the page says how little they may differ.
const compareWithEven = (measure) => {
  const seen = measure.direction === 'to_b' ? measure.columns : measure.rows;
  const even = 1 / seen;
  const said = `Spread evenly, every weight would be ${measure.format(even)}`;
  return measure.high < 1.1 * even && seen > 1 ? `${said}: these are nearly even, and hardly separate passages.` : `${said}.`;
};

const explain = (measure) => {
  if (measure.name !== 'attention') return '';
  const rows = measure.direction === 'to_b';
  const [looks, seen] = rows ? ['A', 'B'] : ['B', 'A'];
  const meaning = measure.isWithin
    ? 'how much attention every passage (row) pays to each of the next section (columns), the last section to the first; the only passage of a section gets all of it, whatever the model learned'
    : `how much attention every passage of ${looks} pays to each of ${seen}; every ${rows ? 'row' : 'column'} adds up to 1`;
  const words = describe(measure);
  const said = `${words[0].toUpperCase()}${words.slice(1)}: ${meaning}.`;
  return measure.isWithin ? said : `${said} ${compareWithEven(measure)}`;
};

// The strongest pairs [row, column] of a measure.
const strongestPairs = (measure, count) => {
  if (!measure.strongest) {
    const cells = [];
    for (let i = 0; i < measure.values.length; i += 1) if (!Number.isNaN(measure.values[i])) cells.push(i);
    cells.sort((x, y) => measure.values[y] - measure.values[x] || x - y);
    measure.strongest = cells.slice(0, count).map((i) => [Math.floor(i / measure.columns), i % measure.columns]);
  }
  return measure.strongest;
};
