'use strict';

// Everything is in the page already; this sorts, hides, unfolds and copies, and loads nothing.
const form = document.querySelector('.filters');
const table = document.querySelector('.fleet-table');
const body = table.tBodies[0];
const rows = [...body.rows];
const heads = [...table.tHead.rows[0].cells];
const parts = [...document.querySelectorAll('[data-server]')];
const shown = document.querySelector('.shown');
const unmatched = document.querySelector('#unmatched');
const announcer = document.querySelector('#announcer');
const order = form.elements.order;
const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

const filter = () => {
  const words = form.elements.search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const states = new Set([...form.querySelectorAll('[name=state]:checked')].map((box) => box.value));
  const tag = form.elements.tag?.value ?? '';
  const owner = form.elements.owner?.value ?? '';
  const fitting = new Set();
  for (const row of rows) {
    const { server, state, tags, owner: own } = row.dataset;
    if (states.has(state)
      && (tag === '' || tags.split(' ').includes(tag))
      && (owner === '' || own === owner)
      && words.every((word) => texts.get(row).includes(word))) fitting.add(server);
  }
  for (const part of parts) part.hidden = !fitting.has(part.dataset.server);
  unmatched.hidden = fitting.size > 0 || rows.length === 0;
  shown.textContent = `${fitting.size} of ${rows.length} servers shown`;
};

const valueOf = (row, column) => {
  const cell = row.cells[column];
  const value = cell.dataset.value ?? '';
  if (value !== '') return Number(value);
  const isWord = heads[column].classList.contains('words');
  const text = (cell.querySelector('a') ?? cell).textContent.trim().toLowerCase();
  return isWord ? text : null;
};

// What is not known comes last in both directions; equal rows keep their first order.
const compare = (first, second, sign) => {
  if (first === null || second === null) return (first === null) - (second === null);
  if (typeof first !== typeof second) return (typeof first === 'string') - (typeof second === 'string');
  if (typeof first === 'number') return sign * (first - second);
  return sign * first.localeCompare(second, undefined, { numeric: true });
};

const sort = (column, direction) => {
  const sign = direction === 'descending' ? -1 : 1;
  const sorted = column === null ? rows : [...rows].sort(
    (first, second) => compare(valueOf(first, column), valueOf(second, column), sign),
  );
  body.append(...sorted);
  heads.forEach((head, place) => {
    if (place === column) head.setAttribute('aria-sort', direction);
    else head.removeAttribute('aria-sort');
  });
  order.value = column === null ? '' : String(column);
};

const firstOf = (head) => head.dataset.first ?? 'ascending';

heads.forEach((head, place) => {
  if ('fixed' in head.dataset) return;
  const button = document.createElement('button');
  button.type = 'button';
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener('click', () => {
    const before = head.getAttribute('aria-sort');
    const other = before === 'ascending' ? 'descending' : 'ascending';
    sort(place, before === null ? firstOf(head) : other);
  });
});

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
  const part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!part?.classList.contains('server')) return;
  if (part.hidden) { form.reset(); filter(); }
  part.open = true;
  part.scrollIntoView();
};

form.hidden = false;
form.addEventListener('input', (event) => {
  if (event.target !== order) filter();
  else if (order.value === '') sort(null);
  else sort(Number(order.value), firstOf(heads[order.value]));
});
form.addEventListener('submit', (event) => event.preventDefault());
form.addEventListener('reset', () => setTimeout(() => { sort(null); filter(); }));
for (const button of document.querySelectorAll('.copy')) {
  button.hidden = false;
  button.addEventListener('click', () => copy(button));
}
// A link to a server that was followed before does not change the address.
document.addEventListener('click', (event) => {
  if (event.target.closest('a[href^="#server-"]')) setTimeout(follow);
});

// On paper nothing unfolds, so what is not as expected is printed unfolded.
let folded = [];
addEventListener('beforeprint', () => {
  folded = [...document.querySelectorAll('.server:not([open])')]
    .filter((each) => !each.hidden && each.querySelector('summary .fail'));
  for (const each of folded) each.open = true;
});
addEventListener('afterprint', () => { for (const each of folded) each.open = false; });
addEventListener('hashchange', follow);
filter();
follow();
