'use strict';

// Everything is in the page already; this sorts, hides, unfolds and copies, and loads nothing.
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const form = document.querySelector('.filters');
// What is chosen from: the results of a check, or the servers of a fleet.
const rows = all('[data-row]');
// What belongs to a server of a fleet, below the table.
const parts = all('[data-server]:not([data-row])');
const table = document.querySelector('.fleet-table');
const heads = table ? [...table.tHead.rows[0].cells] : [];
const announcer = document.querySelector('#announcer');
const texts = new Map();

const textOf = (row) => {
  if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
  return texts.get(row);
};

const filter = () => {
  const words = form.elements.search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = all('select:not([name=order])', form).filter((list) => list.value !== '');
  const off = all('[type=checkbox]:not(:checked)', form);
  const servers = new Set();
  let count = 0;
  for (const row of rows) {
    const fits = off.every((box) => row.dataset[box.name] !== box.value)
      && chosen.every((list) => row.dataset[list.name].split(',').includes(list.value))
      && words.every((word) => textOf(row).includes(word));
    row.hidden = !fits;
    count += fits;
    if (fits) servers.add(row.dataset.server);
  }
  for (const part of parts) part.hidden = !servers.has(part.dataset.server);
  for (const section of all('[data-counted]')) {
    const left = all('[data-row]:not([hidden])', section).length;
    section.hidden = left === 0;
    section.querySelector('.count').textContent = left;
    if (words.length > 0 || chosen.length > 0) section.querySelector('.group').open = true;
  }
  document.querySelector('#unmatched').hidden = count > 0 || rows.length === 0;
  form.querySelector('.shown').textContent = `${count} of ${rows.length} ${form.dataset.noun} shown`;
};

const valueOf = (row, name) => {
  const cell = row.querySelector(`[data-name="${name}"]`);
  if (cell?.dataset.value) return Number(cell.dataset.value);
  // A word that sorts as a text; a number that is not known has none.
  return cell && 'text' in cell.dataset ? cell.textContent.trim().toLowerCase() : null;
};

// What is not known comes last in both directions; equal rows keep their first order.
const compare = (first, second, sign) => {
  if (first === null || second === null) return (first === null) - (second === null);
  if (typeof first === 'number') return sign * (first - second);
  return sign * first.localeCompare(second, undefined, { numeric: true });
};

const sort = (name, direction) => {
  const sign = direction === 'descending' ? -1 : 1;
  table.append(...(name === '' ? rows : [...rows].sort(
    (first, second) => compare(valueOf(first, name), valueOf(second, name), sign),
  )));
  for (const head of heads) {
    if (head.dataset.name === name) head.setAttribute('aria-sort', direction);
    else head.removeAttribute('aria-sort');
  }
  form.elements.order.value = name;
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
    sort(head.dataset.name, before === null ? head.dataset.first : other);
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

// Show the result, or the server, that the address names; a part that it lacks is its whole.
const follow = () => {
  const id = decodeURIComponent(location.hash.slice(1));
  const named = document.getElementById(id) ?? document.getElementById(id.replace(/-[a-z]+$/, ''));
  let folded = named?.closest('.result[id]');
  if (!folded) return;
  if (folded.hidden) { form.reset(); filter(); }
  for (; folded; folded = folded.parentElement.closest('details')) folded.open = true;
  named.scrollIntoView();
};

const unfold = (open) => {
  if (open) for (const group of all('.group')) group.open = true;
  for (const row of rows) if (!row.hidden) row.open = open;
};

if (form) {
  form.hidden = false;
  form.addEventListener('input', ({ target }) => {
    if (target.name === 'order') sort(target.value, target.selectedOptions[0].dataset.first);
    else filter();
  });
  form.addEventListener('submit', (event) => event.preventDefault());
  form.addEventListener('reset', () => setTimeout(() => { if (table) sort(''); filter(); }));
  form.querySelector('#unfold')?.addEventListener('click', () => unfold(true));
  form.querySelector('#fold')?.addEventListener('click', () => unfold(false));
  filter();
}
for (const button of all('.copy')) {
  button.hidden = false;
  button.addEventListener('click', () => copy(button));
}
// A link that was followed before does not change the address.
document.addEventListener('click', (event) => {
  if (event.target.closest('a[href^="#"]')) setTimeout(follow);
});

// On paper nothing unfolds, so what is broken or not as expected is printed unfolded.
let folded = [];
addEventListener('beforeprint', () => {
  folded = all('.attention:not([open])').filter((each) => !each.hidden);
  for (const each of folded) each.open = true;
});
addEventListener('afterprint', () => { for (const each of folded) each.open = false; });
addEventListener('hashchange', follow);
follow();
