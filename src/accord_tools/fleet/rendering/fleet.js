'use strict';

// Everything is in the page already; this sorts, hides, unfolds and copies, and loads nothing.
const form = document.querySelector('.filters');
const table = document.querySelector('.fleet-table');
// Each server is a body of the table with two rows.
const rows = [...table.tBodies];
const heads = [...table.tHead.rows[0].cells];
const parts = [...document.querySelectorAll('[data-server]')];
const shown = document.querySelector('.shown');
const unmatched = document.querySelector('#unmatched');
const announcer = document.querySelector('#announcer');
const order = form.elements.order;
const textual = new Set(['server', 'version']);
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

const valueOf = (row, name) => {
  const cell = row.querySelector(`[data-name="${name}"]`);
  const value = cell?.dataset.value ?? '';
  if (value !== '') return Number(value);
  // A word that sorts as a text; a number that is not known has none.
  const text = (cell?.querySelector('a') ?? cell)?.textContent.trim().toLowerCase();
  return textual.has(name) && text ? text : null;
};

// What is not known comes last in both directions; equal rows keep their first order.
const compare = (first, second, sign) => {
  if (first === null || second === null) return (first === null) - (second === null);
  if (typeof first !== typeof second) return (typeof first === 'string') - (typeof second === 'string');
  if (typeof first === 'number') return sign * (first - second);
  return sign * first.localeCompare(second, undefined, { numeric: true });
};

const sort = (name, direction) => {
  const sign = direction === 'descending' ? -1 : 1;
  const sorted = name === '' ? rows : [...rows].sort(
    (first, second) => compare(valueOf(first, name), valueOf(second, name), sign),
  );
  table.append(...sorted);
  for (const head of heads) {
    if (head.dataset.name === name) head.setAttribute('aria-sort', direction);
    else head.removeAttribute('aria-sort');
  }
  order.value = name;
};

for (const head of heads) {
  if ('fixed' in head.dataset) continue;
  const button = document.createElement('button');
  button.type = 'button';
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener('click', () => {
    const before = head.getAttribute('aria-sort');
    const other = before === 'ascending' ? 'descending' : 'ascending';
    sort(head.dataset.name, before === null ? head.dataset.first ?? 'ascending' : other);
  });
}

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
  // The details of a server, or a part of them such as its tests; without the part the whole.
  const found = location.hash.match(/^#(server-\d+)(-[a-z]+)?$/);
  const server = found && document.getElementById(found[1]);
  if (!server) return;
  if (server.hidden) { form.reset(); filter(); }
  server.open = true;
  (document.getElementById(found[0].slice(1)) ?? server).scrollIntoView();
};

form.hidden = false;
form.addEventListener('input', (event) => {
  if (event.target !== order) filter();
  else sort(order.value, order.selectedOptions[0].dataset.first);
});
form.addEventListener('submit', (event) => event.preventDefault());
form.addEventListener('reset', () => setTimeout(() => { sort(''); filter(); }));
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
  folded = [...document.querySelectorAll('.attention:not([open])')].filter((each) => !each.hidden);
  for (const each of folded) each.open = true;
});
addEventListener('afterprint', () => { for (const each of folded) each.open = false; });
addEventListener('hashchange', follow);
filter();
follow();
