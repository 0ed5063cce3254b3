'use strict';

// Everything is in the page already; this hides, unfolds and copies, and asks nobody for anything.
const form = document.querySelector('.filters');
const results = [...document.querySelectorAll('.result')];
const sections = [...document.querySelectorAll('main > section')];
const unmatched = document.querySelector('#unmatched');
const shown = document.querySelector('.shown');
const announcer = document.querySelector('#announcer');
const texts = new Map();

const textOf = (result) => {
  if (!texts.has(result)) texts.set(result, result.textContent.toLowerCase());
  return texts.get(result);
};

const filter = () => {
  const words = form.elements.search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const verdicts = new Set([...form.querySelectorAll('[name=verdict]:checked')].map((box) => box.value));
  const chosen = ['area', 'level', 'party'].map((name) => [name, form.elements[name].value]);
  let count = 0;
  for (const result of results) {
    const fits = verdicts.has(result.dataset.verdict)
      && chosen.every(([name, value]) => value === '' || result.dataset[name] === value)
      && words.every((word) => textOf(result).includes(word));
    result.hidden = !fits;
    count += fits;
  }
  const isNarrowed = words.length > 0 || chosen.some(([, value]) => value !== '');
  for (const section of sections) {
    const left = section.querySelectorAll('.result:not([hidden])').length;
    section.hidden = left === 0;
    section.querySelector('.count').textContent = left;
    if (isNarrowed) section.querySelector('.group').open = true;
  }
  unmatched.hidden = count > 0 || results.length === 0;
  shown.textContent = `${count} of ${results.length} requirements shown`;
};

const unfold = (open) => {
  if (open) for (const group of document.querySelectorAll('.group')) group.open = true;
  for (const result of results) if (!result.hidden) result.open = open;
};

const copy = async (button) => {
  const code = button.parentElement.querySelector('code');
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = 'Copied';
    announcer.textContent = 'The command was copied';
    setTimeout(() => { button.textContent = 'Copy'; announcer.textContent = ''; }, 2000);
  } catch {
    // Pages from files may not write to the clipboard everywhere; the user can, with one key.
    getSelection().selectAllChildren(code);
    announcer.textContent = 'The command is selected';
  }
};

const follow = () => {
  const result = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!result?.classList.contains('result')) return;
  form.reset();
  filter();
  result.closest('.group').open = true;
  result.open = true;
  result.scrollIntoView();
};

form.hidden = false;
form.addEventListener('input', filter);
form.addEventListener('submit', (event) => event.preventDefault());
form.addEventListener('reset', () => setTimeout(filter));
document.querySelector('#unfold').addEventListener('click', () => unfold(true));
document.querySelector('#fold').addEventListener('click', () => unfold(false));
for (const button of document.querySelectorAll('.copy')) {
  button.hidden = false;
  button.addEventListener('click', () => copy(button));
}

// On paper nothing unfolds, so what is broken is printed unfolded.
let folded = [];
addEventListener('beforeprint', () => {
  folded = results.filter((result) => !result.open && /^(fail|warn)$/.test(result.dataset.verdict));
  for (const result of folded) result.open = true;
});
addEventListener('afterprint', () => { for (const result of folded) result.open = false; });
addEventListener('hashchange', follow);
filter();
follow();
