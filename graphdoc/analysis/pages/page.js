// What the scripts of all pages share: finding and making elements, light and dark, tabs.

const root = document.documentElement;
const find = (selector) => document.querySelector(selector);
const data = JSON.parse(find('#data')?.textContent ?? 'null');
const prefersDark = window.matchMedia('(prefers-color-scheme: dark)');
const isDark = () => prefersDark.matches;
// What a page draws in its own colours is redrawn when they change.
const redrawWith = (draw) => prefersDark.addEventListener('change', draw);

const make = (tag, className = '', ...children) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
};
// Text of a document may run in either direction.
const makeText = (tag, className, text) => Object.assign(make(tag, className, text), { dir: 'auto' });
const button = (text, action, className = 'plain') => {
  const element = Object.assign(make('button', className, text), { type: 'button' });
  if (action) element.addEventListener('click', action);
  return element;
};
const chip = (colour) => {
  const element = make('span', 'chip');
  element.style.background = colour;
  return element;
};

// Numbers that were packed for the page.
const unpack = (text, Kind) => new Kind(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer);
const formatNumber = (value, decimals = 3) => (Number.isFinite(value) ? value.toFixed(decimals).replace('-', '−') : 'no value');
const formatCount = (value) => value.toLocaleString('en-US');

// A list of tabs: a click or a key opens one.
const tabs = [...document.querySelectorAll('[role="tab"]')];
const nameOfTab = (tab) => tab.id.slice(4);
const chooseTab = (name) => {
  for (const tab of tabs) {
    const isChosen = nameOfTab(tab) === name;
    tab.setAttribute('aria-selected', String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1;
  }
};
const wireTabs = (open) => {
  for (const tab of tabs) {
    tab.addEventListener('click', () => open(nameOfTab(tab)));
    tab.addEventListener('keydown', (event) => {
      const shown = tabs.filter((other) => other.getClientRects().length);
      const at = shown.indexOf(tab);
      const to = { ArrowRight: (at + 1) % shown.length, ArrowLeft: (at + shown.length - 1) % shown.length, Home: 0, End: shown.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      open(nameOfTab(shown[to]));
      shown[to].focus();
    });
  }
};
