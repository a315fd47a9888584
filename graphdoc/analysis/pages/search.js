// Buttons, and passages cut to the stretch with the matching words; all texts are in the page already.

const showWhole = (passage, whole) => {
  passage.classList.toggle('is-whole', whole);
  passage.querySelector('.whole').setAttribute('aria-expanded', String(whole));
};

for (const button of document.querySelectorAll('.whole')) {
  button.addEventListener('click', () => showWhole(button.closest('.passage'), button.getAttribute('aria-expanded') !== 'true'));
}

// The sentences of a pair stand out in both texts above it; pressed again, they no longer do.
for (const button of document.querySelectorAll('.sentence-pair')) {
  button.addEventListener('click', () => {
    const pair = button.closest('.pair');
    const chosen = button.getAttribute('aria-pressed') !== 'true';
    for (const other of pair.querySelectorAll('.sentence-pair')) other.setAttribute('aria-pressed', String(chosen && other === button));
    for (const mark of pair.querySelectorAll('mark')) mark.classList.toggle('is-chosen', chosen && mark.dataset.pairs.split(' ').includes(button.dataset.pair));
  });
}

document.querySelector('#open-all')?.addEventListener('click', ({ currentTarget: button }) => {
  const open = button.getAttribute('aria-pressed') !== 'true';
  button.setAttribute('aria-pressed', String(open));
  for (const part of document.querySelectorAll('details.why, details.pair')) part.open = open;
  for (const whole of document.querySelectorAll('.whole')) showWhole(whole.closest('.passage'), open);
});
