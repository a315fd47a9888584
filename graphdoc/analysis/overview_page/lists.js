// Tabs, and the lists below them.

const tabs = [...document.querySelectorAll('[role="tab"]')];
const openTab = (name, focusIt = false) => {
  for (const tab of tabs) {
    const chosen = tab.id === `tab-${name}`;
    tab.setAttribute('aria-selected', String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    find(`#panel-${tab.id.slice(4)}`).hidden = !chosen;
    if (chosen && focusIt) tab.focus();
  }
};
for (const tab of tabs) {
  tab.addEventListener('click', () => openTab(tab.id.slice(4)));
  tab.addEventListener('keydown', (event) => {
    const shown = tabs.filter((other) => !other.hidden);
    const at = shown.indexOf(tab);
    const to = { ArrowRight: (at + 1) % shown.length, ArrowLeft: (at + shown.length - 1) % shown.length, Home: 0, End: shown.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    openTab(shown[to].id.slice(4), true);
  });
}

const showGroups = () => {
  for (const button of document.querySelectorAll('.group-name')) {
    const chosen = state.group !== null && Number(button.dataset.pick) === state.group;
    button.setAttribute('aria-pressed', String(chosen));
    button.closest('.group').classList.toggle('is-open', chosen);
  }
};
