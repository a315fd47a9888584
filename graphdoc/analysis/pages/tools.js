// The buttons of a page's head: light or dark, and printing.

const root = document.documentElement;
const isDark = () => (root.dataset.theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';

document.querySelector('#theme').addEventListener('click', () => {
  root.dataset.theme = isDark() ? 'light' : 'dark';
  try { localStorage.setItem('graphdoc-theme', root.dataset.theme); } catch { /* kept for this visit only */ }
});
document.querySelector('#print').addEventListener('click', () => window.print());
