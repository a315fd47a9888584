(() => {
  const root = document.documentElement;
  root.classList.add('js');
  try {
    const theme = localStorage.getItem('graphdoc-theme');
    if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
  } catch { /* storage is closed to some local files; the system's theme is used */ }
})();
